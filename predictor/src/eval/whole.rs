//! Whole models from their operators: the sum of calls times predicted time, times a factor.
//!
//! The factor (what a model takes beside its operators, and what predictions of many small operators have in common) is
//! the median over models of measured whole ÷ sum of predictions that had not seen the model, by number of threads where
//! there are enough models.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::folds::OutOfFold;
use super::split::Fold;
use crate::data::{Dataset, ModelRun};

/// A model whose measured operators explain less than this share was not measured completely.
const COMPLETE: f64 = 0.6;
/// Least number of models for a factor of their own number of threads.
const OWN_FACTOR: usize = 3;

/// Whole over the sum of operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WholeFactor {
    /// By number of threads.
    by_threads: BTreeMap<u64, f64>,
    /// Over all.
    overall: Option<f64>,
    /// Standard deviation of the logarithm of predicted over measured whole, log2.
    pub deviation: Option<f64>,
    /// Models that it was learned from.
    pub models: usize,
}

/// One whole model, predicted and measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeModel {
    /// The model's name.
    pub model: String,
    /// Threads.
    pub threads: u64,
    /// Median of the runs' medians, ms.
    pub measured_ms: f64,
    /// Prediction, ms.
    pub predicted_ms: f64,
    /// (predicted − measured) ÷ measured, percent.
    pub error: f64,
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let last = count.checked_sub(1)?;
    Some((values[last / 2] + values[count / 2]) / 2.0)
}

/// The sum of a model's operators, ns, with a time for each sample.
fn sum(run: &ModelRun, time_ns: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    run.parts.iter().try_fold(0.0, |sum, &(index, count)| {
        Some(sum + time_ns(index)? * count as f64)
    })
}

/// The runs whose measured operators explain the whole.
fn complete(dataset: &Dataset) -> impl Iterator<Item = &ModelRun> {
    dataset.model_runs.iter().filter(|run| {
        let measured = sum(run, |i| Some(dataset.samples[i].log2_time.exp2()));
        measured.is_some_and(|sum| sum > COMPLETE * run.end_to_end_ns)
    })
}

impl WholeFactor {
    /// Learns the factor from all models but one, given a prediction (log2 ns) for a model's sample.
    pub fn fit(
        dataset: &Dataset,
        without: Option<&str>,
        predicted: impl Fn(&str, usize) -> Option<f64>,
    ) -> Self {
        let mut ratios: BTreeMap<u64, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for run in complete(dataset) {
            if Some(run.model.as_str()) == without {
                continue;
            }
            if let Some(sum) = sum(run, |i| Some(predicted(&run.model, i)?.exp2())) {
                let by_model = ratios.entry(run.threads).or_default();
                by_model
                    .entry(&run.model)
                    .or_default()
                    .push(run.end_to_end_ns / sum);
            }
        }
        let of_models = |models: BTreeMap<&str, Vec<f64>>| -> Vec<f64> {
            models.into_values().filter_map(median).collect()
        };
        let by_threads: BTreeMap<u64, Vec<f64>> = ratios
            .into_iter()
            .map(|(threads, models)| (threads, of_models(models)))
            .collect();
        let overall = median(by_threads.values().flatten().copied().collect());
        let mut factor = Self {
            models: by_threads.values().map(Vec::len).max().unwrap_or(0),
            overall,
            by_threads: by_threads
                .iter()
                .filter(|(_, ratios)| ratios.len() >= OWN_FACTOR)
                .filter_map(|(threads, ratios)| Some((*threads, median(ratios.clone())?)))
                .collect(),
            deviation: None,
        };
        let mut errors: Vec<f64> = Vec::new();
        for (threads, ratios) in &by_threads {
            let own = factor.at(Some(*threads));
            errors.extend(ratios.iter().map(|r| (r / own).log2().powi(2)));
        }
        if factor.models >= OWN_FACTOR {
            factor.deviation = Some((errors.iter().sum::<f64>() / errors.len() as f64).sqrt());
        }
        factor
    }

    /// The factor at a number of threads; 1 where nothing is known.
    pub fn at(&self, threads: Option<u64>) -> f64 {
        threads
            .and_then(|t| self.by_threads.get(&t))
            .copied()
            .or(self.overall)
            .unwrap_or(1.0)
    }
}

/// The models of folds that hold one out each.
pub fn of_held_out(dataset: &Dataset, folds: &[Fold], held: &OutOfFold) -> Vec<WholeModel> {
    let mut predictions: HashMap<(usize, usize), f64> = HashMap::new();
    for (place, &index) in held.index.iter().enumerate() {
        predictions.insert((held.fold[place], index), held.predicted[place]);
    }
    let fold_of: HashMap<&str, usize> = folds
        .iter()
        .enumerate()
        .filter_map(|(number, fold)| Some((fold.model.as_deref()?, number)))
        .collect();
    let predicted = |model: &str, index: usize| -> Option<f64> {
        predictions.get(&(*fold_of.get(model)?, index)).copied()
    };
    let mut result = Vec::new();
    for fold in folds {
        let Some(name) = fold.model.as_deref() else {
            continue;
        };
        let factor = WholeFactor::fit(dataset, Some(name), predicted);
        let mut by_threads: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for run in complete(dataset).filter(|run| run.model == name) {
            if let Some(sum) = sum(run, |i| Some(predicted(name, i)?.exp2())) {
                let entry = by_threads.entry(run.threads).or_default();
                entry.0.push(run.end_to_end_ns);
                entry.1.push(sum * factor.at(Some(run.threads)));
            }
        }
        for (threads, (measured, predicted)) in by_threads {
            if let (Some(measured), Some(predicted)) = (median(measured), median(predicted)) {
                result.push(WholeModel {
                    model: name.to_owned(),
                    threads,
                    measured_ms: measured / 1e6,
                    predicted_ms: predicted / 1e6,
                    error: 100.0 * (predicted / measured - 1.0),
                });
            }
        }
    }
    result
}
