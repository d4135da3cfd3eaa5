//! The ensemble: the mean of its members' logarithms.

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
#[derive(Debug, Serialize, Deserialize)]
pub struct Ensemble {
    /// Its members.
    #[serde(deserialize_with = "super::member::all")]
    pub members: Vec<Member>,
    /// The workloads that it was trained on ([`Point::workload`]), ascending.
    pub workloads: Vec<u64>,
    /// The machines that it was trained on ([`Point::machine`]), ascending.
    pub machines: Vec<u64>,
}

/// Whether a member counts.
type Rule<'a> = &'a dyn Fn(&MemberSpec) -> bool;

/// Facts about a point that decide which members predict it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    familiarity: Familiarity,
    /// The machine is outside the training data, and its rates are known.
    is_foreign: bool,
    /// See [`Point::known`].
    known: Vec<Scope>,
}

impl Ensemble {
    /// Trains all members.
    ///
    /// # Errors
    /// Fails if there are fewer than two samples, or XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Self> {
        let set = TrainingSet::new(dataset, indices);
        let fit = |spec: &MemberSpec| Member::fit(spec, &set, options.seed);
        let members = each(&options.members, options.parallel, fit)?;
        let all = |of: fn(&Point) -> u64| {
            let numbers: BTreeSet<u64> = set.samples().map(|s| of(&s.point)).collect();
            numbers.into_iter().collect()
        };
        Ok(Self {
            members,
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

    /// Mean of the predictions of the members that count for each point, and their standard deviation, log2.
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
            let found = self.spread_of(&own, &self.counting(&asked))?;
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
            familiarity: self.familiarity(point),
            is_foreign: self.is_foreign(point),
            known: point.known.clone(),
        }
    }

    /// The members that count, all alike. Members for other machines count for these alone, and no other members do
    /// there. Members that use code or counts do not count for points without them. For other points of workloads
    /// outside the training data they count alone.
    fn counting(&self, asked: &Asked) -> Vec<&Member> {
        let of_use = |spec: &MemberSpec| {
            spec.queries.contains(&asked.familiarity)
                && spec.reads().all(|scope| asked.known.contains(&scope))
        };
        let readers = |spec: &MemberSpec| of_use(spec) && spec.reads().next().is_some();
        // The first of these rules that applies and that some member meets.
        let rules: [(bool, Rule<'_>); 4] = [
            (asked.is_foreign, &MemberSpec::is_foreign),
            (asked.familiarity == Familiarity::Unseen, &readers),
            (true, &of_use),
            (true, &|_| true),
        ];
        let applying = rules.into_iter().filter(|(applies, _)| *applies);
        let mut found = applying.map(|(_, rule)| {
            let members = self.members.iter().filter(|m| rule(&m.spec));
            members.collect::<Vec<_>>()
        });
        found
            .find(|members| !members.is_empty())
            .unwrap_or_default()
    }

    /// The mean and the deviation of some members' predictions.
    fn spread_of(&self, points: &[&Point], members: &[&Member]) -> Result<Vec<(f64, f64)>> {
        let all: Vec<Vec<f64>> = members
            .iter()
            .map(|member| member.predict(points))
            .collect::<Result<_>>()?;
        let count = members.len().max(1) as f64;
        let spread = |i: usize| {
            let mean = all.iter().map(|own| own[i]).sum::<f64>() / count;
            let squares: f64 = all.iter().map(|own| (own[i] - mean).powi(2)).sum();
            (mean, (squares / count).sqrt())
        };
        Ok((0..points.len()).map(spread).collect())
    }
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
    use crate::models::members_for;
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
            members: members_for(&dataset, &dataset.all()),
            ..FitOptions::default()
        };
        let ensemble = Ensemble::fit(&dataset, &dataset.all(), &options).unwrap();
        let counting = |known: &[Scope], familiarity| -> Vec<bool> {
            let asked = Asked {
                familiarity,
                is_foreign: false,
                known: known.to_vec(),
            };
            let counting = ensemble.counting(&asked).into_iter();
            counting.map(|m| m.spec.reads().next().is_some()).collect()
        };
        assert_eq!(counting(&[Scope::Counted], Familiarity::Unseen), [true; 3]);
        assert_eq!(counting(&[], Familiarity::Unseen), [false; 5]);
        assert_eq!(counting(&[], Familiarity::Known), [false; 3]);
        let known = counting(&[Scope::Counted], Familiarity::Known);
        assert_eq!(known.iter().filter(|reads| **reads).count(), 2);
        assert_eq!(known.len(), 5);
    }
}
