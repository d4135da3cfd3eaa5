//! Whole models that were timed beside their operators: `whole_model.json` of a run's folder.

use std::collections::HashMap;
use std::path::Path;

use opdata::{CacheState, Row};
use serde_json::Value;

/// The file in a run's folder.
const FILE: &str = "whole_model.json";

/// Upper over lower quartile of a model's times beyond which something else took its cores: that teaches nothing.
const DISTURBED: f64 = 1.2;

/// A whole model at one number of threads, as its run timed it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timed {
    run_id: String,
    threads: u64,
    end_to_end_ns: f64,
}

/// A whole model that was timed, and what it consists of.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRun {
    /// The run.
    pub run_id: String,
    /// The model's name.
    pub model: String,
    /// Threads.
    pub threads: u64,
    /// Median time of the whole model, ns.
    pub end_to_end_ns: f64,
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
    let default = row.schedule_space.as_deref() == Some("default");
    row.in_model_time_ns.filter(|t| default && *t > 0.0)
}

/// The whole-model times of a run's folder; none if there are none or they cannot be read (they are an extra).
pub(super) fn timed(folder: &Path, run_id: &str) -> Vec<Timed> {
    let read = || -> Option<Vec<Timed>> {
        let bytes = std::fs::read(folder.join(FILE)).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let all = value["threads"].as_array()?;
        Some(all.iter().filter_map(|one| one_of(one, run_id)).collect())
    };
    read().unwrap_or_default()
}

fn one_of(value: &Value, run_id: &str) -> Option<Timed> {
    let mut samples: Vec<f64> = value["taken"]["samples"]
        .as_array()?
        .iter()
        .filter_map(Value::as_f64)
        .filter(|t| *t > 0.0)
        .collect();
    samples.sort_by(f64::total_cmp);
    let count = samples.len();
    let quartiles = [count / 4, (3 * count / 4).min(count.checked_sub(1)?)].map(|i| samples[i]);
    if quartiles[1] > DISTURBED * quartiles[0] {
        return None;
    }
    let median = (samples.get(count.checked_sub(1)? / 2)? + samples.get(count / 2)?) / 2.0;
    Some(Timed {
        run_id: run_id.to_owned(),
        threads: value["threads"].as_u64()?,
        end_to_end_ns: median,
    })
}

/// The operators of runs, collected row by row.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// By run and threads.
    by_run: HashMap<(String, u64), Consists>,
}

/// A model and the samples of its operators, each with its calls.
#[derive(Debug, Default)]
struct Consists {
    model: String,
    parts: Vec<Part>,
}

impl Parts {
    /// Notes that a row is the sample at `place`. Only times as inside a model add up to one.
    pub fn add(&mut self, row: &Row, place: usize) {
        let (Some(threads), Some(count), Some(model)) =
            (row.threads, row.op_count, &row.model_name)
        else {
            return;
        };
        if row.cache_state != Some(CacheState::Model) {
            return;
        }
        let run = self
            .by_run
            .entry((row.run_id.clone(), threads))
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
                let Consists { model, parts } =
                    self.by_run.remove(&(one.run_id.clone(), one.threads))?;
                Some(ModelRun {
                    run_id: one.run_id.clone(),
                    model,
                    threads: one.threads,
                    end_to_end_ns: one.end_to_end_ns,
                    parts,
                })
            })
            .collect()
    }
}
