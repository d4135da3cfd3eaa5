//! The ensemble: the weighted mean of its members' logarithms.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::choice::Familiarity;
use super::member::{Member, MemberSpec};
use super::options::{FitOptions, Parallel};
use super::regressor::Regressor;
use super::training_set::TrainingSet;
use crate::data::Dataset;
use crate::error::Result;
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
    /// Weights for workloads that were not seen.
    pub unseen: Vec<f64>,
    /// Weights for workloads in the training data.
    pub known: Vec<f64>,
}

impl Ensemble {
    /// Trains all members.
    ///
    /// # Errors
    /// Fails if there are fewer than two samples, or XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Self> {
        let choice = &options.choice;
        let set = TrainingSet::new(dataset, indices);
        let fit = |spec: &MemberSpec| Member::fit(spec, &set, options.seed);
        let members = each(&choice.members, options.parallel, fit)?;
        let all = |of: fn(&Point) -> u64| {
            let numbers: BTreeSet<u64> = set.samples().map(|s| of(&s.point)).collect();
            numbers.into_iter().collect()
        };
        Ok(Self {
            members,
            weights: Weights {
                unseen: choice.unseen.clone(),
                known: choice.known.clone(),
            },
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
    /// that use code or counts have no weight for points without them. For other points of workloads outside the
    /// training data they count alone.
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
        let readers = |spec: &MemberSpec, weight: f64| match spec.reads().next() {
            Some(_) => of_use(spec, weight),
            None => 0.0,
        };
        let found = asked.is_foreign.then(|| of(&foreign)).flatten();
        let found = found.or_else(|| (!asked.of_known_workload).then(|| of(&readers)).flatten());
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

#[cfg(test)]
mod tests {
    use opdata::Row;

    use super::*;
    use crate::data::{Machines, RowSet};
    use crate::models::WeightedMembers;
    use crate::testing::dense_row;

    #[test]
    fn members_that_read_counts_predict_counted_kernels_of_new_workloads_alone() {
        let rows = (0..120u64).map(|number| Row {
            point_id: number.to_string(),
            workload_hash: Some(number.to_string()),
            time_median_ns: Some(1e6 + number as f64),
            simulated_instructions: (number % 2 == 0).then_some(1e6),
            ..dense_row(1 + number, 64, 64, "{}")
        });
        let rows: Vec<Row> = rows.collect();
        let dataset = Dataset::new(&RowSet::from(rows), &Machines::Single).unwrap();
        let options = FitOptions {
            choice: WeightedMembers::of(&dataset, &dataset.all()),
            ..FitOptions::default()
        };
        let ensemble = Ensemble::fit(&dataset, &dataset.all(), &options).unwrap();
        let counting = |known: &[Scope], of_known_workload| -> Vec<bool> {
            let weights = ensemble.weights_for(&Asked {
                of_known_workload,
                is_foreign: false,
                known: known.to_vec(),
            });
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let pairs = ensemble.members.iter().zip(weights);
            let counting = pairs.filter(|(_, weight)| *weight > 0.0);
            counting
                .map(|(m, _)| m.spec.reads().next().is_some())
                .collect()
        };
        assert_eq!(counting(&[Scope::Counted], false), [true; 3]);
        assert_eq!(counting(&[], false), [false; 6]);
        assert_eq!(counting(&[], true), [false; 5]);
        let known = counting(&[Scope::Counted], true);
        assert_eq!(known.iter().filter(|reads| **reads).count(), 2);
        assert_eq!(known.len(), 7);
    }
}
