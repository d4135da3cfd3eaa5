//! An evaluation: out-of-fold predictions, their metrics overall, by kind and by workload, and the coverage of the
//! intervals.

use std::collections::{BTreeMap, HashMap};

use opdata::stats::median;
use oplearn::crossval::bias::Bias;
use oplearn::crossval::conformal::{CalibrationSample, Conformal};
use oplearn::crossval::folds::{Members, OutOfFold, Ranking, out_of_fold};
use oplearn::crossval::metrics::{Metrics, Pairs, RANKED_SAMPLES, top};
use oplearn::data::split::{Split, shuffled};
use oplearn::data::{Dataset, Intake};
use oplearn::models::{FitOptions, ModelKind};
use serde::Serialize;

use super::apart::{ByDisturbance, metrics_by};
use super::whole::{self, OWN_LEVEL, WholeModel};
use super::within::{ModelsWithin, within_10};
use crate::error::Result;

/// Options of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalOptions {
    /// What is held out.
    pub split: Split,
    /// The model.
    pub model: ModelKind,
    /// How the models are fitted.
    pub fit: FitOptions,
    /// Whether a ranker is evaluated, too.
    pub ranking: Ranking,
    /// Level of the intervals, 0 to 1.
    pub level: f64,
    /// Shares of the training samples for a learning curve, ascending; empty for none.
    pub curve: Vec<f64>,
}

/// How predictions order the schedules of workloads with [`RANKED_SAMPLES`] samples or more.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ordering {
    /// Workloads that count.
    pub ranked_workloads: usize,
    /// Share of pairs in the right order, mean over workloads, percent.
    pub pairwise: Option<f64>,
    /// Share of pairs in the right order, over all pairs, percent.
    pub pairwise_micro: Option<f64>,
    /// Best true time over the true time of the predicted best, mean over workloads, 0 to 1.
    pub top1: Option<f64>,
    /// Best true time over that of the best of the five predicted best, mean over workloads, 0 to 1.
    pub top5: Option<f64>,
}

/// Coverage of the intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// Promised share, percent.
    pub nominal: f64,
    /// Share of samples inside, percent.
    pub samples: f64,
    /// Mean over workloads of the share inside, percent.
    pub workloads: f64,
    /// Median of upper over lower end.
    pub median_ratio: f64,
    /// Workloads that intervals of this level need to hold what they promise.
    pub workloads_needed: usize,
}

/// One workload's errors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadReport {
    /// Operator and shapes.
    pub workload: String,
    /// Samples.
    pub samples: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Mean of log2(predicted ÷ measured).
    pub bias_log2: f64,
    /// Share of pairs in the right order, percent.
    pub pairwise: Option<f64>,
}

/// One point of the learning curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Share of the training samples.
    pub share: f64,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Share of pairs in the right order, percent.
    pub pairwise: Option<f64>,
}

/// The result of an evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The name of the split.
    pub split: String,
    /// The model.
    pub model: ModelKind,
    /// Counts of the rows used and left out.
    pub data: Intake,
    /// Workloads.
    pub workloads: usize,
    /// Folds.
    pub folds: usize,
    /// Metrics of all held-out samples.
    #[serde(flatten)]
    pub overall: Metrics,
    /// Mean over workloads of their mean absolute percentage error.
    pub mape_workloads: f64,
    /// Ordering by predicted times.
    #[serde(flatten)]
    pub ordering: Ordering,
    /// Ordering by the ranker's scores.
    pub ranker: Option<Ordering>,
    /// Coverage of the intervals; missing if there are too few groups.
    pub coverage: Option<Coverage>,
    /// Metrics by interference during the measurement. Missing if all samples were measured alike, or none says how.
    pub by_disturbance: Option<ByDisturbance>,
    /// Metrics by kind.
    pub by_kind: BTreeMap<String, Metrics>,
    /// Errors by workload, most samples first.
    pub by_workload: Vec<WorkloadReport>,
    /// Whole models from their predicted operators, when models are held out.
    pub models: Vec<WholeModel>,
    /// Share of them inside their intervals, percent; missing where none has one.
    pub models_inside: Option<f64>,
    /// Number of models within 10 %, by number of threads.
    pub models_within_10: Vec<ModelsWithin>,
    /// The learning curve, if requested.
    pub curve: Vec<CurvePoint>,
    /// The predictions themselves, for plots.
    #[serde(skip)]
    pub points: Vec<HeldOut>,
}

/// One held-out sample: its measured and its predicted time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// Position in the dataset.
    pub index: usize,
    /// The fold that held it out.
    pub fold: usize,
    /// Base-2 logarithm of the measured time, ns.
    pub measured: f64,
    /// Base-2 logarithm of the predicted time, ns.
    pub predicted: f64,
    /// Ends of the interval around the prediction, base-2 logarithms of ns; missing without a calibration.
    pub interval: Option<(f64, f64)>,
}

/// Evaluates a model. `done` is called after each fold.
///
/// # Errors
/// Fails if the data do not suffice for the split, or a model cannot be fitted.
pub fn evaluate(
    dataset: &Dataset,
    options: &EvalOptions,
    done: &(dyn Fn() + Sync),
) -> Result<Report> {
    let folds = options.split.folds(dataset, options.fit.seed)?;
    let mut out_of_fold = out_of_fold(
        dataset,
        &folds,
        options.model,
        &options.fit,
        (Members::OfFold, options.ranking),
        done,
    )?;
    let measured = out_of_fold.measured(dataset);
    if options.model == ModelKind::Ensemble {
        correct_bias_by_fold(&mut out_of_fold, &measured);
    }
    let groups: Vec<usize> = out_of_fold
        .index
        .iter()
        .map(|&i| dataset.samples[i].workload)
        .collect();
    let negated = |scores: &Vec<f64>| scores.iter().map(|s| -s).collect::<Vec<_>>();
    let mut curve = Vec::new();
    for &share in &options.curve {
        curve.push(curve_point(dataset, options, share)?);
    }
    let by_kind = metrics_by(dataset, &out_of_fold, &measured, |s| Some(s.kind.clone()));
    let by_disturbance = ByDisturbance::of(dataset, &out_of_fold, &measured);
    let by_workload = by_workload(dataset, &groups, &measured, &out_of_fold.predicted);
    let mape_workloads =
        by_workload.iter().map(|w| w.mape).sum::<f64>() / by_workload.len().max(1) as f64;
    let intervals = intervals(&out_of_fold, &measured, &groups, options.level);
    let spread = self::intervals(&out_of_fold, &measured, &groups, OWN_LEVEL)
        .as_ref()
        .map_or_else(HashMap::new, |ends| spread(&out_of_fold, ends));
    let models = whole::of_held_out(dataset, &folds, &out_of_fold, &spread, options.level);
    let coverage = intervals
        .as_ref()
        .and_then(|ends| coverage(ends, &measured, &groups, options.level));
    Ok(Report {
        split: options.split.to_string(),
        model: options.model,
        data: dataset.intake.clone(),
        workloads: dataset.workloads.len(),
        folds: folds.len(),
        overall: Metrics::of(&measured, &out_of_fold.predicted),
        mape_workloads,
        ordering: ordering(&groups, &measured, &out_of_fold.predicted),
        ranker: out_of_fold
            .scores
            .as_ref()
            .map(|s| ordering(&groups, &measured, &negated(s))),
        coverage,
        by_disturbance,
        by_kind,
        by_workload,
        models_inside: models_inside(&models),
        models_within_10: within_10(&models),
        models,
        curve,
        points: (0..measured.len())
            .map(|place| HeldOut {
                index: out_of_fold.index[place],
                fold: out_of_fold.fold[place],
                measured: measured[place],
                predicted: out_of_fold.predicted[place],
                interval: intervals.as_ref().map(|ends| ends[place]),
            })
            .collect(),
    })
}

/// Moves each fold by the constant that was best for all others.
fn correct_bias_by_fold(out_of_fold: &mut OutOfFold, measured: &[f64]) {
    let bias = Bias::new(&out_of_fold.predicted, measured, &out_of_fold.fold);
    let folds = out_of_fold.fold.iter().max().map_or(0, |fold| fold + 1);
    let best: Vec<f64> = (0..folds).map(|fold| bias.estimate(Some(fold))).collect();
    for (predicted, fold) in out_of_fold.predicted.iter_mut().zip(&out_of_fold.fold) {
        *predicted += best[*fold];
    }
}

fn places_by_group(groups: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, group) in groups.iter().enumerate() {
        places.entry(*group).or_default().push(place);
    }
    places
}

fn ordering(groups: &[usize], measured: &[f64], predicted: &[f64]) -> Ordering {
    let (mut shares, mut firsts, mut fifths) = (Vec::new(), Vec::new(), Vec::new());
    let mut all = Pairs::default();
    for places in places_by_group(groups).values() {
        if places.len() < RANKED_SAMPLES {
            continue;
        }
        let pick = |values: &[f64]| places.iter().map(|&p| values[p]).collect::<Vec<_>>();
        let (measured, predicted) = (pick(measured), pick(predicted));
        let pairs = Pairs::of(&measured, &predicted);
        all.pairs += pairs.pairs;
        all.right += pairs.right;
        shares.extend(pairs.share());
        firsts.push(top(&measured, &predicted, 1));
        fifths.push(top(&measured, &predicted, 5));
    }
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Ordering {
        ranked_workloads: firsts.len(),
        pairwise: mean(&shares),
        pairwise_micro: all.share(),
        top1: mean(&firsts),
        top5: mean(&fifths),
    }
}

/// The interval of every held-out sample (log2 ns), calibrated on all folds but its own; `None` if there are too few
/// groups.
fn intervals(
    out_of_fold: &OutOfFold,
    measured: &[f64],
    groups: &[usize],
    level: f64,
) -> Option<Vec<(f64, f64)>> {
    let all: Vec<CalibrationSample> = (0..measured.len())
        .map(|i| CalibrationSample {
            error: measured[i] - out_of_fold.predicted[i],
            disagreement: out_of_fold.disagreement[i],
            group: groups[i],
        })
        .collect();
    let mut ends = vec![(f64::NAN, f64::NAN); all.len()];
    for (fold, places) in places_by_group(&out_of_fold.fold) {
        let others: Vec<CalibrationSample> = (0..all.len())
            .filter(|&i| out_of_fold.fold[i] != fold)
            .map(|i| all[i])
            .collect();
        let conformal = Conformal::fit(&others)?;
        let intervals = conformal.at(level);
        for place in places {
            let (low, high) = intervals.around(all[place].disagreement);
            let predicted = out_of_fold.predicted[place];
            ends[place] = (predicted + low, predicted + high);
        }
    }
    Some(ends)
}

/// Distances from predictions to the ends of their intervals, log2, by fold and sample.
fn spread(out_of_fold: &OutOfFold, ends: &[(f64, f64)]) -> HashMap<(usize, usize), [f64; 2]> {
    let of = |place: usize| {
        let (predicted, (low, high)) = (out_of_fold.predicted[place], ends[place]);
        let key = (out_of_fold.fold[place], out_of_fold.index[place]);
        (
            key,
            [(predicted - low).max(0.0), (high - predicted).max(0.0)],
        )
    };
    (0..ends.len()).map(of).collect()
}

/// Counts what intervals hold.
fn coverage(
    ends: &[(f64, f64)],
    measured: &[f64],
    groups: &[usize],
    level: f64,
) -> Option<Coverage> {
    let mut inside: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut ratios = Vec::new();
    for ((&(low, high), time), group) in ends.iter().zip(measured).zip(groups) {
        let entry = inside.entry(*group).or_default();
        entry.0 += f64::from(u8::from(low <= *time && *time <= high));
        entry.1 += 1.0;
        ratios.push((high - low).exp2());
    }
    let (hits, count) = inside
        .values()
        .fold((0.0, 0.0), |(h, c), (hits, count)| (h + hits, c + count));
    Some(Coverage {
        nominal: 100.0 * level,
        samples: 100.0 * hits / count,
        workloads: 100.0 * inside.values().map(|(h, c)| h / c).sum::<f64>() / inside.len() as f64,
        median_ratio: median(ratios)?,
        workloads_needed: Conformal::groups_needed(level),
    })
}

/// Share of the models inside their intervals, percent. A model counts once, whatever its sizes and numbers of threads,
/// as in the calibration of the intervals.
fn models_inside(models: &[WholeModel]) -> Option<f64> {
    let mut of_models: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
    for model in models {
        if let Some(inside) = model.is_inside() {
            of_models.entry(&model.model).or_default().push(inside);
        }
    }
    let share = |inside: &Vec<bool>| {
        inside.iter().filter(|inside| **inside).count() as f64 / inside.len() as f64
    };
    let all: f64 = of_models.values().map(share).sum();
    (!of_models.is_empty()).then(|| 100.0 * all / of_models.len() as f64)
}

fn by_workload(
    dataset: &Dataset,
    groups: &[usize],
    measured: &[f64],
    predicted: &[f64],
) -> Vec<WorkloadReport> {
    let mut reports: Vec<WorkloadReport> = places_by_group(groups)
        .into_iter()
        .map(|(group, places)| {
            let pick = |values: &[f64]| places.iter().map(|&p| values[p]).collect::<Vec<_>>();
            let (measured, predicted) = (pick(measured), pick(predicted));
            let metrics = Metrics::of(&measured, &predicted);
            WorkloadReport {
                workload: dataset.workloads[group].label.clone(),
                samples: places.len(),
                mape: metrics.mape,
                bias_log2: metrics.bias_log2,
                pairwise: Pairs::of(&measured, &predicted).share(),
            }
        })
        .collect();
    reports.sort_by(|a, b| {
        b.samples
            .cmp(&a.samples)
            .then_with(|| a.workload.cmp(&b.workload))
    });
    reports
}

/// The same folds, learned from a random share of their training samples.
fn curve_point(dataset: &Dataset, options: &EvalOptions, share: f64) -> Result<CurvePoint> {
    let mut folds = options.split.folds(dataset, options.fit.seed)?;
    for (number, fold) in folds.iter_mut().enumerate() {
        let keep = ((fold.train.len() as f64 * share).round() as usize).max(2);
        let order = shuffled(fold.train.len(), options.fit.seed + number as u64);
        fold.train = order
            .into_iter()
            .take(keep)
            .map(|i| fold.train[i])
            .collect();
    }
    let out_of_fold = out_of_fold(
        dataset,
        &folds,
        options.model,
        &options.fit,
        (Members::OfFold, Ranking::Without),
        &|| (),
    )?;
    let measured = out_of_fold.measured(dataset);
    let groups: Vec<usize> = out_of_fold
        .index
        .iter()
        .map(|&i| dataset.samples[i].workload)
        .collect();
    Ok(CurvePoint {
        share,
        mape: Metrics::of(&measured, &out_of_fold.predicted).mape,
        pairwise: ordering(&groups, &measured, &out_of_fold.predicted).pairwise,
    })
}
