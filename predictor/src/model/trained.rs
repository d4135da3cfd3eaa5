//! A trained model: the ensemble, its calibration, and facts about the training data.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use opdata::DeviceKind;
use opdata::stats::median;
use oplearn::crossval::calibration::Calibration;
use oplearn::crossval::folds::{Members, OutOfFold, Ranking};
use oplearn::crossval::metrics::Metrics;
use oplearn::crossval::out_of_fold;
use oplearn::data::split::{Split, shuffled};
use oplearn::data::{Dataset, Sample};
use oplearn::features::machine::MachineFacts;
use oplearn::features::{FEATURES, Point};
use oplearn::interference::Kept;
use oplearn::models::context::Context;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::member::{Member, surrogate};
use oplearn::models::rates::Rates;
use oplearn::models::{
    FitOptions, ModelKind, Regressor, TrainingSet, for_queries, members_for, members_for_few,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::eval::whole::{OWN_LEVEL, WholeFactor, in_model};
use crate::model::Adaptation;
use crate::model::known::Known;
use crate::model::neighbours::Neighbours;
use crate::model::watch::Watch;

/// Number of folds over workloads for calibration.
const CALIBRATION_FOLDS: usize = 10;
/// The same for many samples. Learning from a tenth more of them would gain little and take half of the training.
const FEWER_FOLDS: usize = 5;
/// Number of samples from which on [`FEWER_FOLDS`] is used.
const MANY_SAMPLES: usize = 3000;
/// Folds of samples for the calibration of known workloads.
const SAMPLE_PARTS: usize = 4;
/// Maximum number of samples for that: it costs as much as training otherwise.
const JUDGED: usize = 3000;
/// Minimum number of kinds of operators to estimate how far a kind may lie from the others.
const KINDS_TO_COMPARE: usize = 3;
/// Minimum number of samples to train on.
const LEAST_SAMPLES: usize = 20;

/// How to train.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainOptions {
    /// The ensemble.
    pub fit: FitOptions,
}

/// The range of a feature among the training samples of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Position of the feature.
    pub column: usize,
    /// Smallest value.
    pub low: f32,
    /// Largest value.
    pub high: f32,
}

/// A model's facts about one kind of operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindFacts {
    /// Training samples.
    pub samples: usize,
    /// Their workloads.
    pub workloads: usize,
    /// Median absolute percentage error on workloads that were held out.
    pub median_ape: f64,
    /// Ranges of the features that vary.
    pub ranges: Vec<Range>,
}

/// In which way a point is new to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum New {
    /// At most the schedule is new.
    Schedule,
    /// Its workload.
    Workload,
    /// Its machine is new, with known rates.
    Machine,
}

/// Everything about a model but its trees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Kind of device that it predicts for.
    pub device_kind: DeviceKind,
    /// Machines of the training data.
    pub machines: Vec<MachineFacts>,
    /// Rows that were read.
    pub rows: usize,
    /// Number of samples that it was trained on.
    pub samples: usize,
    /// Their workloads.
    pub workloads: usize,
    /// Numbers of threads of these samples; empty if the device has none or the rows do not name them.
    #[serde(default)]
    pub threads: BTreeSet<u64>,
    /// Share of the rows that were measured while something else ran; missing where no row was graded.
    #[serde(default)]
    pub disturbed: Option<f64>,
    /// Errors on workloads that were held out.
    pub mape: f64,
    /// Median of these errors, percent.
    pub median_ape: f64,
    /// Facts about each kind.
    pub kinds: BTreeMap<String, KindFacts>,
    /// Calibration for other workloads, from errors on held-out workloads.
    pub unseen: Calibration,
    /// Calibration for other schedules of workloads trained on, from errors on held-out samples.
    pub known: Calibration,
    /// Calibration for machines known by their rates alone, from errors on held-out machines. Missing if too few machines
    /// were trained on.
    #[serde(default)]
    pub foreign: Option<Calibration>,
    /// Error of predictions for a kind from the data of all other kinds, log2: the root mean square over kinds. Missing
    /// with fewer than [`KINDS_TO_COMPARE`] kinds.
    #[serde(default)]
    pub unknown_kind: Option<f64>,
    /// Whole models over the sum of their operators.
    pub whole: WholeFactor,
    /// Cache state of most training rows, for queries that do not say.
    pub usual_cache: Option<opdata::CacheState>,
}

impl Facts {
    /// The calibration for points that are new in this way.
    pub fn calibration(&self, new: New) -> &Calibration {
        match new {
            New::Schedule => &self.known,
            New::Workload => &self.unseen,
            New::Machine => self.foreign.as_ref().unwrap_or(&self.unseen),
        }
    }

    /// The facts as JSON, without what only predictions need.
    pub fn summary(&self) -> serde_json::Value {
        let kinds: serde_json::Map<String, serde_json::Value> = self
            .kinds
            .iter()
            .map(|(kind, known)| {
                let entry = serde_json::json!({
                    "samples": known.samples,
                    "workloads": known.workloads,
                    "median_ape": known.median_ape,
                });
                (kind.clone(), entry)
            })
            .collect();
        serde_json::json!({
            "device_kind": self.device_kind,
            "rows": self.rows,
            "samples": self.samples,
            "workloads": self.workloads,
            "machines": self.machines.iter().map(|m| &m.id).collect::<Vec<_>>(),
            "threads": self.threads,
            "disturbed": self.disturbed,
            "mape": self.mape,
            "median_ape": self.median_ape,
            "kinds": kinds,
            "calibrated": self.unseen.conformal.is_some(),
            "whole_models": self.whole.models,
        })
    }
}

/// A trained model.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trained {
    /// The trees.
    pub ensemble: Ensemble,
    /// A surrogate: a few trees trained on the ensemble's predictions, which give the reasons of answers.
    pub surrogate: Member,
    /// The effect of running inside a model on an operator's time.
    pub context: Context,
    /// The adaptation to another machine, if there is one.
    pub adaptation: Option<Adaptation>,
    /// The nearest measured rows.
    pub neighbours: Neighbours,
    /// Operators that were measured as queries ask for them.
    pub known: Known,
    /// Slowdowns of operators that run at the same time, if some were given.
    pub interference: Kept,
    /// Everything else.
    pub facts: Facts,
}

/// Prediction of a point, base-2 logarithms of ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The centre of its distribution. Sums of operators add these.
    pub centre: f64,
    /// Added to the centre, minimises the relative errors of single points.
    pub bias: f64,
    /// Disagreement of the members.
    pub doubt: f64,
    /// In which way the point is new.
    pub new: New,
}

/// Trains a model; `watch` hears how far it has come.
///
/// # Errors
/// Fails if there are too few samples or workloads, the samples are of several kinds of device, or XGBoost's library is
/// missing or fails.
pub fn train(
    dataset: &Dataset,
    device_kind: DeviceKind,
    options: &TrainOptions,
    watch: &dyn Watch,
) -> Result<Trained> {
    dataset.require(LEAST_SAMPLES, "training")?;
    let folds = if dataset.samples.len() < MANY_SAMPLES {
        CALIBRATION_FOLDS
    } else {
        FEWER_FOLDS
    };
    let parts = folds.min(dataset.workloads.len());
    if parts < 2 {
        return Err(oplearn::Error::TooFew {
            what: "training".to_owned(),
            needed: 2,
            unit: "different workloads",
            found: dataset.workloads.len(),
            next: "measure other operators or shapes, too",
        }
        .into());
    }
    let split = Split::Workloads(parts);
    let folds = split.folds(dataset, options.fit.seed)?;
    let fit = FitOptions {
        members: members_for(dataset, &dataset.all()),
        ..options.fit.clone()
    };
    watch.begin("check on held-out workloads", folds.len());
    let out_of_fold = out_of_fold(
        dataset,
        &folds,
        ModelKind::Ensemble,
        &fit,
        (Members::Given, Ranking::Without),
        &|| watch.step(),
    )?;
    watch.begin("fit", 2);
    let ensemble = Ensemble::fit(dataset, &dataset.all(), &fit)?;
    // Each sample is in one fold.
    let predicted: HashMap<(usize, usize), f64> = in_model(dataset, &folds, &out_of_fold)
        .into_iter()
        .map(|(place, time)| ((place.run, place.sample), time))
        .collect();
    watch.step();
    let unseen = Calibration::fit(dataset, &out_of_fold);
    let spread: HashMap<usize, [f64; 2]> = match &unseen.conformal {
        None => HashMap::new(),
        Some(conformal) => {
            let intervals = conformal.at(OWN_LEVEL);
            let ends = out_of_fold.disagreement.iter().map(|doubt| {
                let (low, high) = intervals.around(*doubt);
                [-low.min(0.0), high.max(0.0)]
            });
            out_of_fold.index.iter().copied().zip(ends).collect()
        }
    };
    let whole = WholeFactor::fit(
        dataset,
        None,
        |run, sample| predicted.get(&(run, sample)).copied(),
        |_, sample| spread.get(&sample).copied(),
    );
    let known = known(dataset, &fit, watch)?;
    let facts = Facts {
        foreign: foreign(dataset, &fit)?,
        ..facts(dataset, device_kind, &out_of_fold, (unseen, known), whole)
    };
    let points: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
    let taught = ensemble.predict(&points)?;
    let seed = options.fit.seed;
    let all = dataset.all();
    let set = TrainingSet::new(dataset, &all);
    let surrogate = Member::taught(&surrogate(), &set, &taught, seed)?;
    watch.step();
    Ok(Trained {
        surrogate,
        context: Context::fit(dataset, &dataset.all()),
        interference: Kept::default(),
        known: Known::new(dataset),
        adaptation: None,
        neighbours: Neighbours::new(dataset),
        ensemble,
        facts,
    })
}

/// Calibration for workloads with other measured schedules, from errors on held-out samples. `None` if there are too few
/// samples for members of their own.
fn known(dataset: &Dataset, fit: &FitOptions, watch: &dyn Watch) -> Result<Option<Calibration>> {
    if fit.members == members_for_few() {
        return Ok(None);
    }
    let mut folds = Split::KFold(SAMPLE_PARTS).folds(dataset, fit.seed)?;
    let order = shuffled(dataset.samples.len(), fit.seed).into_iter();
    let judged: HashSet<usize> = order.take(JUDGED).collect();
    for fold in &mut folds {
        fold.train.retain(|i| judged.contains(i));
        fold.test.retain(|i| judged.contains(i));
    }
    watch.begin("check on other schedules", folds.len());
    let members = (Members::Given, Ranking::Without);
    let ensemble = ModelKind::Ensemble;
    let held_out = out_of_fold(dataset, &folds, ensemble, fit, members, &|| watch.step())?;
    Ok(Some(Calibration::fit(dataset, &held_out)))
}

/// Calibration for other machines, from errors on held-out machines, if there are members for such.
fn foreign(dataset: &Dataset, fit: &FitOptions) -> Result<Option<Calibration>> {
    let fit = FitOptions {
        // Those for other machines alone.
        members: for_queries(&fit.members, &[]),
        ..fit.clone()
    };
    if fit.members.is_empty() {
        return Ok(None);
    }
    let folds = Split::LeaveOneMachineOut.folds(dataset, fit.seed)?;
    let members = (Members::Given, Ranking::Without);
    let ensemble = ModelKind::Ensemble;
    let held_out = out_of_fold(dataset, &folds, ensemble, &fit, members, &|| ())?;
    Ok(Some(Calibration::fit_machines(dataset, &held_out)))
}

fn facts(
    dataset: &Dataset,
    device_kind: DeviceKind,
    out_of_fold: &OutOfFold,
    (unseen, known): (Calibration, Option<Calibration>),
    whole: WholeFactor,
) -> Facts {
    let measured = out_of_fold.measured(dataset);
    let predicted = out_of_fold.predicted.iter();
    let predicted: Vec<f64> = predicted.map(|time| time + unseen.bias).collect();
    let overall = Metrics::of(&measured, &predicted);
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, &index) in out_of_fold.index.iter().enumerate() {
        places
            .entry(&dataset.samples[index].kind)
            .or_default()
            .push(place);
    }
    let kinds = places
        .into_iter()
        .map(|(kind, places)| {
            let pick = |values: &[f64]| places.iter().map(|&p| values[p]).collect::<Vec<_>>();
            let samples: Vec<&Sample> = places
                .iter()
                .map(|&p| &dataset.samples[out_of_fold.index[p]])
                .collect();
            let mut workloads: Vec<usize> = samples.iter().map(|s| s.workload).collect();
            workloads.sort_unstable();
            workloads.dedup();
            let facts = KindFacts {
                samples: samples.len(),
                workloads: workloads.len(),
                median_ape: Metrics::of(&pick(&measured), &pick(&predicted)).median_ape,
                ranges: ranges(&samples),
            };
            (kind.to_owned(), facts)
        })
        .collect();
    Facts {
        device_kind,
        machines: dataset.machines.clone(),
        rows: dataset.intake.rows,
        samples: dataset.samples.len(),
        workloads: dataset.workloads.len(),
        threads: dataset.samples.iter().filter_map(|s| s.threads).collect(),
        disturbed: dataset.intake.disturbed,
        mape: overall.mape,
        median_ape: overall.median_ape,
        kinds,
        known: known.unwrap_or_else(|| unseen.clone()),
        unseen,
        foreign: None,
        unknown_kind: unknown_kind(dataset),
        whole,
        usual_cache: dataset.usual_cache,
    }
}

/// Error of the rates of all other kinds for the operators of a kind, log2: the root mean square over kinds of their
/// median errors.
fn unknown_kind(dataset: &Dataset) -> Option<f64> {
    let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, sample) in dataset.samples.iter().enumerate() {
        kinds.entry(&sample.kind).or_default().push(index);
    }
    if kinds.len() < KINDS_TO_COMPARE {
        return None;
    }
    let errors: Vec<f64> = kinds
        .into_par_iter()
        .filter_map(|(kind, own)| {
            let others: Vec<usize> = (0..dataset.samples.len())
                .filter(|&index| dataset.samples[index].kind != kind)
                .collect();
            let rates = Rates::fit(dataset, &others);
            median(own.iter().map(|&index| {
                let sample = &dataset.samples[index];
                sample.log2_time - rates.estimate(&sample.point)
            }))
        })
        .collect();
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    Some((squares / errors.len() as f64).sqrt())
}

fn ranges(samples: &[&Sample]) -> Vec<Range> {
    (0..FEATURES.len())
        .filter_map(|column| {
            let values = || {
                samples
                    .iter()
                    .map(|s| s.point.features[column])
                    .filter(|v| v.is_finite())
            };
            let low = values().fold(f32::INFINITY, f32::min);
            let high = values().fold(f32::NEG_INFINITY, f32::max);
            (low <= high).then_some(Range { column, low, high })
        })
        .collect()
}

impl Trained {
    /// Refuses a number of threads that exceeds the machine's cores and is missing from the training data. No
    /// prediction can be based on it.
    ///
    /// # Errors
    /// Fails if there are more threads than both.
    pub fn check_threads(&self, threads: u64, machine: &MachineFacts) -> Result<()> {
        let trained = &self.facts.threads;
        let cores = machine.cores.map(u64::from);
        let most = cores.max(trained.last().copied());
        if most.is_none_or(|most| threads <= most) {
            return Ok(());
        }
        let list: Vec<String> = trained.iter().map(u64::to_string).collect();
        let known = match (cores, list.is_empty()) {
            (Some(cores), true) => format!("the machine has {cores} cores"),
            (Some(cores), false) => format!(
                "the machine has {cores} cores, and the model was trained on {} threads",
                list.join(", ")
            ),
            (None, _) => format!("the model was trained on {} threads", list.join(", ")),
        };
        Err(Error::Query(format!(
            "--threads {threads}: {known}; ask for fewer, or train on measurements with as many"
        )))
    }

    /// The machine that a query is about: the only one, or the one of that name.
    ///
    /// # Errors
    /// Fails if the model knows several and none was named, or none of that name.
    pub fn machine(&self, name: Option<&str>) -> Result<&MachineFacts> {
        let names =
            || -> Vec<String> { self.facts.machines.iter().map(|m| m.id.clone()).collect() };
        match (name, self.facts.machines.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(Error::Query(format!(
                "the model knows several machines; choose one with --machine: {}",
                <[String]>::join(&names(), ", ")
            ))),
            (Some(name), machines) => machines.iter().find(|m| m.id == name).ok_or_else(|| {
                Error::from(oplearn::Error::UnknownMachine {
                    name: name.to_owned(),
                    machines: names(),
                })
            }),
        }
    }
}
