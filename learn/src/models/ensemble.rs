//! The ensemble: the weighted mean of its members' logarithms.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::choice::Familiarity;
use super::member::{Member, MemberSpec};
use super::options::{FitOptions, Parallel};
use super::regressor::Regressor;
use super::similarity::{Importance, Similarity};
use super::smooth::Smoother;
use super::training_set::TrainingSet;
use crate::data::Dataset;
use crate::error::Result;
use crate::features::base::Base;
use crate::features::{Point, Scope};

/// A trained ensemble.
#[derive(Debug)]
pub struct Ensemble {
    /// Its members.
    pub members: Vec<Member>,
    /// Weights of the members.
    pub weights: Weights,
    /// The workloads that it was trained on ([`Point::workload`]), ascending.
    pub workloads: Vec<u64>,
    /// The machines that it was trained on ([`Point::machine`]), ascending.
    pub machines: Vec<u64>,
}

/// Facts about a point that decide which members predict it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    of_known_workload: bool,
    /// The machine is outside the training data, and its rates are known.
    is_foreign: bool,
    /// See [`Point::known`].
    known: Vec<Scope>,
}

/// Weights of the members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// For workloads that were not seen.
    pub unseen: Vec<f64>,
    /// For workloads in the training data.
    pub known: Vec<f64>,
}

/// With fewer samples, each member is trained twice: chance then matters more, and trees are cheap.
const FEW_SAMPLES: usize = 3000;
/// Added to the seeds of the second training.
const SECOND_SEED: u64 = 1000;
/// Number of samples whose feature contributions are computed.
const ASKED: usize = 32;

impl Ensemble {
    /// Trains all members; with few samples, twice. In the log of a tool that measures each kernel once on a CPU, a
    /// single time under interference has much weight. There the second training uses times smoothed over the features
    /// that the first found important. Graded times and those of GPUs are steady enough without. Smoothing would blur
    /// the differences between operators.
    ///
    /// # Errors
    /// Fails if there are fewer than two samples, or XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Self> {
        let choice = &options.choice;
        let set = TrainingSet::new(dataset, indices);
        let fit = |spec: &MemberSpec| Member::fit(spec, &set, options.seed);
        let mut members = each(&choice.members, options.parallel, fit)?;
        let (mut unseen, mut known) = (choice.unseen.clone(), choice.known.clone());
        if indices.len() < FEW_SAMPLES {
            let doubtful = set.samples().all(|s| s.doubtful);
            let smoothed = if doubtful {
                smoothed(&set, &members)?
            } else {
                BTreeMap::new()
            };
            let again = |spec: &MemberSpec| {
                let spec = MemberSpec {
                    seed: spec.seed + SECOND_SEED,
                    ..spec.clone()
                };
                match smoothed.get(&spec.base) {
                    Some(times) => Member::taught(&spec, &set, times, options.seed),
                    None => Member::fit(&spec, &set, options.seed),
                }
            };
            members.extend(each(&choice.members, options.parallel, again)?);
            for weights in [&mut unseen, &mut known] {
                weights.iter_mut().for_each(|weight| *weight /= 2.0);
                weights.extend_from_within(..);
            }
        }
        let all = |of: fn(&Point) -> u64| {
            let numbers: BTreeSet<u64> = set.samples().map(|s| of(&s.point)).collect();
            numbers.into_iter().collect()
        };
        Ok(Self {
            members,
            weights: Weights { unseen, known },
            workloads: all(|point| point.workload),
            machines: all(|point| point.machine),
        })
    }

    /// Whether the ensemble was trained on some schedule of the point's workload, on its machine.
    pub fn familiarity(&self, point: &Point) -> Familiarity {
        match self.workloads.binary_search(&point.workload) {
            Ok(_) => Familiarity::Known,
            Err(_) => Familiarity::Unseen,
        }
    }

    /// Weighted mean of the predictions of the members that count for each point, and their standard deviation, log2.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn spread(&self, points: &[&Point]) -> Result<Vec<(f64, f64)>> {
        let mut places: BTreeMap<Asked, Vec<usize>> = BTreeMap::new();
        for (place, point) in points.iter().enumerate() {
            places.entry(self.asked(point)).or_default().push(place);
        }
        let mut spread = vec![(0.0, 0.0); points.len()];
        for (asked, places) in places {
            let own: Vec<&Point> = places.iter().map(|&place| points[place]).collect();
            let found = self.spread_of(&own, &self.weights_for(&asked))?;
            for (place, found) in places.into_iter().zip(found) {
                spread[place] = found;
            }
        }
        Ok(spread)
    }

    /// Whether the point is on a machine outside the training data, and members for such machines predict it.
    pub fn is_foreign(&self, point: &Point) -> bool {
        point.bases.knows_rates()
            && self.machines.binary_search(&point.machine).is_err()
            && self.members.iter().any(|member| member.spec.is_foreign())
    }

    fn asked(&self, point: &Point) -> Asked {
        Asked {
            of_known_workload: self.familiarity(point) == Familiarity::Known,
            is_foreign: self.is_foreign(point),
            known: point.known.clone(),
        }
    }

    /// Weights of the members. Members for other machines count for these alone, and no other members do there. Members
    /// that use emitted code count for compiled kernels of workloads outside the training data. Members that use code
    /// or counts have no weight for points without them.
    fn weights_for(&self, asked: &Asked) -> Vec<f64> {
        let weights = match asked.of_known_workload {
            false => &self.weights.unseen,
            true => &self.weights.known,
        };
        let of = |count: &dyn Fn(&MemberSpec, f64) -> f64| -> Option<Vec<f64>> {
            let pairs = self.members.iter().zip(weights);
            let counts: Vec<f64> = pairs.map(|(m, w)| count(&m.spec, *w)).collect();
            let sum: f64 = counts.iter().sum();
            (sum > 0.0).then(|| counts.into_iter().map(|c| c / sum).collect())
        };
        let foreign = |spec: &MemberSpec, _| f64::from(u8::from(spec.is_foreign()));
        let of_use = |spec: &MemberSpec, weight: f64| {
            let has_all = spec.reads().all(|scope| asked.known.contains(&scope));
            if has_all { weight } else { 0.0 }
        };
        let of_code = |spec: &MemberSpec, weight: f64| {
            if spec.reads_code() {
                of_use(spec, weight)
            } else {
                0.0
            }
        };
        let found = asked.is_foreign.then(|| of(&foreign)).flatten();
        let found = found.or_else(|| (!asked.of_known_workload).then(|| of(&of_code)).flatten());
        let found = found.or_else(|| of(&of_use));
        found.unwrap_or_else(|| weights.clone())
    }

    /// The spread of points with common weights.
    fn spread_of(&self, points: &[&Point], weights: &[f64]) -> Result<Vec<(f64, f64)>> {
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let counting = self.members.iter().zip(weights).filter(|(_, w)| **w > 0.0);
        let all: Vec<(Vec<f64>, f64)> = counting
            .map(|(member, weight)| Ok((member.predict(points)?, *weight)))
            .collect::<Result<_>>()?;
        Ok((0..points.len())
            .map(|i| mean_and_deviation(all.iter().map(|(p, w)| (p[i], *w))))
            .collect())
    }
}

/// Weighted mean of some predictions, and their deviation from it. Every member has equal weight in the deviation,
/// because each is as good a sign of doubt.
pub fn mean_and_deviation(predictions: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let mean: f64 = predictions.clone().map(|(p, weight)| p * weight).sum();
    let count = predictions.clone().count().max(1) as f64;
    let squares: f64 = predictions.map(|(p, _)| (p - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

/// Trains a member for each specification.
fn each(
    specs: &[MemberSpec],
    parallel: Parallel,
    train: impl Fn(&MemberSpec) -> Result<Member> + Send + Sync,
) -> Result<Vec<Member>> {
    // One thread a member: OpenMP's threads wait for each other by spinning, which takes the cores from others.
    match parallel {
        Parallel::Members => specs.par_iter().map(train).collect(),
        Parallel::Not => specs.iter().map(train).collect(),
    }
}

/// The samples' times without their noise (log2 ns), for each estimate that a member corrects.
fn smoothed(set: &TrainingSet<'_>, members: &[Member]) -> Result<BTreeMap<Base, Vec<f64>>> {
    let points: Vec<&Point> = set.samples().map(|s| &s.point).collect();
    let importance = Importance::new(members, &points, ASKED)?;
    let smoother = Smoother::new(&Similarity::new(&importance, &points), points.len());
    let weights: Vec<f64> = set.samples().map(|s| f64::from(s.weight)).collect();
    let bases: BTreeSet<Base> = members.iter().map(|member| member.spec.base).collect();
    let estimate = |base: Base, point: &Point| {
        let own = members.iter().find(|member| member.spec.base == base);
        own.map_or(0.0, |member| member.estimate(point))
    };
    let smooth = |base: Base| {
        let ratios: Vec<f64> = set
            .samples()
            .map(|s| s.log2_time - estimate(base, &s.point))
            .collect();
        smoother
            .smooth(&ratios, &weights)
            .into_iter()
            .zip(&points)
            .map(|(ratio, point)| ratio + estimate(base, point))
            .collect()
    };
    Ok(bases.into_iter().map(|base| (base, smooth(base))).collect())
}

impl Regressor for Ensemble {
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>> {
        let spread = self.spread(points)?;
        Ok(spread.into_iter().map(|(mean, _)| mean).collect())
    }

    fn disagreement(&self, points: &[&Point]) -> Result<Option<Vec<f64>>> {
        let spread = self.spread(points)?;
        Ok(Some(
            spread.into_iter().map(|(_, deviation)| deviation).collect(),
        ))
    }
}
