//! Whole models beside a run's operators: `whole_model.json` for the plan's first import, `whole_model.<import key>.json` for
//! others (a sweep over batch sizes has several).

use std::path::{Path, PathBuf};
use std::{fs, io};

use opengine::stats::Samples;
use serde::Deserialize;

use super::CompareError;
use super::estimate::Timing;
use super::source::{Point, drift};
use crate::run::WHOLE_MODEL_JSON;

/// A file of a run with the times of a whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeModelFile {
    /// Where it is.
    pub path: PathBuf,
    /// The import that it is of; `None` for the plan's first.
    pub import_key: Option<String>,
}

/// What is of interest in such a file.
#[derive(Deserialize)]
struct Contents {
    threads: Vec<AtThreads>,
}

#[derive(Deserialize)]
struct AtThreads {
    threads: u64,
    taken: Taken,
    #[serde(default)]
    drift: Option<f64>,
}

#[derive(Deserialize)]
struct Taken {
    samples: Samples,
}

/// The files of a run that hold times of whole models, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn whole_model_files(run: &Path) -> io::Result<Vec<WholeModelFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(run)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(import_key) = name.to_str().and_then(import_key) {
            files.push(WholeModelFile {
                path: entry.path(),
                import_key: import_key.map(str::to_owned),
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The import of a file of this name, if it is one of a whole model.
fn import_key(name: &str) -> Option<Option<&str>> {
    if name == WHOLE_MODEL_JSON {
        return Some(None);
    }
    let (stem, extension) = WHOLE_MODEL_JSON.rsplit_once('.')?;
    let key = name.strip_prefix(stem)?.strip_prefix('.')?;
    let key = key.strip_suffix(extension)?.strip_suffix('.')?;
    (!key.is_empty()).then_some(Some(key))
}

/// The whole models of a run; `firsts` has the first point of each import.
pub(super) fn points(
    run: &Path,
    firsts: &[(Option<String>, Point)],
) -> Result<Vec<Point>, CompareError> {
    let files = whole_model_files(run).map_err(|source| io_error(run, source))?;
    let has_file =
        |key: &Option<String>| key.is_some() && files.iter().any(|f| f.import_key == *key);
    let mut points = Vec::new();
    for file in &files {
        let of_import = firsts.iter().find(|(key, _)| match &file.import_key {
            Some(_) => *key == file.import_key,
            None => !has_file(key),
        });
        // An import without a row here has its rows in another shard.
        if let Some((_, point)) = of_import {
            points.extend(read(&file.path, point)?);
        }
    }
    Ok(points)
}

/// The whole model of one file at each number of threads; `of_import` is any point of its import.
fn read(path: &Path, of_import: &Point) -> Result<Vec<Point>, CompareError> {
    let text = opdata::read_bytes(path).map_err(|source| io_error(path, source))?;
    let contents: Contents =
        serde_json::from_slice(&text).map_err(|error| opdata::Error::Damaged {
            path: path.to_owned(),
            detail: error.to_string(),
            fix: "the rows do not depend on it: move it away to compare the operators alone",
        })?;
    let points = contents.threads.iter().map(|at| {
        let timing = at.taken.samples.summary().ok().map(|s| Timing {
            median_ns: s.median.get(),
            interval: Some((s.ci_low.get(), s.ci_high.get(), s.ci_level)),
            std_ns: s.std.map(|std| std.get()),
            samples: Some(s.samples),
            min_ns: Some(s.min.get()).filter(|min| *min > 0.0),
            drift: drift(at.drift),
        });
        of_import.whole_model(at.threads, timing.filter(|t| t.median_ns > 0.0))
    });
    Ok(points.collect())
}

fn io_error(path: &Path, source: io::Error) -> CompareError {
    CompareError::Data(opdata::Error::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_import() {
        assert_eq!(import_key("whole_model.json"), Some(None));
        assert_eq!(import_key("whole_model.1f-b4.json"), Some(Some("1f-b4")));
        for other in ["whole_model..json", "whole_model.json.part", "run.json"] {
            assert_eq!(import_key(other), None, "{other}");
        }
    }
}
