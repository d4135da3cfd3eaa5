//! Out-of-fold predictions: each sample predicted by a model that has not seen its fold.
//!
//! Folds are independent, so they run on all cores with one thread of the library each.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::data::Dataset;
use crate::data::split::Fold;
use crate::error::Result;
use crate::features::Point;
use crate::models::ranker::Ranker;
use crate::models::{Choice, Familiarity, FitOptions, ModelKind, Parallel, fit};

/// Predictions of held-out samples.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfFold {
    /// Position of the sample.
    pub index: Vec<usize>,
    /// The fold that held it out.
    pub fold: Vec<usize>,
    /// Base-2 logarithm of the predicted time, ns.
    pub predicted: Vec<f64>,
    /// How much the model disagreed with itself; missing where it has no opinion.
    pub disagreement: Vec<f64>,
    /// Scores of the ranker, if one was asked for.
    pub scores: Option<Vec<f64>>,
}

/// Whether to train a ranker beside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ranking {
    /// No.
    #[default]
    Without,
    /// Yes.
    With,
}

/// The members of the ensembles that are fitted to folds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Members<'a> {
    /// Those of the options, for all folds.
    Given,
    /// Those chosen for each fold without its test samples.
    Chosen(&'a [Choice]),
}

struct FoldResult {
    predicted: Vec<f64>,
    disagreement: Option<Vec<f64>>,
    scores: Option<Vec<f64>>,
}

/// Predicts every held-out sample. `done` is called after each fold.
///
/// # Errors
/// A model cannot be fitted.
pub fn out_of_fold(
    dataset: &Dataset,
    folds: &[Fold],
    kind: ModelKind,
    options: &FitOptions,
    (members, ranking): (Members<'_>, Ranking),
    done: &(dyn Fn() + Sync),
) -> Result<OutOfFold> {
    let single = |number: usize| FitOptions {
        parallel: Parallel::Not,
        choice: match members {
            Members::Given => &options.choice,
            Members::Chosen(choices) => &choices[number],
        }
        .for_queries(&familiarities(dataset, &folds[number])),
        ..options.clone()
    };
    let mut order: Vec<usize> = (0..folds.len()).collect();
    // Folds differ little in cost, but the largest training sets first leave no straggler at the end.
    order.sort_by_key(|&f| std::cmp::Reverse(folds[f].train.len()));
    let mut results: Vec<(usize, FoldResult)> = order
        .into_par_iter()
        .map(|number| {
            let fold = &folds[number];
            let model = fit(kind, dataset, &fold.train, &single(number))?;
            let points: Vec<&Point> = fold
                .test
                .iter()
                .map(|&i| &dataset.samples[i].point)
                .collect();
            let scores = match ranking {
                Ranking::Without => None,
                Ranking::With => {
                    Some(Ranker::fit(dataset, &fold.train, options.seed)?.scores(&points)?)
                }
            };
            let result = FoldResult {
                predicted: model.predict(&points)?,
                disagreement: model.disagreement(&points)?,
                scores,
            };
            done();
            Ok((number, result))
        })
        .collect::<Result<_>>()?;
    results.sort_by_key(|(number, _)| *number);
    let mut all = OutOfFold {
        index: Vec::new(),
        fold: Vec::new(),
        predicted: Vec::new(),
        disagreement: Vec::new(),
        scores: (ranking == Ranking::With).then(Vec::new),
    };
    for (number, result) in results {
        let test = &folds[number].test;
        all.index.extend(test);
        all.fold.extend(std::iter::repeat_n(number, test.len()));
        all.predicted.extend(result.predicted);
        all.disagreement.extend(
            result
                .disagreement
                .unwrap_or_else(|| vec![f64::NAN; test.len()]),
        );
        if let (Some(all), Some(own)) = (&mut all.scores, result.scores) {
            all.extend(own);
        }
    }
    Ok(all)
}

/// The kinds of queries that a fold's test samples are.
pub(super) fn familiarities(dataset: &Dataset, fold: &Fold) -> Vec<Familiarity> {
    let workload = |&i: &usize| dataset.samples[i].point.workload;
    let trained: HashSet<u64> = fold.train.iter().map(workload).collect();
    let (known, unseen): (Vec<u64>, Vec<u64>) = fold
        .test
        .iter()
        .map(workload)
        .partition(|w| trained.contains(w));
    let kinds = [(Familiarity::Unseen, unseen), (Familiarity::Known, known)];
    let asked = kinds
        .into_iter()
        .filter(|(_, workloads)| !workloads.is_empty());
    asked.map(|(kind, _)| kind).collect()
}

impl OutOfFold {
    /// Logarithms of the measured times, in the order of the predictions.
    pub fn measured(&self, dataset: &Dataset) -> Vec<f64> {
        self.index
            .iter()
            .map(|&i| dataset.samples[i].log2_time)
            .collect()
    }

    /// Kinds of the operators, in the order of the predictions.
    pub fn kinds<'a>(&self, dataset: &'a Dataset) -> Vec<&'a str> {
        self.index
            .iter()
            .map(|&i| dataset.samples[i].kind.as_str())
            .collect()
    }
}
