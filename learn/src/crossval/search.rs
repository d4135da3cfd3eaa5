//! Hyper-parameters of the trees by cross-validation, within a budget of time.
//!
//! Candidates are drawn around the default and judged by the mean absolute error of the logarithm on workloads held out,
//! with the ensemble's first two members. The default is the first candidate, so a search never chooses worse than it.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::folds::{Ranking, out_of_fold};
use crate::data::Dataset;
use crate::data::split::{Split, shuffled};
use crate::error::Result;
use crate::models::member::{MemberSpec, TREES, Trees};
use crate::models::{FitOptions, ModelKind};

/// Parts that workloads are held out in.
const FOLDS: usize = 4;
/// Members that candidates are judged with.
const JUDGES: usize = 2;
/// Candidates at most.
const CANDIDATES: usize = 200;

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// The best parameters.
    pub trees: Trees,
    /// Their error: mean of |log2(predicted ÷ measured)|.
    pub error: f64,
    /// The error of the default.
    pub default_error: f64,
    /// Candidates tried.
    pub tried: usize,
}

/// One of a few values, chosen by a number.
fn one_of<T: Copy>(values: &[T], number: usize) -> T {
    values[number % values.len()]
}

/// The candidate number `number`; 0 is the default.
fn candidate(number: usize, seed: u64) -> Trees {
    if number == 0 {
        return TREES;
    }
    let draw = shuffled(1000, seed.wrapping_add(number as u64));
    let (rounds, eta) = one_of(
        &[(100, 0.15), (150, 0.1), (300, 0.05), (500, 0.03)],
        draw[0],
    );
    Trees {
        rounds,
        eta,
        depth: one_of(&[4, 5, 6, 7, 8], draw[1]),
        subsample: one_of(&[0.5, 0.6, 0.8, 1.0], draw[2]),
        colsample: one_of(&[0.3, 0.5, 0.8], draw[3]),
        min_child_weight: one_of(&[1.0, 2.0, 4.0, 8.0], draw[4]),
        lambda: one_of(&[1.0, 2.0, 5.0], draw[5]),
        max_bin: TREES.max_bin,
    }
}

fn with_trees(members: &[MemberSpec], trees: Trees) -> Vec<MemberSpec> {
    members
        .iter()
        .map(|member| MemberSpec {
            trees,
            ..member.clone()
        })
        .collect()
}

/// Searches for as long as the budget lasts; one candidate beside the default at least.
///
/// # Errors
/// There are too few workloads, or XGBoost's library is missing or fails.
pub fn search(dataset: &Dataset, options: &FitOptions, budget: Duration) -> Result<Found> {
    let started = Instant::now();
    let folds =
        Split::Workloads(FOLDS.min(dataset.workloads.len())).folds(dataset, options.seed)?;
    let judges: Vec<MemberSpec> = options.members.iter().take(JUDGES).cloned().collect();
    let error_of = |trees: Trees| -> Result<f64> {
        let own = FitOptions {
            members: with_trees(&judges, trees),
            ..options.clone()
        };
        let held = out_of_fold(
            dataset,
            &folds,
            ModelKind::Ensemble,
            &own,
            Ranking::Without,
            &|| (),
        )?;
        let measured = held.measured(dataset);
        let sum: f64 = measured
            .iter()
            .zip(&held.predicted)
            .map(|(m, p)| (m - p).abs())
            .sum();
        Ok(sum / measured.len().max(1) as f64)
    };
    let default_error = error_of(TREES)?;
    let mut found = Found {
        trees: TREES,
        error: default_error,
        default_error,
        tried: 1,
    };
    while found.tried < CANDIDATES && (found.tried < 2 || started.elapsed() < budget) {
        let trees = candidate(found.tried, options.seed);
        let error = error_of(trees)?;
        found.tried += 1;
        if error < found.error {
            (found.trees, found.error) = (trees, error);
        }
    }
    Ok(found)
}

/// The options with the trees that a search found.
pub fn applied(options: &FitOptions, found: &Found) -> FitOptions {
    FitOptions {
        members: with_trees(&options.members, found.trees),
        ..options.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::crossval::search::*;

    #[test]
    fn candidates_begin_with_the_default_and_differ() {
        assert_eq!(candidate(0, 7), TREES);
        let drawn: Vec<Trees> = (1..20).map(|n| candidate(n, 7)).collect();
        assert!(drawn.iter().skip(1).any(|t| *t != drawn[0]));
        assert_eq!(candidate(5, 7), candidate(5, 7));
    }
}
