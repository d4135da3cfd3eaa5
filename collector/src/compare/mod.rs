//! Two sets of rows side by side: what became slower, what faster, and how sure that is.
//!
//! [`compare`] reads both sides ([`source`]) and finds the points they share ([`pairing`]). It estimates a ratio with
//! its interval for each operator × threads ([`estimate`]). It judges them ([`judge`]), corrected for multiple
//! comparisons ([`holm`]). The unit of a verdict is the operator at one number of threads and cache state. All its
//! points (one with the default schedule, many in a sweep) count together, as the geometric mean of their ratios.
//! Nothing is printed here.

mod error;
mod estimate;
mod holm;
mod judge;
mod pairing;
mod point;
mod ranking;
mod source;
#[cfg(test)]
pub(crate) mod testing;
mod whole_models;

pub use error::CompareError;
pub use estimate::{CONFIDENCE, Estimate, Noise, NoiseSource};
pub use ranking::{RankedRun, Ranking, rank};
pub use source::Machine;

use std::path::PathBuf;

use estimate::{mean, noise_between_runs};
use judge::{drafts, judged};
use opdata::{CacheState, Status};
use pairing::pair;
use serde::Serialize;
use source::Side;

/// Probability of any false regression or improvement in one comparison, if nothing has changed.
pub const FAMILY_ERROR: f64 = 0.05;

/// A request for a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRequest {
    /// The base.
    pub base: PathBuf,
    /// The runs to compare with it: one, to see every operator, or several, to find the best.
    pub others: Vec<PathBuf>,
    /// Options of the comparison.
    pub options: Options,
    /// A file for the result in Markdown.
    pub export_markdown: Option<PathBuf>,
}

/// Options: the threshold, and the runs that may be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// A ratio counts beyond 1 + this (slower) or 1 / (1 + this) (faster).
    pub threshold: f64,
    /// Whether rows of machines with different fingerprints may be compared.
    pub allow_other_machine: bool,
}

/// The result: plain data, in the order in which it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first side, the base of all ratios.
    pub a: SideFacts,
    /// The second side.
    pub b: SideFacts,
    /// The requested threshold.
    pub threshold: f64,
    /// How the same point varies from run to run.
    pub noise: Noise,
    /// Geometric mean of the operators' ratios (whole models are not in it).
    pub overall: Option<Estimate>,
    /// One entry for each operator × threads × cache state, and for each whole model × threads; the worst first.
    pub changes: Vec<Change>,
    /// Points without a measurement on both sides. Those measured before but not now come first.
    pub failed: Vec<FailedPoint>,
    /// Points on both sides, measured or not.
    pub shared_points: u64,
    /// Points that only the first side has.
    pub only_in_a: u64,
    /// Points that only the second side has.
    pub only_in_b: u64,
}

impl Comparison {
    /// The changes with this verdict, in order.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |c| c.verdict == verdict)
    }

    /// Number of changes with this verdict.
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.with(verdict).count() as u64
    }
}

/// One side, in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideFacts {
    /// The paths that were read.
    pub paths: Vec<PathBuf>,
    /// Its machines.
    pub machines: Vec<Machine>,
    /// Its models.
    pub models: Vec<String>,
    /// Points.
    pub points: u64,
    /// Points with a time.
    pub measured: u64,
    /// Points that were compiled, as asked, and not run.
    pub compiled: u64,
    /// Points left out on purpose.
    pub skipped: u64,
}

impl SideFacts {
    /// Points that were tried and failed.
    pub fn failed(&self) -> u64 {
        self.points - self.measured - self.compiled - self.skipped
    }
}

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An operator.
    Operator,
    /// The whole model, run as one.
    WholeModel,
}

/// The verdict on an operator, or a whole model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Surely slower, by more than the threshold.
    Regression,
    /// Beyond the threshold, but it may be noise or a busy machine.
    Unclear,
    /// Surely faster, by more than the threshold.
    Improvement,
    /// Within the threshold.
    Unchanged,
    /// Too few samples to tell.
    Unknown,
}

/// How one operator's times compare, or one whole model's.
///
/// A change counts if it is significant, and beyond the threshold in three ways. The first is by the medians. The
/// second is by the shortest samples, which a busy machine disturbs least. The third is by the medians, with the slower
/// side's divided by the slowdown of its reference kernel. It is unclear where other processes had much of the CPU at
/// most of the slower side's points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Its subject.
    pub subject: Subject,
    /// The model, with its batch size and sequence length.
    pub model: String,
    /// The operator's function, or the model's name.
    pub operator: String,
    /// The operator's kind; `model` for a whole model.
    pub kind: String,
    /// Shapes of inputs and weights.
    pub shapes: String,
    /// Kind of target and processor.
    pub target: String,
    /// Threads.
    pub threads: Option<u64>,
    /// State of the caches.
    pub cache_state: Option<CacheState>,
    /// Points with a time on both sides.
    pub points: u64,
    /// Geometric mean of those points' medians on the first side, in ns.
    pub a_ns: f64,
    /// Geometric mean of those points' medians on the second side, in ns.
    pub b_ns: f64,
    /// The fastest of those points on the first side, in ns.
    pub best_a_ns: f64,
    /// The fastest of those points on the second side, in ns.
    pub best_b_ns: f64,
    /// Geometric mean of B / A.
    pub ratio: Estimate,
    /// Geometric mean of B / A of the shortest samples, where both sides have them.
    pub min_ratio: Option<f64>,
    /// Slowdown of the machine around these points, by the reference kernel, on the first side.
    pub drift_a: f64,
    /// Slowdown of the machine around these points on the second side.
    pub drift_b: f64,
    /// Share of these points, on the first side, during which other processes took more than
    /// [`BUSY_SHARE`](opdata::contract::interference::BUSY_SHARE) of the CPU time.
    pub busy_a: f64,
    /// The same share on the second side.
    pub busy_b: f64,
    /// Probability of a ratio at least as far from 1 if nothing has changed, corrected for all that is asked here;
    /// `None` where the spread is not known.
    pub p_adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The point with the largest ratio.
    pub slowest: PointChange,
}

/// One point on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointChange {
    /// B / A of its medians.
    pub ratio: f64,
    /// Its row on the first side.
    pub row_a: String,
    /// Its row on the second side.
    pub row_b: String,
}

/// A point that failed, or was left out, on at least one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedPoint {
    /// The model.
    pub model: String,
    /// The operator's function.
    pub operator: String,
    /// Threads.
    pub threads: Option<u64>,
    /// State of the caches.
    pub cache_state: Option<CacheState>,
    /// How the point ended on the first side.
    pub a: Ending,
    /// How the point ended on the second side.
    pub b: Ending,
}

/// How a point ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// The outcome.
    pub status: Status,
    /// The reason, unless it was measured.
    pub reason: Option<String>,
    /// The row.
    pub row: String,
}

impl FailedPoint {
    /// Whether the first side has it, measured or compiled as asked, and the second has not.
    pub fn is_new(&self) -> bool {
        self.a.status.has_time() || self.a.status == Status::Compiled
    }
}

/// Compares the rows of `a` (the base) with those of `b`: run folders, folders of runs, or files of rows.
///
/// # Errors
/// Fails if a path cannot be read, if the machines differ, or if there is no common point.
pub fn compare(a: &[PathBuf], b: &[PathBuf], options: Options) -> Result<Comparison, CompareError> {
    between(Side::read(a)?, Side::read(b)?, options)
}

fn between(a: Side, b: Side, options: Options) -> Result<Comparison, CompareError> {
    for side in [&a, &b] {
        if side.points.is_empty() {
            return Err(CompareError::NoRows {
                paths: side.paths.clone(),
            });
        }
    }
    if !options.allow_other_machine && a.env_hashes() != b.env_hashes() {
        return Err(CompareError::OtherMachine {
            a_machines: a.machines.clone(),
            b_machines: b.machines.clone(),
            a: a.paths,
            b: b.paths,
        });
    }
    let pairing = pair(&a.points, &b.points);
    if pairing.pairs.is_empty() {
        return Err(CompareError::NothingInCommon {
            a_models: a.models(),
            b_models: b.models(),
            a: a.paths,
            b: b.paths,
        });
    }
    let (drafts, failed) = drafts(&a, &b, &pairing.pairs);
    if drafts.is_empty() {
        let (facts_a, facts_b) = (a.facts(), b.facts());
        let endings = failed.iter().flat_map(|point| [&point.b, &point.a]);
        return Err(CompareError::NothingMeasured {
            a: a.paths,
            a_measured: facts_a.measured,
            a_points: facts_a.points,
            b: b.paths,
            b_measured: facts_b.measured,
            b_points: facts_b.points,
            reason: endings.filter_map(|ending| ending.reason.clone()).next(),
        });
    }
    let noise = noise_between_runs(
        drafts
            .iter()
            .filter(|d| d.subject == Subject::Operator)
            .filter_map(|d| d.ratio.spread.map(|s| (d.ratio.log, s.variance()))),
    );
    let overall = mean(
        drafts
            .iter()
            .filter(|d| d.subject == Subject::Operator)
            .map(|d| d.ratio.with_noise(noise)),
    )
    .map(|ratio| ratio.estimate());
    Ok(Comparison {
        threshold: options.threshold,
        noise,
        overall,
        changes: judged(drafts, noise, options.threshold),
        failed,
        shared_points: pairing.pairs.len() as u64,
        only_in_a: pairing.only_in_a,
        only_in_b: pairing.only_in_b,
        a: a.facts(),
        b: b.facts(),
    })
}

#[cfg(test)]
mod tests;
