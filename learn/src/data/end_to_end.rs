//! Whole models that were timed beside their operators.
//!
//! A run's folder has `whole_model.json` for its first import. Every further import (other batch or image sizes) has
//! `whole_model.KEY.json`, where KEY is the `import_key` of its rows.

use std::collections::HashMap;
use std::path::Path;

use opdata::contract::whole_model::{WholeModelRecord, whole_model_files};
use opdata::{CacheState, Row};
use serde::de::IgnoredAny;

use opdata::contract::interference::is_disturbed;

/// Upper over lower quartile of a model's times beyond which something else took its cores: that teaches nothing.
const DISTURBED: f64 = 1.2;

/// A whole model at one number of threads, as its run timed it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timed {
    run_id: String,
    import_key: Option<String>,
    threads: u64,
    end_to_end_ns: f64,
    drift: Option<f64>,
}

/// A whole model that was timed, and its operators.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRun {
    /// The run.
    pub run_id: String,
    /// The model's name.
    pub model: String,
    /// The import: one model has several, of other batch or input sizes.
    pub import_key: Option<String>,
    /// Threads.
    pub threads: u64,
    /// Median time of the whole model, ns.
    pub end_to_end_ns: f64,
    /// Time of the reference kernel around it, divided by the kernel's best time in the run. Missing if the record does not
    /// have it.
    pub drift: Option<f64>,
    /// Its operators.
    pub parts: Vec<Part>,
}

/// An operator of a whole model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Position of its sample.
    pub sample: usize,
    /// How often the model calls it.
    pub calls: u64,
    /// Median time of a call inside the model, ns.
    pub in_model_ns: Option<f64>,
}

/// Time of a call inside the running model, which runs the default schedules.
pub(super) fn in_model_ns(row: &Row) -> Option<f64> {
    row.in_model_time_ns
        .filter(|t| row.has_default_schedule() && *t > 0.0)
}

/// The whole-model times of a run's folder. Empty if there are none or they cannot be read, because they are optional.
pub(super) fn timed(folder: &Path, rows: &[Row]) -> Vec<Timed> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let files = whole_model_files(folder).unwrap_or_default();
    let mut all = Vec::new();
    for file in files {
        let import_key = file.import_key.or_else(|| first.import_key.clone());
        let Ok(record) = WholeModelRecord::<IgnoredAny>::load(&file.path) else {
            continue;
        };
        // Packed datasets have the rows of several runs in one folder.
        let of_import = |row: &&Row| row.import_key == import_key;
        let run_id = rows
            .iter()
            .filter(of_import)
            .find(|row| in_model_ns(row).is_some())
            .unwrap_or(first)
            .run_id
            .clone();
        for at in record.threads {
            let taken = &at.times.taken;
            if taken.quartile_ratio().is_none_or(|ratio| ratio > DISTURBED) {
                continue;
            }
            all.extend(taken.median_ns().map(|end_to_end_ns| Timed {
                run_id: run_id.clone(),
                import_key: import_key.clone(),
                threads: at.threads.into(),
                end_to_end_ns,
                drift: at.times.drift,
            }));
        }
    }
    all
}

/// Whole models that were measured under interference or without it, by run, import and threads.
#[derive(Debug, Default)]
pub(super) struct Disturbances<'a>(HashMap<(&'a str, Option<&'a str>, u64), bool>);

impl<'a> Disturbances<'a> {
    /// The lookup of these whole models.
    pub fn of(timed: &'a [Timed]) -> Self {
        let one = |one: &'a Timed| {
            let key = (one.run_id.as_str(), one.import_key.as_deref(), one.threads);
            Some((key, is_disturbed(one.drift?)))
        };
        Self(timed.iter().filter_map(one).collect())
    }

    /// Whether something else ran while the whole model of a row's operator did. `None` if that is not known.
    pub fn of_row(&self, row: &Row) -> Option<bool> {
        let key = (row.run_id.as_str(), row.import_key.as_deref(), row.threads?);
        self.0.get(&key).copied()
    }
}

/// The operators of runs, collected row by row.
#[derive(Debug, Default)]
pub(super) struct RunOperators {
    /// Models and the samples of their operators, by run, import and threads.
    by_run: HashMap<(String, Option<String>, u64), Consists>,
}

/// A model and the samples of its operators, each with its calls.
#[derive(Debug, Default)]
struct Consists {
    model: String,
    parts: Vec<Part>,
}

impl RunOperators {
    /// Notes that a row is the sample at `place`. Only times as inside a model add up to one.
    pub fn add(&mut self, row: &Row, place: usize) {
        let (Some(threads), Some(count), Some(model)) =
            (row.threads, row.op_count, &row.model_name)
        else {
            return;
        };
        if !row.has_default_schedule() || row.cache_state != Some(CacheState::Model) {
            return;
        }
        let run = self
            .by_run
            .entry((row.run_id.clone(), row.import_key.clone(), threads))
            .or_default();
        run.model.clone_from(model);
        run.parts.push(Part {
            sample: place,
            calls: count,
            in_model_ns: in_model_ns(row),
        });
    }

    /// The runs whose whole model was timed.
    pub fn model_runs(mut self, timed: &[Timed]) -> Vec<ModelRun> {
        timed
            .iter()
            .filter_map(|one| {
                let import_key = one.import_key.clone();
                let key = (one.run_id.clone(), import_key.clone(), one.threads);
                let Consists { model, parts } = self.by_run.remove(&key)?;
                Some(ModelRun {
                    run_id: one.run_id.clone(),
                    model,
                    import_key,
                    threads: one.threads,
                    end_to_end_ns: one.end_to_end_ns,
                    drift: one.drift,
                    parts,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;
    use serde_json::json;

    #[test]
    fn a_whole_model_keeps_the_drift_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |threads: u32, drift: serde_json::Value, samples: [f64; 4]| {
            let mut at = json!({"threads": threads, "taken": {"samples": samples}});
            at["drift"] = drift;
            at
        };
        let times = [
            at(1, json!(null), [10.0, 10.0, 10.0, 11.0]),
            at(2, json!(1.3), [5.0, 5.0, 5.0, 6.0]),
            at(4, json!(1.0), [3.0, 3.0, 9.0, 9.0]),
        ];
        let record = json!({"format": 1, "threads": times}).to_string();
        std::fs::write(folder.path().join("whole_model.json"), record).unwrap();
        let row = dense_row(1, 8, 8, "{}");
        let known = timed(folder.path(), &[row]);
        let drifts: Vec<_> = known.iter().map(|t| (t.threads, t.drift)).collect();
        assert_eq!(drifts, [(1, None), (2, Some(1.3))], "4 threads differed");
    }
}
