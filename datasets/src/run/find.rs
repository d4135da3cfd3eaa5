//! The runs below a folder, whatever the levels between: `runs/`, or a dataset in Hive's partitions.

use std::path::{Path, PathBuf};

use super::{ROWS_CSV, ROWS_PARQUET, RUN_JSON};
use crate::error::{Error, Result};

/// The runs at a path: the path itself if it is a file or a run's folder, else all run folders below it, by name.
///
/// # Errors
/// Fails with [`Error::NoRun`] if there is none, or if a folder cannot be read.
pub fn find_runs(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut runs = Vec::new();
    collect_runs(path, &mut runs)?;
    if runs.is_empty() {
        return Err(Error::NoRun {
            path: path.to_owned(),
        });
    }
    runs.sort();
    Ok(runs)
}

fn collect_runs(folder: &Path, runs: &mut Vec<PathBuf>) -> Result<()> {
    // A folder with a manifest and no rows is a damaged run, which reading it will say.
    if [ROWS_CSV, ROWS_PARQUET, RUN_JSON]
        .iter()
        .any(|file| folder.join(file).exists())
    {
        runs.push(folder.to_owned());
        return Ok(());
    }
    let unreadable = |source| Error::Io {
        action: "read",
        path: folder.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Links are not followed: they may lead round in a circle.
        if !hidden && entry.file_type().is_ok_and(|t| t.is_dir()) {
            collect_runs(&entry.path(), runs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_at_any_depth_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for run in ["b", "a/model=x/sweep=y", "a/.hidden/z"] {
            std::fs::create_dir_all(path(run)).unwrap();
            std::fs::write(path(run).join(ROWS_CSV), "").unwrap();
        }
        std::fs::create_dir_all(path("empty/logs")).unwrap();
        assert_eq!(
            find_runs(root.path()).unwrap(),
            [path("a/model=x/sweep=y"), path("b")]
        );
        assert_eq!(find_runs(&path("b")).unwrap(), [path("b")]);
        assert_eq!(
            find_runs(&path("rows.jsonl")).unwrap(),
            [path("rows.jsonl")]
        );
        let error = find_runs(&path("empty")).unwrap_err();
        assert!(matches!(error, Error::NoRun { .. }), "{error}");
    }
}
