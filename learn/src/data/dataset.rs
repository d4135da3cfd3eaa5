//! Training samples, and facts about the workloads, machines and rows that they come from.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::end_to_end::{ModelRun, Part};
use super::query_key::QueryKey;
use crate::error::{Error, Result};
use crate::features::machine::MachineFacts;
use crate::features::{Point, point_of};

/// Counts of the rows used and left out.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Intake {
    /// Rows read.
    pub rows: usize,
    /// Rows by how the point ended.
    pub ended: BTreeMap<String, usize>,
    /// Measured rows that repeat a point.
    pub duplicates: usize,
    /// Measured rows without shapes and traffic.
    pub unusable: usize,
    /// Share of the training rows that were measured under interference: grade D, or a reference kernel that took a
    /// tenth longer than at the start of its run. Missing where no row was graded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<f64>,
    /// Rows of machines other than the requested ones.
    pub other_machines: usize,
    /// Median ratio of repeated measurements of a point (the larger to the smaller), as a share above 1: the noise that
    /// no prediction can beat. Missing without repeats.
    pub repeat_noise: Option<f64>,
    /// Records of logs that have no row, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// One measured point.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Features and estimates.
    pub point: Point,
    /// Base-2 logarithm of the time in ns.
    pub log2_time: f64,
    /// Base-2 logarithm of the time in ns of a call inside the running model, if the run timed the whole model with this
    /// schedule.
    pub log2_in_model: Option<f64>,
    /// Ends of the confidence intervals of all measurements, base-2 logarithms of ns; missing where a row has none.
    pub log2_interval: Option<(f64, f64)>,
    /// Whether something else ran each time the point was measured (grade D, or a reference kernel a tenth slower). Missing where
    /// no row says.
    pub disturbed: Option<bool>,
    /// Identity of a query about the operator, if it has its default schedule.
    pub query_key: Option<QueryKey>,
    /// Its weight, by its quality grade.
    pub weight: f32,
    /// Position of its workload in [`Dataset::workloads`].
    pub workload: usize,
    /// Position of its machine in [`Dataset::machines`].
    pub machine: usize,
    /// Kind of the operator.
    pub kind: String,
    /// Models that the operator was measured for; empty if it was measured alone.
    pub models: Vec<String>,
    /// Threads that ran it.
    pub threads: Option<u64>,
    /// When it was measured, ms since 1970.
    pub measured_ms: Option<i64>,
    /// The row, or the first of several that measured the same point.
    pub row_id: String,
    /// Counts of one run by name, if anything was counted: what measuring found and no query knows.
    pub counts: Option<BTreeMap<String, f64>>,
}

/// Names of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Hash of the computation.
    pub hash: String,
    /// Operator and shapes, for people.
    pub label: String,
}

/// Training samples.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The samples.
    pub samples: Vec<Sample>,
    /// Workloads in the order of their first sample.
    pub workloads: Vec<Workload>,
    /// Machines in the order of their first sample.
    pub machines: Vec<MachineFacts>,
    /// Whole models that were timed, with the samples of their operators.
    pub model_runs: Vec<ModelRun>,
    /// Cache state of most samples.
    pub usual_cache: Option<opdata::CacheState>,
    /// Counts of the rows used and left out.
    pub intake: Intake,
}

impl Dataset {
    /// Positions of all samples.
    pub fn all(&self) -> Vec<usize> {
        (0..self.samples.len()).collect()
    }

    /// Share of its models' time that each sample takes, 0 to 1. It is the mean over the whole-model runs that contain
    /// it, and 0 without any.
    pub fn shares(&self) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.samples.len()];
        for run in &self.model_runs {
            let time = |part: &Part| {
                let alone = self.samples[part.sample].log2_time.exp2();
                part.calls as f64 * part.in_model_ns.unwrap_or(alone)
            };
            let whole: f64 = run.parts.iter().map(time).sum();
            for part in &run.parts {
                let (sum, runs) = &mut sums[part.sample];
                *sum += time(part) / whole;
                *runs += 1.0;
            }
        }
        let mean = |(sum, runs): (f64, f64)| if runs > 0.0 { sum / runs } else { 0.0 };
        sums.into_iter().map(mean).collect()
    }

    /// Refuses a dataset that is too small for `what`.
    ///
    /// # Errors
    /// Fails if there are fewer than `needed` samples.
    pub fn require(&self, needed: usize, what: &str) -> Result<()> {
        if self.samples.len() >= needed {
            return Ok(());
        }
        Err(Error::TooFew {
            what: what.to_owned(),
            needed,
            unit: "samples",
            found: self.samples.len(),
            next: "collect more with opcollect, or import a log",
        })
    }
}

/// The features of rows that ask for a prediction, on a machine the model knows or not.
pub fn points(rows: &[opdata::Row], machine: &MachineFacts) -> Vec<Point> {
    if rows.len() < MANY_ROWS {
        return rows.iter().map(|row| point_of(row, machine)).collect();
    }
    rows.par_iter().map(|row| point_of(row, machine)).collect()
}

/// Number of rows from which on several threads are faster than one.
const MANY_ROWS: usize = 1000;
