//! The name and the directory of a run, when the user gives none.

use std::path::{Path, PathBuf};

use opdata::{Timestamp, safe_file_name};
use opengine::device::Target;
use opmodels::ImportRequest;

/// `20260131T235959Z-resnet-18-llvm`: sorted by name is sorted by time (UTC).
pub(super) fn run_id(model: &ImportRequest, target: &Target, now: Timestamp) -> String {
    let name = safe_file_name(&model.source.short_name(&model.model), 60);
    format!("{}-{name}-{}", now.compact(), target.device.name())
}

/// `runs/<id>`, or `runs/<id>-2` and so on when that is there already.
pub(super) fn free_directory(parent: &Path, run_id: String) -> (PathBuf, String) {
    let mut id = run_id.clone();
    let mut attempt = 1;
    while parent.join(&id).exists() {
        attempt += 1;
        id = format!("{run_id}-{attempt}");
    }
    (parent.join(&id), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number() {
        let parent = tempfile::tempdir().unwrap();
        let id = |n: &str| free_directory(parent.path(), n.to_owned()).1;
        assert_eq!(id("a"), "a");
        std::fs::create_dir(parent.path().join("a")).unwrap();
        std::fs::create_dir(parent.path().join("a-2")).unwrap();
        assert_eq!(id("a"), "a-3");
    }
}
