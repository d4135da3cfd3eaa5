//! Whole models from their operators: the sum of calls times time inside the model, times a factor, plus a constant for
//! every call.
//!
//! The constant is what the model takes between its operators (measured whole − measured operators), by number of
//! threads. The factor is common to predictions of all of a model's operators. It is the median over models of
//! measured whole ÷ prediction by operators that had not been seen.

use std::collections::{BTreeMap, HashMap};

use opdata::contract::interference::is_disturbed;
use opdata::stats::{median, two_sided_quantile, weighted_median, weighted_quantile_of_sorted};
use oplearn::crossval::folds::{OutOfFold, PartPlace};
use oplearn::data::disturbed;
use oplearn::data::split::Fold;
use oplearn::data::{Dataset, ModelRun, Part};
use oplearn::models::context::Context;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A model whose measured operators explain less than this share was not measured completely.
const COMPLETE: f64 = 0.6;
/// Minimum standard deviation of a whole model over its measured operators, log2: 1.4 %, the difference between two
/// runs of an undisturbed model.
const LEAST_DEVIATION: f64 = 0.02;
/// Level of the operators' intervals that whole models are compared with.
pub const OWN_LEVEL: f64 = 0.9;
/// Minimum number of models to fit a factor for their number of threads.
const OWN_FACTOR: usize = 3;

/// How the operators of a model add up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WholeFactor {
    /// Whole over the sum of operators, by number of threads.
    by_threads: BTreeMap<u64, f64>,
    /// Whole over the sum of operators, over all numbers of threads.
    overall: Option<f64>,
    /// Time between two operators, ns, by number of threads.
    call_ns: BTreeMap<u64, f64>,
    /// Errors of the models that it was fitted to, for intervals; empty if they were too few.
    #[serde(default)]
    errors: Vec<WholeError>,
    /// Standard deviation of the logarithm of whole over sum of measured operators, log2.
    measured_deviation: Option<f64>,
    /// Number of models that it was fitted to.
    pub models: usize,
}

/// The error of the prediction of one whole model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WholeError {
    /// log2(measured ÷ predicted).
    error: f64,
    /// Distance to the end of its operators' interval at [`OWN_LEVEL`], on the side of the error, log2.
    own: f64,
    /// A model's imports and numbers of threads share a weight of one.
    weight: f64,
}

/// The interval of one operator of a whole model around its prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartSpread {
    /// Its share of the sum of all operators, 0 to 1.
    pub share: f64,
    /// Distance from the prediction to the lower and the upper end of its interval, log2.
    pub ends: [f64; 2],
}

/// One whole model, predicted and measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WholeModel {
    /// The model's name.
    pub model: String,
    /// The import that was timed; missing for rows that do not say.
    pub import_key: Option<String>,
    /// Threads.
    pub threads: u64,
    /// Median of the runs' medians, ms.
    pub measured_ms: f64,
    /// Prediction, ms.
    pub predicted_ms: f64,
    /// Ends of the interval around the prediction, ms; missing where too few models were left to calibrate it.
    pub interval_ms: Option<[f64; 2]>,
    /// (predicted − measured) ÷ measured, percent.
    pub error: f64,
    /// Time of the reference kernel around the model over its undisturbed time, median of the runs; missing where no run says.
    pub drift: Option<f64>,
}

impl WholeModel {
    /// Whether something else ran while it was measured; `None` where no run says.
    pub fn disturbed(&self) -> Option<bool> {
        self.drift.map(is_disturbed)
    }

    /// Whether the measured time lies inside the interval; `None` without one.
    pub fn is_inside(&self) -> Option<bool> {
        let [low, high] = self.interval_ms?;
        Some((low..=high).contains(&self.measured_ms))
    }
}

/// The sum of a model's operators, ns, with a time for each.
fn sum(run: &ModelRun, time_ns: impl Fn(&Part) -> Option<f64>) -> Option<f64> {
    run.parts.iter().try_fold(0.0, |sum, part| {
        Some(sum + time_ns(part)? * part.calls as f64)
    })
}

fn calls(run: &ModelRun) -> f64 {
    run.parts.iter().map(|part| part.calls as f64).sum()
}

/// The runs whose measured operators explain the whole, with their positions.
fn complete(dataset: &Dataset) -> impl Iterator<Item = (usize, &ModelRun)> {
    dataset.model_runs.iter().enumerate().filter(|(_, run)| {
        let alone = |part: &Part| Some(dataset.samples[part.sample].log2_time.exp2());
        let measured = sum(run, |part| part.in_model_ns.or_else(|| alone(part)));
        measured.is_some_and(|sum| sum > COMPLETE * run.end_to_end_ns)
    })
}

/// Time between operators, by number of threads. Models with short calls determine it best.
fn call_ns(runs: &[&ModelRun]) -> BTreeMap<u64, f64> {
    let mut by_threads: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for run in runs {
        if let Some(operators) = sum(run, |part| part.in_model_ns) {
            let between = (run.end_to_end_ns - operators).max(0.0) / calls(run);
            let weight = calls(run) / run.end_to_end_ns;
            by_threads
                .entry(run.threads)
                .or_default()
                .push((between, weight));
        }
    }
    by_threads
        .into_iter()
        .filter_map(|(threads, values)| Some((threads, weighted_median(values)?)))
        .collect()
}

/// A model as it was imported.
type Import<'a> = (&'a str, Option<&'a str>);

/// Facts of one run: whole-model time over the sum of operators, the slowdown by interference around it, and the summed ends
/// of the operators' intervals, log2.
type Ratio = (f64, Option<f64>, [f64; 2]);

/// Ratios by number of threads and import. An import with several runs counts once.
type Ratios<'a> = BTreeMap<u64, BTreeMap<Import<'a>, Vec<Ratio>>>;

fn import(run: &ModelRun) -> Import<'_> {
    (&run.model, run.import_key.as_deref())
}

/// A model, its ratio, and the summed ends of its operators' intervals, log2.
type OfModel<'a> = (&'a str, f64, [f64; 2]);

/// The ratios of all imports.
fn of_models<'a>(models: &BTreeMap<Import<'a>, Vec<Ratio>>) -> Vec<OfModel<'a>> {
    let of_model = |((model, _), ratios): (&Import<'a>, &Vec<Ratio>)| {
        let of_use = of_use(ratios.clone(), |(_, drift, _)| *drift);
        let own = of_use.first()?.2;
        Some((
            *model,
            median(of_use.into_iter().map(|(ratio, ..)| ratio))?,
            own,
        ))
    };
    models.iter().filter_map(of_model).collect()
}

impl WholeFactor {
    /// Learns from all models but one. Given the position of a run and of a sample in it, `predicted` returns a
    /// prediction (log2 ns inside the model). `spread` returns the distances to the ends of its interval of
    /// [`OWN_LEVEL`] (log2).
    pub fn fit(
        dataset: &Dataset,
        without: Option<&str>,
        predicted: impl Fn(usize, usize) -> Option<f64>,
        spread: impl Fn(usize, usize) -> Option<[f64; 2]>,
    ) -> Self {
        let (places, runs): (Vec<usize>, Vec<&ModelRun>) = complete(dataset)
            .filter(|(_, run)| Some(run.model.as_str()) != without)
            .unzip();
        let mut factor = Self {
            call_ns: call_ns(&runs),
            ..Self::default()
        };
        let (mut ratios, mut exact) = (Ratios::new(), Vec::new());
        for (place, run) in places.into_iter().zip(runs) {
            let between = factor.between(run.threads, calls(run));
            let whole = (run.end_to_end_ns - between).max(0.1 * run.end_to_end_ns);
            if let Some(sum) = sum(run, |p| Some(predicted(place, p.sample)?.exp2())) {
                let by_model = ratios.entry(run.threads).or_default();
                let part = |part: &Part| PartSpread {
                    share: predicted(place, part.sample).map_or(0.0, f64::exp2) * part.calls as f64
                        / sum,
                    ends: spread(place, part.sample).unwrap_or_default(),
                };
                let parts: Vec<PartSpread> = run.parts.iter().map(part).collect();
                by_model.entry(import(run)).or_default().push((
                    whole / sum,
                    run.drift,
                    own_ends(&parts),
                ));
            }
            exact.extend(sum(run, |p| p.in_model_ns).map(|sum| whole / sum));
        }
        let of_models: BTreeMap<u64, Vec<OfModel<'_>>> = ratios
            .iter()
            .map(|(threads, models)| (*threads, of_models(models)))
            .collect();
        let by_threads: BTreeMap<u64, Vec<f64>> = of_models
            .iter()
            .map(|(threads, models)| (*threads, models.iter().map(|m| m.1).collect()))
            .collect();
        factor.models = by_threads.values().map(Vec::len).max().unwrap_or(0);
        factor.overall = median(by_threads.values().flatten().copied());
        factor.by_threads = by_threads
            .iter()
            .filter(|(_, ratios)| ratios.len() >= OWN_FACTOR)
            .filter_map(|(threads, ratios)| Some((*threads, median(ratios.clone())?)))
            .collect();
        if factor.models >= OWN_FACTOR {
            factor.errors = factor.errors_of(&of_models);
            factor.measured_deviation = deviation(exact.into_iter());
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

    /// Time between operators of a model with this many calls, ns: that of the nearest number of threads.
    pub fn between(&self, threads: u64, calls: f64) -> f64 {
        let nearest = self.call_ns.iter().min_by_key(|(t, _)| t.abs_diff(threads));
        nearest.map_or(0.0, |(_, one)| one * calls)
    }
}

impl WholeFactor {
    /// The error of each model against the factor of its number of threads.
    fn errors_of(&self, models: &BTreeMap<u64, Vec<OfModel<'_>>>) -> Vec<WholeError> {
        let mut times: HashMap<&str, f64> = HashMap::new();
        for (model, ..) in models.values().flatten() {
            *times.entry(model).or_default() += 1.0;
        }
        let of = models.iter().flat_map(|(threads, models)| {
            let factor = self.at(Some(*threads));
            let times = &times;
            models.iter().map(move |(model, ratio, own)| {
                let error = (ratio / factor).log2();
                WholeError {
                    error,
                    own: own[usize::from(error > 0.0)],
                    weight: 1.0 / times[model],
                }
            })
        });
        of.collect()
    }

    /// The error that all predictions of whole models share, log2. It is the smallest distance that, added to the uncertainty
    /// of each model's operators, covers a share `level` of the models seen.
    fn in_common(&self, level: f64) -> Option<f64> {
        let wider = wider(level);
        let needed = |error: &WholeError| {
            let beyond = error.error.powi(2) - (error.own * wider).powi(2);
            (beyond.max(0.0).sqrt(), error.weight)
        };
        let mut needed: Vec<(f64, f64)> = self.errors.iter().map(needed).collect();
        needed.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The next model is one more than those seen, and may lie beyond them all.
        let models = needed.iter().map(|(_, weight)| weight).sum::<f64>();
        weighted_quantile_of_sorted(
            needed.into_iter(),
            (level * (models + 1.0) / models).min(1.0),
        )
    }

    /// Distances from a predicted whole to the ends of its interval, log2; missing where too few models were seen.
    ///
    /// Two independent errors add up. One is common to all predictions of a model (seen in whole models), the other is
    /// the operators' own. So a model of one operator errs no less than the operator. `measured` is the share of the
    /// sum that was itself measured, 0 to 1.
    pub fn ends(&self, level: f64, measured: f64, parts: &[PartSpread]) -> Option<[f64; 2]> {
        let predicted = self.in_common(level)?;
        // Even a sum of measured operators differs from the whole by about this much.
        let exact = self
            .measured_deviation
            .unwrap_or(predicted)
            .max(LEAST_DEVIATION);
        let exact = two_sided_quantile(level, None) * exact;
        let common = ((1.0 - measured) * predicted.powi(2) + measured * exact.powi(2)).sqrt();
        Some(own_ends(parts).map(|own| common.hypot(own)))
    }
}

/// Width of an interval of `level` over that of one of [`OWN_LEVEL`], for normally distributed errors.
fn wider(level: f64) -> f64 {
    two_sided_quantile(level, None) / two_sided_quantile(OWN_LEVEL, None)
}

/// The ends of the interval of a sum of independent operators, log2.
fn own_ends(parts: &[PartSpread]) -> [f64; 2] {
    [0, 1].map(|end| {
        let squares = parts
            .iter()
            .map(|part| (part.share * part.ends[end]).powi(2));
        squares.sum::<f64>().sqrt()
    })
}

/// Root mean square of the logarithms of ratios.
fn deviation(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let squares: Vec<f64> = ratios.map(|ratio| ratio.log2().powi(2)).collect();
    let count = squares.len() as f64;
    (!squares.is_empty()).then(|| (squares.iter().sum::<f64>() / count).sqrt())
}

/// Predictions (log2 ns) of held-out operators inside their running models. The effect of running there is learned
/// without their fold, too.
pub fn in_model(
    dataset: &Dataset,
    folds: &[Fold],
    out_of_fold: &OutOfFold,
) -> HashMap<PartPlace, f64> {
    let contexts: Vec<Context> = folds
        .par_iter()
        .map(|fold| Context::fit(dataset, &fold.train))
        .collect();
    let inside = |(&place, &alone): (&PartPlace, &f64)| {
        let sample = &dataset.samples[place.sample];
        let time = contexts[place.fold].time(&sample.point, sample.threads, alone);
        (place, time)
    };
    out_of_fold.of_models.iter().map(inside).collect()
}

/// A run of an import at a number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    measured_ns: f64,
    predicted_ns: f64,
    /// Distances to the ends of its interval, log2.
    ends: Option<[f64; 2]>,
    drift: Option<f64>,
}

/// Keeps the runs that an import's time is computed from.
fn of_use<T>(mut runs: Vec<T>, drift: impl Fn(&T) -> Option<f64>) -> Vec<T> {
    disturbed::keep_of_use(&mut runs, |run| drift(run).map(is_disturbed));
    runs
}

/// The models of folds that hold out one each; empty for other folds. `spread` gives the ends of the intervals of
/// held-out samples at [`OWN_LEVEL`] by fold and sample, as in [`PartSpread`].
pub fn of_held_out(
    dataset: &Dataset,
    folds: &[Fold],
    out_of_fold: &OutOfFold,
    spread: &HashMap<(usize, usize), [f64; 2]>,
    level: f64,
) -> Vec<WholeModel> {
    if folds.iter().all(|fold| fold.model.is_none()) {
        return Vec::new();
    }
    let times = in_model(dataset, folds, out_of_fold);
    let fold_of: HashMap<&str, usize> = folds
        .iter()
        .enumerate()
        .filter_map(|(number, fold)| Some((fold.model.as_deref()?, number)))
        .collect();
    let predicted = |run: usize, sample: usize| -> Option<f64> {
        let fold = *fold_of.get(dataset.model_runs[run].model.as_str())?;
        times.get(&PartPlace { fold, run, sample }).copied()
    };
    let mut result = Vec::new();
    for fold in folds {
        let Some(name) = fold.model.as_deref() else {
            continue;
        };
        let own = |run: usize, sample: usize| {
            let fold = *fold_of.get(dataset.model_runs[run].model.as_str())?;
            spread.get(&(fold, sample)).copied()
        };
        let factor = WholeFactor::fit(dataset, Some(name), predicted, own);
        let mut by_import: BTreeMap<(Import<'_>, u64), Vec<Run>> = BTreeMap::new();
        for (place, run) in complete(dataset).filter(|(_, run)| run.model == name) {
            if let Some(sum) = sum(run, |part| Some(predicted(place, part.sample)?.exp2())) {
                let between = factor.between(run.threads, calls(run));
                let of_import = by_import.entry((import(run), run.threads)).or_default();
                let parts: Option<Vec<PartSpread>> = run
                    .parts
                    .iter()
                    .map(|part| {
                        Some(PartSpread {
                            share: predicted(place, part.sample)?.exp2() * part.calls as f64 / sum,
                            ends: own(place, part.sample)?.map(|end| wider(level) * end),
                        })
                    })
                    .collect();
                of_import.push(Run {
                    measured_ns: run.end_to_end_ns,
                    predicted_ns: sum * factor.at(Some(run.threads)) + between,
                    ends: parts.and_then(|parts| factor.ends(level, 0.0, &parts)),
                    drift: run.drift,
                });
            }
        }
        for (((_, import_key), threads), runs) in by_import {
            let runs = of_use(runs, |run| run.drift);
            let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
            if let Some((measured, predicted)) = of(|r| r.measured_ns).zip(of(|r| r.predicted_ns)) {
                let ends = runs.first().and_then(|run| run.ends);
                result.push(WholeModel {
                    interval_ms: ends.map(|[low, high]| {
                        [
                            predicted * (-low).exp2() / 1e6,
                            predicted * high.exp2() / 1e6,
                        ]
                    }),
                    model: name.to_owned(),
                    import_key: import_key.map(str::to_owned),
                    threads,
                    measured_ms: measured / 1e6,
                    predicted_ms: predicted / 1e6,
                    error: 100.0 * (predicted / measured - 1.0),
                    drift: median(runs.iter().filter_map(|r| r.drift)),
                });
            }
        }
    }
    result
}

#[cfg(test)]
mod tests;
