//! Two sets of rows side by side: what became slower, what faster, and how sure that is.
//!
//! [`compare`] reads both sides ([`source`]), finds the points they share ([`pairing`]), estimates a ratio with its
//! interval for each operator × threads ([`estimate`]) and corrects for asking many questions at once ([`holm`]). The
//! unit of a verdict is the operator at one number of threads and cache state: its points (one with the default schedule, many in a
//! sweep) count together, as the geometric mean of their ratios. Nothing is printed here.

mod estimate;
mod holm;
mod pairing;
mod source;
#[cfg(test)]
pub(crate) mod testing;

pub use estimate::{CONFIDENCE, Estimate, Noise, NoiseSource};
pub use source::{Machine, find_runs};

use std::collections::HashMap;
use std::path::PathBuf;

use opdata::{CacheState, Status};
use serde::Serialize;
use thiserror::Error;

use estimate::{LogRatio, mean, noise_between_runs};
use pairing::pair;
use source::{Point, Side};

/// Probability of any false regression or improvement in one comparison, if nothing has changed.
pub const FAMILY_ERROR: f64 = 0.05;

/// What counts, and what may be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// A ratio counts beyond 1 + this (slower) or 1 / (1 + this) (faster).
    pub threshold: f64,
    /// Whose rows may stand beside whose.
    pub machines: Machines,
}

/// Whose rows may stand beside whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machines {
    /// Rows of machines with the same fingerprint only.
    Alike,
    /// Rows of any machines: the user wants to see how they differ.
    Any,
}

/// Why two sets of rows cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A file cannot be read.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// A folder without a run in it.
    #[error("{} holds no run; a run's folder has rows.csv or rows.parquet in it", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing to compare.
    #[error("{} holds no row; measure something first", list(paths))]
    NoRows {
        /// What was read.
        paths: Vec<PathBuf>,
    },
    /// Unlike machines.
    #[error(
        "unlike machines: {} is of {}, {} of {}; compare runs of one machine, or give --allow-other-machine to see how the machines differ",
        list(a),
        machines(a_machines),
        list(b),
        machines(b_machines)
    )]
    OtherMachine {
        /// The first side.
        a: Vec<PathBuf>,
        /// Its machines.
        a_machines: Vec<Machine>,
        /// The second side.
        b: Vec<PathBuf>,
        /// Its machines.
        b_machines: Vec<Machine>,
    },
    /// No point is on both sides.
    #[error(
        "{} ({}) and {} ({}) have no point in common; compare runs of one model with the same shapes",
        list(a), a_models.join(", "), list(b), b_models.join(", ")
    )]
    NothingInCommon {
        /// The first side.
        a: Vec<PathBuf>,
        /// Its models.
        a_models: Vec<String>,
        /// The second side.
        b: Vec<PathBuf>,
        /// Its models.
        b_models: Vec<String>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    match paths {
        [] => "nothing".to_owned(),
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
    }
}

fn machines(machines: &[Machine]) -> String {
    let names: Vec<String> = machines.iter().map(ToString::to_string).collect();
    names.join(" and ")
}

/// The result: plain data, in the order in which it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first side, the base of all ratios.
    pub a: SideFacts,
    /// The second side.
    pub b: SideFacts,
    /// The threshold that was asked for.
    pub threshold: f64,
    /// How the same point varies from run to run.
    pub noise: Noise,
    /// Geometric mean of the operators' ratios (whole models are not in it).
    pub overall: Option<Estimate>,
    /// One entry for each operator × threads × cache state, and for each whole model × threads; the worst first.
    pub changes: Vec<Change>,
    /// Points that are not measured on both sides: those that were before and are not now come first.
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

    /// How many changes have this verdict.
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.with(verdict).count() as u64
    }
}

/// One side, in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideFacts {
    /// What was read.
    pub paths: Vec<PathBuf>,
    /// Its machines.
    pub machines: Vec<Machine>,
    /// Its models.
    pub models: Vec<String>,
    /// Points.
    pub points: u64,
    /// Points with a time.
    pub measured: u64,
    /// Points left out on purpose.
    pub skipped: u64,
}

impl SideFacts {
    /// Points that were tried and have no time.
    pub fn failed(&self) -> u64 {
        self.points - self.measured - self.skipped
    }
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An operator.
    Operator,
    /// The whole model, run as one.
    WholeModel,
}

/// What has become of an operator, or a whole model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly slower, and beyond the threshold.
    Regression,
    /// Beyond the threshold either way, but it may be noise.
    Unclear,
    /// Significantly faster, and beyond the threshold.
    Improvement,
    /// Within the threshold.
    Unchanged,
    /// Too few samples to tell.
    Unknown,
}

/// How one operator's times compare, or one whole model's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What it is about.
    pub subject: Subject,
    /// The model, with its batch size and sequence length.
    pub model: String,
    /// The operator's function, or the model's name.
    pub operator: String,
    /// What the operator computes; `model` for a whole model.
    pub kind: String,
    /// Shapes of inputs and weights.
    pub shapes: String,
    /// Kind of target and processor.
    pub target: String,
    /// Threads.
    pub threads: Option<u64>,
    /// What the caches held.
    pub cache_state: Option<CacheState>,
    /// Points with a time on both sides.
    pub points: u64,
    /// Geometric mean of those points' medians on the first side, in ns.
    pub a_ns: f64,
    /// The same on the second side.
    pub b_ns: f64,
    /// The fastest of those points on the first side, in ns.
    pub best_a_ns: f64,
    /// The same on the second side.
    pub best_b_ns: f64,
    /// Geometric mean of B / A.
    pub ratio: Estimate,
    /// Probability of a ratio at least as far from 1 if nothing has changed, corrected for all that is asked here;
    /// `None` where the spread is not known.
    pub p_adjusted: Option<f64>,
    /// What to make of it.
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

/// A point without a time on at least one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedPoint {
    /// The model.
    pub model: String,
    /// The operator's function.
    pub operator: String,
    /// Threads.
    pub threads: Option<u64>,
    /// What the caches held.
    pub cache_state: Option<CacheState>,
    /// How it ended on the first side.
    pub a: Ending,
    /// How it ended on the second side.
    pub b: Ending,
}

/// How a point ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// The outcome.
    pub status: Status,
    /// Why, unless it was measured.
    pub reason: Option<String>,
    /// The row.
    pub row: String,
}

impl FailedPoint {
    /// Whether it had a time on the first side and has none on the second.
    pub fn is_new(&self) -> bool {
        self.a.status == Status::Measured
    }
}

/// Compares the rows of `a` (the base) with those of `b`: run folders, folders of runs, or files of rows.
///
/// # Errors
/// Something cannot be read, the machines differ, or there is no point in common.
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
    if options.machines == Machines::Alike && a.env_hashes() != b.env_hashes() {
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

/// A change before it is known what the others look like.
struct Draft<'a> {
    subject: Subject,
    /// A point of the second side that it is about.
    about: &'a Point,
    ratio: LogRatio,
    points: Vec<(&'a Point, &'a Point)>,
}

/// The measured pairs by operator × threads × cache state, in the order of the second side's rows; and the others.
fn drafts<'a>(
    a: &'a Side,
    b: &'a Side,
    pairs: &[(usize, usize)],
) -> (Vec<Draft<'a>>, Vec<FailedPoint>) {
    let mut groups: Vec<Vec<(&Point, &Point)>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut failed = Vec::new();
    for &(in_a, in_b) in pairs {
        let (a, b) = (&a.points[in_a], &b.points[in_b]);
        if a.median().is_some() && b.median().is_some() {
            let place = *places.entry(b.group_key()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push((a, b));
        } else if a.status != Status::Measured || b.status != Status::Measured {
            failed.push(FailedPoint {
                model: b.model.clone(),
                operator: b.symbol.clone(),
                threads: b.threads,
                cache_state: b.cache,
                a: a.ending(),
                b: b.ending(),
            });
        }
    }
    failed.sort_by_key(|point| !point.is_new());
    let drafts = groups
        .into_iter()
        .filter_map(|points| {
            let about = points.first()?.1;
            let ratios: Vec<LogRatio> = points
                .iter()
                .filter_map(|(a, b)| Some(LogRatio::between(&a.median()?, &b.median()?)))
                .collect();
            // One point without a spread must not take it from all the others.
            let known = ratios.iter().filter(|r| r.spread.is_some()).copied();
            let ratio = mean(known).or_else(|| mean(ratios.iter().copied()))?;
            Some(Draft {
                subject: about.subject,
                about,
                ratio,
                points,
            })
        })
        .collect();
    (drafts, failed)
}

fn judged(drafts: Vec<Draft<'_>>, noise: Noise, threshold: f64) -> Vec<Change> {
    let ratios: Vec<LogRatio> = drafts.iter().map(|d| d.ratio.with_noise(noise)).collect();
    let p_values: Vec<Option<f64>> = ratios.iter().map(LogRatio::p_value).collect();
    let adjusted = holm::adjusted(&p_values);
    let mut changes: Vec<Change> = drafts
        .iter()
        .zip(&ratios)
        .zip(adjusted)
        .filter_map(|((draft, ratio), p)| change(draft, ratio, p, threshold))
        .collect();
    // Verdicts in the order of their urgency, the largest change first; a stable sort keeps equal ones in the rows' order.
    changes.sort_by(|a, b| {
        let size = |c: &Change| match c.verdict {
            Verdict::Regression | Verdict::Unclear => c.ratio.value,
            _ => -c.ratio.value,
        };
        a.verdict.cmp(&b.verdict).then(size(b).total_cmp(&size(a)))
    });
    changes
}

fn change(draft: &Draft<'_>, ratio: &LogRatio, p: Option<f64>, threshold: f64) -> Option<Change> {
    let estimate = ratio.estimate();
    let slower = estimate.value > 1.0 + threshold;
    let faster = estimate.value < 1.0 / (1.0 + threshold);
    let significant = p.map(|p| p < FAMILY_ERROR);
    let verdict = match significant {
        None => Verdict::Unknown,
        Some(true) if slower => Verdict::Regression,
        Some(true) if faster => Verdict::Improvement,
        Some(false) if slower || faster => Verdict::Unclear,
        Some(_) => Verdict::Unchanged,
    };
    let about = draft.about;
    let medians = |of: fn(&(&Point, &Point)) -> Option<f64>| draft.points.iter().filter_map(of);
    let (of_a, of_b) = (
        medians(|(a, _)| Some(a.median()?.median_ns)),
        medians(|(_, b)| Some(b.median()?.median_ns)),
    );
    let geometric = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0u64), |(s, n), v| (s + v.ln(), n + 1));
        (sum / count as f64).exp()
    };
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let slowest = draft
        .points
        .iter()
        .filter_map(|(a, b)| {
            Some(PointChange {
                ratio: b.median()?.median_ns / a.median()?.median_ns,
                row_a: a.row_id.clone(),
                row_b: b.row_id.clone(),
            })
        })
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(Change {
        subject: draft.subject,
        model: about.model.clone(),
        operator: about.symbol.clone(),
        kind: about.kind.clone(),
        shapes: about.shapes.clone(),
        target: about.target_label(),
        threads: about.threads,
        cache_state: about.cache,
        points: draft.points.len() as u64,
        a_ns: geometric(&mut of_a.clone()),
        b_ns: geometric(&mut of_b.clone()),
        best_a_ns: least(&mut of_a.clone()),
        best_b_ns: least(&mut of_b.clone()),
        ratio: estimate,
        p_adjusted: p,
        verdict,
        slowest,
    })
}

#[cfg(test)]
mod tests;
