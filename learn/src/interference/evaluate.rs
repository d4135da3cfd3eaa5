//! Accuracy of predicted slowdowns for groups and for operators outside the training data, beside three baselines.

use std::collections::BTreeSet;

use opdata::contract::pairs::PairRow;
use serde::Serialize;

use super::LEAST_SAMPLES;
use super::sample::{Sample, samples};
use super::trees::Trees;
use crate::error::{Error, Result};

/// Number of folds. Each holds out some groups, or some operators.
const FOLDS: usize = 10;
/// Level of the intervals.
const LEVEL: f64 = 0.9;

/// Errors held out by group and by operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Samples.
    pub samples: usize,
    /// Groups.
    pub groups: usize,
    /// Operators.
    pub operators: usize,
    /// The held-out groups are not in the training data; their operators are, in other groups.
    pub by_group: Errors,
    /// No group with the operator is in the training data.
    pub by_operator: Errors,
}

/// Mean absolute errors of slowdowns, relative to the measured one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Errors {
    /// Error of the trees.
    pub model: f64,
    /// Error of a constant slowdown of 1 (on shared processors: the number of operators).
    pub no_slowdown: f64,
    /// Error of the slowdown by bandwidths: their sum over the calibrated one, at least 1. Missing where the machine is
    /// not calibrated.
    pub sum_of_bandwidths: Option<f64>,
    /// Error of the mean slowdown of the training data in the same mode.
    pub mean_slowdown: f64,
    /// Share of slowdowns within the 90 % interval, which is made of residuals of other folds.
    pub coverage: f64,
    /// Half of the interval's width, relative.
    pub half_width: f64,
}

impl Errors {
    /// The error of the best baseline.
    pub fn best_baseline(&self) -> f64 {
        let known = [
            Some(self.no_slowdown),
            self.sum_of_bandwidths,
            Some(self.mean_slowdown),
        ];
        known.into_iter().flatten().fold(f64::INFINITY, f64::min)
    }
}

/// Holds groups and operators out.
///
/// # Errors
/// Fails if there are too few samples, or XGBoost's library is missing or fails.
pub fn evaluate(rows: &[PairRow]) -> Result<Evaluation> {
    let samples = samples(rows);
    if samples.len() < LEAST_SAMPLES {
        return Err(Error::FewPairs {
            samples: samples.len(),
            needed: LEAST_SAMPLES,
        });
    }
    let groups: BTreeSet<&str> = samples.iter().map(|s| s.group.as_str()).collect();
    let operators: BTreeSet<&str> = samples.iter().map(|s| s.workloads[0].as_str()).collect();
    let folds = |names: &BTreeSet<&str>| -> Vec<BTreeSet<String>> {
        let mut order: Vec<&str> = names.iter().copied().collect();
        // Sorted by a hash, which gives a random but stable order.
        order.sort_by_key(|name| opdata::stable_hash(&[("fold", name)]));
        let many = FOLDS.min(order.len());
        let own = |fold| {
            order
                .iter()
                .skip(fold)
                .step_by(many)
                .map(|n| (*n).to_owned())
        };
        (0..many).map(|fold| own(fold).collect()).collect()
    };
    Ok(Evaluation {
        samples: samples.len(),
        groups: groups.len(),
        operators: operators.len(),
        by_group: errors(&samples, &folds(&groups), |s, held| held.contains(&s.group))?,
        by_operator: errors(&samples, &folds(&operators), |s, held| {
            s.workloads.iter().any(|workload| held.contains(workload))
        })?,
    })
}

/// A sample that was held out.
struct Tested<'a> {
    fold: usize,
    predicted: f64,
    /// Mean slowdown of the training data in the same mode.
    mean: f64,
    sample: &'a Sample,
}

/// Errors over folds. `touches` says whether a sample is part of a fold; it is then tested and left out of the
/// training.
fn errors(
    samples: &[Sample],
    folds: &[BTreeSet<String>],
    touches: impl Fn(&Sample, &BTreeSet<String>) -> bool,
) -> Result<Errors> {
    let mut tested: Vec<Tested<'_>> = Vec::new();
    for (fold, held) in folds.iter().enumerate() {
        let (out, train): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|sample| touches(sample, held));
        if out.is_empty() || train.is_empty() {
            continue;
        }
        let trees = Trees::fit(&train)?;
        for sample in out {
            let alike = train.iter().filter(|s| s.is_sliced == sample.is_sliced);
            let (sum, many) = alike.fold((0.0, 0.0), |(sum, n), s| (sum + s.slowdown, n + 1.0));
            let mean = if many > 0.0 { sum / many } else { sample.crowd };
            tested.push(Tested {
                fold,
                predicted: trees.slowdown(sample),
                mean,
                sample,
            });
        }
    }
    let error = |predicted: f64, sample: &Sample| (predicted / sample.slowdown - 1.0).abs();
    let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let of = |predict: &dyn Fn(&Tested<'_>) -> f64| {
        mean(tested.iter().map(|t| error(predict(t), t.sample)).collect())
    };
    let by_bandwidth: Option<Vec<f64>> = tested
        .iter()
        .map(|Tested { sample, .. }| {
            let rate = sample.bandwidth / sample.memory_rate?;
            Some(error(rate.max(sample.crowd), sample))
        })
        .collect();
    // The interval of a fold comes from the residuals of the other folds.
    let residual = |t: &Tested<'_>| (t.predicted / t.sample.slowdown).ln().abs();
    let (mut covered, mut widths) = (0.0, Vec::new());
    for fold in 0..folds.len() {
        let others = tested.iter().filter(|t| t.fold != fold).map(residual);
        let Some(width) = opdata::stats::quantile(others, LEVEL) else {
            continue;
        };
        widths.push(width);
        let own = tested.iter().filter(|t| t.fold == fold);
        covered += own.filter(|t| residual(t) <= width).count() as f64;
    }
    Ok(Errors {
        model: of(&|t| t.predicted),
        no_slowdown: of(&|t| t.sample.crowd),
        sum_of_bandwidths: by_bandwidth.map(mean),
        mean_slowdown: of(&|t| t.mean),
        coverage: covered / tested.len().max(1) as f64,
        half_width: mean(widths),
    })
}
