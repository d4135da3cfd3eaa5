//! Out-of-fold predictions: each sample predicted by a model that has not seen its fold.
//!
//! Folds are independent, so they run on all cores with one thread of the library each.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use crate::data::Dataset;
use crate::data::split::Fold;
use crate::error::Result;
use crate::features::Point;
use crate::models::ranker::Ranker;
use crate::models::{
    Familiarity, FitOptions, ModelKind, Parallel, Regressor, fit, for_queries, members_for,
};

/// Predictions of held-out samples.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfFold {
    /// Position of the sample.
    pub index: Vec<usize>,
    /// The fold that held it out.
    pub fold: Vec<usize>,
    /// Base-2 logarithm of the predicted time, ns.
    pub predicted: Vec<f64>,
    /// Disagreement of the model's members, log2; NaN if it has only one.
    pub disagreement: Vec<f64>,
    /// Scores of the ranker, if requested.
    pub scores: Option<Vec<f64>>,
    /// Held-out operators of whole models that were timed, predicted for the machine as it was then.
    pub of_models: HashMap<PartPlace, f64>,
}

/// An operator of a whole model that a fold held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartPlace {
    /// The fold.
    pub fold: usize,
    /// Position of the whole model in [`Dataset::model_runs`].
    pub run: usize,
    /// Position of the operator's sample.
    pub sample: usize,
}

/// Whether to train a ranker beside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ranking {
    /// Train no ranker.
    #[default]
    Without,
    /// Train a ranker beside the model.
    With,
}

/// The members of the ensembles that are fitted to folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// Members of the options, for all folds.
    Given,
    /// Members for the training samples of each fold.
    OfFold,
}

struct FoldResult {
    predicted: Vec<f64>,
    disagreement: Option<Vec<f64>>,
    scores: Option<Vec<f64>>,
    of_models: HashMap<PartPlace, f64>,
}

/// Predicts every held-out sample. `done` is called after each fold.
///
/// # Errors
/// Fails if a model cannot be fitted.
pub fn out_of_fold(
    dataset: &Dataset,
    folds: &[Fold],
    kind: ModelKind,
    options: &FitOptions,
    (members, ranking): (Members, Ranking),
    done: &(dyn Fn() + Sync),
) -> Result<OutOfFold> {
    let single = |number: usize| FitOptions {
        parallel: Parallel::Not,
        members: {
            let fold = &folds[number];
            let all = match members {
                Members::Given => options.members.clone(),
                Members::OfFold => members_for(dataset, &fold.train),
            };
            for_queries(&all, &familiarities(dataset, fold))
        },
        ..options.clone()
    };
    let mut order: Vec<usize> = (0..folds.len()).collect();
    // Folds differ little in cost. With the largest training sets first, no long fold runs alone at the end.
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
                of_models: of_models(dataset, (number, fold), model.as_ref())?,
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
        of_models: HashMap::new(),
    };
    for (number, result) in results {
        let test = &folds[number].test;
        all.index.extend(test);
        all.fold.extend(std::iter::repeat_n(number, test.len()));
        all.predicted.extend(result.predicted);
        all.of_models.extend(result.of_models);
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

/// Predictions of a fold's model for its held-out samples as operators of the whole models that were timed.
/// Interference may have been stronger or weaker then than when the operators were measured alone.
fn of_models(
    dataset: &Dataset,
    (number, fold): (usize, &Fold),
    model: &dyn Regressor,
) -> Result<HashMap<PartPlace, f64>> {
    let held_out: HashSet<usize> = fold.test.iter().copied().collect();
    let (mut places, mut points) = (Vec::new(), Vec::new());
    for (run, whole) in dataset.model_runs.iter().enumerate() {
        let parts = whole.parts.iter().map(|part| part.sample);
        for sample in parts.filter(|sample| held_out.contains(sample)) {
            let mut point = dataset.samples[sample].point.clone();
            point.set_drift(whole.drift);
            points.push(point);
            places.push(PartPlace {
                fold: number,
                run,
                sample,
            });
        }
    }
    let predicted = model.predict(&points.iter().collect::<Vec<_>>())?;
    Ok(places.into_iter().zip(predicted).collect())
}

/// The kinds of queries that a fold's test samples are.
fn familiarities(dataset: &Dataset, fold: &Fold) -> Vec<Familiarity> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::Split;
    use crate::data::{Machines, ModelRun, Part, RowSet};
    use crate::testing::dense_row;
    use opdata::Row;

    /// Products, each measured on the quiet machine and, half as slow again, while something else ran.
    fn dataset() -> Dataset {
        let rows = (0..120u64).map(|number| {
            let (shape, disturbed) = (number / 2, number % 2 == 1);
            let row = dense_row(1 + shape % 5, 64 << (shape % 4), 32 * (1 + shape / 4), "{}");
            let quiet = row.flops.unwrap() as f64 / 10.0;
            Row {
                point_id: number.to_string(),
                workload_hash: Some(shape.to_string()),
                drift_ratio: Some(if disturbed { 1.4 } else { 1.01 }),
                time_median_ns: Some(if disturbed { 1.5 * quiet } else { quiet }),
                ..row
            }
        });
        Dataset::new(&RowSet::from(rows.collect::<Vec<_>>()), &Machines::Single).unwrap()
    }

    #[test]
    fn operators_of_a_model_are_predicted_for_the_machine_as_it_was_then() {
        let mut dataset = dataset();
        let run = |drift| ModelRun {
            run_id: "run".to_owned(),
            model: "mlp".to_owned(),
            import_key: None,
            threads: 1,
            end_to_end_ns: 1e6,
            drift: Some(drift),
            parts: (0..120)
                .map(|sample| Part {
                    sample,
                    calls: 1,
                    in_model_ns: None,
                })
                .collect(),
        };
        dataset.model_runs = vec![run(1.0), run(1.4)];
        let folds = Split::Workloads(3).folds(&dataset, 0).unwrap();
        let found = out_of_fold(
            &dataset,
            &folds,
            ModelKind::Ensemble,
            &FitOptions::default(),
            (Members::Given, Ranking::Without),
            &|| (),
        )
        .unwrap();
        for (place, &sample) in found.index.iter().enumerate() {
            let fold = found.fold[place];
            let of_run = |run| found.of_models[&PartPlace { fold, run, sample }];
            let own = usize::from(sample % 2 == 1);
            assert_eq!(of_run(own), found.predicted[place]);
            let slower = (of_run(1) - of_run(0)).exp2();
            assert!((1.35..1.6).contains(&slower), "{slower}");
        }
    }
}
