//! Times of whole models: `whole_model.json` lies beside the rows for a plan's first import. Every further import (other
//! batch or image sizes) has `whole_model.KEY.json`, where KEY is the `import_key` of its rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load_record;
use crate::error::{Error, Result};
use crate::files::write_atomically;
use crate::stats::{median_of_sorted, quantile_of_sorted};

/// Format of the record; one without a number is of the first.
pub const WHOLE_MODEL_FORMAT: u32 = 1;

const WHAT: &str = "the whole model's record";
const STEM: &str = "whole_model";
const FIX: &str = "the rows do not depend on it: move it away to use the operators alone";

/// Everything measured of a whole model: what was built and how its output was checked, and times by number of threads.
/// The writer's own types stand for both; a reader of times takes [`ModelTimes`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WholeModelRecord<Built = Value, Times = ModelTimes> {
    /// [`WHOLE_MODEL_FORMAT`] of the writer.
    #[serde(default = "super::first_format")]
    pub format: u32,
    /// The result of the build.
    #[serde(rename = "ready", default = "Option::default")]
    pub built: Option<Built>,
    /// Times, in the order of the plan's conditions.
    pub threads: Vec<AtThreads<Times>>,
}

/// Times of a whole model under one set of conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtThreads<Times> {
    /// Threads.
    pub threads: u32,
    /// Conditions that only this kind of device has, by name; empty for most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, String>,
    /// The times.
    #[serde(flatten)]
    pub times: Times,
}

/// The parts of a model's times that a reader needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTimes {
    /// End-to-end samples.
    pub taken: ModelSamples,
    /// The reference kernel's time over its idle time, the largest around a sample or an instrumented run that counts.
    #[serde(default)]
    pub drift: Option<f64>,
}

/// End-to-end samples of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSamples {
    /// Times of one run, ns, in the order taken.
    pub samples: Vec<f64>,
}

impl ModelSamples {
    /// Times above 0, ascending.
    fn sorted(&self) -> Vec<f64> {
        let mut samples: Vec<f64> = self.samples.iter().copied().filter(|t| *t > 0.0).collect();
        samples.sort_by(f64::total_cmp);
        samples
    }

    /// Median, ns; `None` without samples.
    pub fn median_ns(&self) -> Option<f64> {
        median_of_sorted(&self.sorted())
    }

    /// Upper over lower quartile: how far something else took the model's cores. `None` without samples.
    pub fn quartile_ratio(&self) -> Option<f64> {
        let sorted = self.sorted();
        Some(quantile_of_sorted(&sorted, 0.75)? / quantile_of_sorted(&sorted, 0.25)?)
    }
}

/// A file of a run with the times of a whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeModelFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The import that it belongs to; `None` for the plan's first.
    pub import_key: Option<String>,
}

/// The files of a run that hold times of whole models, by name.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn whole_model_files(run: &Path) -> Result<Vec<WholeModelFile>> {
    let failed = |source| Error::io("read", run, source);
    let mut files = Vec::new();
    for entry in fs::read_dir(run).map_err(failed)? {
        let entry = entry.map_err(failed)?;
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

/// Name of the file of an import; `None` for the plan's first.
pub fn whole_model_file_name(import_key: Option<&str>) -> String {
    match import_key {
        None => format!("{STEM}.json"),
        Some(key) => format!("{STEM}.{key}.json"),
    }
}

/// The import of a file of this name, if it is one of a whole model.
fn import_key(name: &str) -> Option<Option<&str>> {
    match name.strip_prefix(STEM)?.strip_suffix(".json")? {
        "" => Some(None),
        rest => rest
            .strip_prefix('.')
            .filter(|key| !key.is_empty())
            .map(Some),
    }
}

impl<Built: Serialize, Times: Serialize> WholeModelRecord<Built, Times> {
    /// Writes the record. A reader sees either the old or the new one, never a part.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::io("write", path, error.into()))?;
        write_atomically(path, text.as_bytes())
    }
}

impl<Built: DeserializeOwned, Times: DeserializeOwned> WholeModelRecord<Built, Times> {
    /// Reads a record.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is of another format, or is damaged.
    pub fn load(path: &Path) -> Result<Self> {
        load_record(path, WHAT, WHOLE_MODEL_FORMAT, FIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_contain_the_import() {
        for key in [None, Some("1f-b4")] {
            assert_eq!(import_key(&whole_model_file_name(key)), Some(key));
        }
        for other in [
            "whole_model..json",
            "whole_model.json.part",
            "whole_modeljson",
            "run.json",
        ] {
            assert_eq!(import_key(other), None, "{other}");
        }
    }

    /// A record as opcollect 0.1.0 wrote it, without a format number.
    fn first() -> Value {
        json!({
            "ready": {"comparison": {"wrong": 0}, "checked_against": "onnx", "build_ns": 5},
            "threads": [{
                "threads": 2,
                "taken": {"samples": [30.0, 10.0, 20.0, 40.0], "number": 1, "warmup": 1, "stopped": "precise"},
                "operators": [{"symbol": "f", "calls": 1, "median_ns": 9.0}],
                "instrumented_sum_ns": 9.0,
                "instrumented_total_ns": 10.0,
                "drift": 1.01
            }]
        })
    }

    fn load(value: &Value) -> Result<WholeModelRecord> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(whole_model_file_name(None));
        fs::write(&path, value.to_string()).unwrap();
        WholeModelRecord::load(&path)
    }

    #[test]
    fn a_record_without_a_format_number_is_of_the_first() {
        let record = load(&first()).unwrap();
        assert_eq!(record.format, 1);
        let at = &record.threads[0];
        assert_eq!((at.threads, at.times.drift), (2, Some(1.01)));
        assert_eq!(at.times.taken.median_ns(), Some(25.0));
        assert_eq!(at.times.taken.quartile_ratio(), Some(3.0));
    }

    #[test]
    fn a_record_reads_back_with_the_types_of_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(whole_model_file_name(Some("k")));
        let record = WholeModelRecord::<Value, Value> {
            format: WHOLE_MODEL_FORMAT,
            built: Some(json!({"checked_against": "onnx"})),
            threads: vec![AtThreads {
                threads: 1,
                device: BTreeMap::from([("clock".to_owned(), "low".to_owned())]),
                times: json!({"taken": {"samples": [1.5]}}),
            }],
        };
        record.save(&path).unwrap();
        assert_eq!(
            WholeModelRecord::<Value, Value>::load(&path).unwrap(),
            record
        );
        let files = whole_model_files(folder.path()).unwrap();
        assert_eq!(files[0].import_key.as_deref(), Some("k"));
    }

    #[test]
    fn other_formats_and_damage_are_refused() {
        let refused = |change: fn(&mut Value)| {
            let mut value = first();
            change(&mut value);
            let error = load(&value).unwrap_err().to_string();
            error[error.find("whole_model.json").unwrap()..].to_owned()
        };
        insta::assert_snapshot!(
            [
                refused(|v| v["format"] = json!(2)),
                refused(|v| v["threads"] = json!(2)),
            ]
            .join("\n"),
            @r#"
        whole_model.json: the whole model's record has format 2, and this program reads format 1; use a newer version of the program
        whole_model.json is damaged: invalid type: integer `2`, expected a sequence; the rows do not depend on it: move it away to use the operators alone
        "#
        );
    }
}
