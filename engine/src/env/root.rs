//! The folder that contains `/proc` and `/sys`: the file system's root, or a folder made by a test.

use std::path::{Path, PathBuf};

/// Reader of small text files under a root.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// The file system's own.
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A root at another folder.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Path of `relative` (no leading slash) under the root.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative.trim_start_matches('/'))
    }

    /// The whole text of a file, if it can be read.
    pub(super) fn text(&self, relative: &str) -> Option<String> {
        std::fs::read_to_string(self.path(relative)).ok()
    }

    /// The text of a file without the space around it, if there is any.
    pub(super) fn line(&self, relative: &str) -> Option<String> {
        let text = self.text(relative)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The number in a file that holds nothing else.
    pub(super) fn number<T: std::str::FromStr>(&self, relative: &str) -> Option<T> {
        self.line(relative)?.parse().ok()
    }

    /// Names in a folder, sorted. Empty if it cannot be read.
    pub(super) fn names(&self, relative: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(relative)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! A machine made of files, for the tests of this folder.

    use super::Root;

    /// A root with these files, by path below it and text; it lasts as long as the folder.
    pub fn root_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }
}
