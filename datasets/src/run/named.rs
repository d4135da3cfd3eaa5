//! Runs by name: a path, a run's id, the name that its user gave, `latest`, or `latest~N` for the N-th before it.
//!
//! Does not read rows: everything is in each run's `run.json`.

use std::path::{Path, PathBuf};

use super::{RunManifest, find_runs};
use crate::error::{Error, Result};

/// The word for the newest run.
const LATEST: &str = "latest";

/// The folder where runs are, seen from the working directory.
pub const RUNS: &str = "runs";

/// A run's folder and its manifest, or why that cannot be read.
pub type Found = (PathBuf, Result<RunManifest>);

/// The runs below `folder`, the newest first; those whose manifest cannot be read come last.
///
/// # Errors
/// Fails with [`Error::NoRun`] if there is none, or if a folder cannot be read.
pub fn all_runs(folder: &Path) -> Result<Vec<Found>> {
    if !folder.is_dir() {
        return Err(Error::NotFound {
            path: folder.to_owned(),
        });
    }
    let mut all: Vec<Found> = find_runs(folder)?
        .into_iter()
        .map(|path| {
            let manifest = RunManifest::load(&path);
            (path, manifest)
        })
        .collect();
    all.sort_by_key(|(_, manifest)| std::cmp::Reverse(manifest.as_ref().ok().map(|m| m.created)));
    Ok(all)
}

/// The path that a user means by `word`; `folder` holds the runs. An existing path is preferred to a name. A word that
/// names no run stays a path, and reading it fails.
///
/// # Errors
/// Fails for `latest` or `latest~N` if there are too few runs.
pub fn named_run(word: &Path, folder: &Path) -> Result<PathBuf> {
    let Some(name) = word.to_str().filter(|name| !name.contains('/')) else {
        return Ok(word.to_owned());
    };
    if word.exists() {
        return Ok(word.to_owned());
    }
    if let Some(back) = steps_back(name) {
        let runs = if folder.is_dir() {
            all_runs(folder)?
        } else {
            Vec::new()
        };
        let mut readable = runs.into_iter().filter(|(_, manifest)| manifest.is_ok());
        return match readable.nth(back) {
            Some((path, _)) => Ok(path),
            None => Err(Error::NoSuchRun {
                word: name.to_owned(),
                folder: folder.to_owned(),
            }),
        };
    }
    let runs = all_runs(folder).unwrap_or_default();
    let found = runs.into_iter().find(|(_, manifest)| {
        let manifest = manifest.as_ref();
        manifest.is_ok_and(|m| m.run_id == name || m.label.name.as_deref() == Some(name))
    });
    Ok(found.map_or_else(|| word.to_owned(), |(path, _)| path))
}

/// How many runs before the newest one a word such as `latest~2` means.
fn steps_back(word: &str) -> Option<usize> {
    match word.strip_prefix(LATEST)? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Timestamp;

    #[test]
    fn runs_are_found_by_age_by_id_and_by_name() {
        let root = tempfile::tempdir().unwrap();
        for (place, (id, name)) in [("a", None), ("b", Some("before")), ("c", None)]
            .iter()
            .enumerate()
        {
            let mut manifest = RunManifest::new(id);
            manifest.created = Timestamp::from_unix_ms(1_000 * place as i64);
            manifest.label.name = name.map(str::to_owned);
            let folder = root.path().join(format!("run-{id}"));
            std::fs::create_dir(&folder).unwrap();
            manifest.save(&folder).unwrap();
        }
        let named = |word: &str| {
            let path =
                named_run(Path::new(word), root.path()).map_err(|error| error.to_string())?;
            Ok::<_, String>(
                path.strip_prefix(root.path())
                    .unwrap_or(&path)
                    .display()
                    .to_string(),
            )
        };
        assert_eq!(named("latest").unwrap(), "run-c");
        assert_eq!(named("latest~2").unwrap(), "run-a");
        assert_eq!(named("before").unwrap(), "run-b");
        assert_eq!(named("a").unwrap(), "run-a");
        assert_eq!(named("elsewhere/latest").unwrap(), "elsewhere/latest");
        assert_eq!(
            named("latest~x").unwrap(),
            "latest~x",
            "no such word: a path"
        );
        let error = named("latest~3").unwrap_err();
        assert!(
            error.starts_with("latest~3: there are not as many runs in "),
            "{error}"
        );
    }
}
