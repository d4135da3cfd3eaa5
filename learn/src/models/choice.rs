//! The members of an ensemble and their weights: for workloads that it was not trained on, and for those that it was.
//!
//! A model that carries over to other workloads must not rely on the sizes of known ones; for other schedules of a
//! known workload it may. So there are two sets of weights over the same members, and each query uses the one that fits
//! it. Members of a set count alike. Weights are not negative and sum to 1.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::member::{MemberSpec, default_members};
use super::pool;
use crate::data::Dataset;
use crate::features::Scope;

/// With fewer samples or workloads, known workloads have no members of their own.
const LEAST_SAMPLES: usize = 60;
/// See [`LEAST_SAMPLES`].
const LEAST_WORKLOADS: usize = 6;
/// Minimum number of machines for members that predict other machines.
const LEAST_MACHINES: usize = 3;

/// Whether some schedule of a point's workload was measured on its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Familiarity {
    /// No schedule of the workload was measured.
    Unseen,
    /// At least one schedule of the workload was measured.
    Known,
}

/// Members and their weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedMembers {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// Weights for workloads outside the training data.
    pub unseen: Vec<f64>,
    /// Weights for workloads in the training data.
    pub known: Vec<f64>,
}

impl Familiarity {
    /// Both kinds of queries.
    pub const ALL: [Self; 2] = [Self::Unseen, Self::Known];
}

impl Default for WeightedMembers {
    /// A few members of equal weight, for too few samples to choose by.
    fn default() -> Self {
        let members = default_members();
        let alike = vec![1.0 / members.len() as f64; members.len()];
        Self {
            members,
            unseen: alike.clone(),
            known: alike,
        }
    }
}

impl WeightedMembers {
    /// The members for some training samples: by what is known of these, never by their times.
    pub fn of(dataset: &Dataset, indices: &[usize]) -> Self {
        let samples = || indices.iter().map(|&i| &dataset.samples[i]);
        let workloads: HashSet<usize> = samples().map(|s| s.workload).collect();
        if indices.len() < LEAST_SAMPLES || workloads.len() < LEAST_WORKLOADS {
            return Self::default();
        }
        let is_available = |scope: &Scope| {
            let having = samples().filter(|s| s.point.known.contains(scope));
            having.count() >= LEAST_SAMPLES
        };
        let available: Vec<Scope> = Scope::OF_BUILT.into_iter().filter(is_available).collect();
        let mut found = Self {
            members: Vec::new(),
            unseen: Vec::new(),
            known: Vec::new(),
        };
        found.add(pool::unseen(&available), Familiarity::Unseen);
        found.add(pool::known(&available), Familiarity::Known);
        let machines: HashSet<usize> = samples().map(|s| s.machine).collect();
        let has_rates = |machine: &&usize| !dataset.machines[**machine].rates.is_empty();
        if machines.iter().filter(has_rates).count() >= LEAST_MACHINES {
            found.members.extend(pool::foreign());
            found.unseen.resize(found.members.len(), 0.0);
            found.known.resize(found.members.len(), 0.0);
        }
        found
    }

    /// Adds members that count alike for one kind of query. A member that is there already counts for both kinds.
    fn add(&mut self, members: Vec<MemberSpec>, kind: Familiarity) {
        let weight = 1.0 / members.len() as f64;
        for member in members {
            let there = self.members.iter().position(|m| m.is_like(&member));
            let place = there.unwrap_or_else(|| {
                self.members.push(member);
                self.unseen.push(0.0);
                self.known.push(0.0);
                self.members.len() - 1
            });
            let weights = match kind {
                Familiarity::Unseen => &mut self.unseen,
                Familiarity::Known => &mut self.known,
            };
            weights[place] += weight;
        }
    }

    /// The members for machines outside the training data, with equal weights. `None` if there are no such members.
    pub fn for_foreign_machines(&self) -> Option<Self> {
        let members = self.members.iter().filter(|member| member.is_foreign());
        let members: Vec<MemberSpec> = members.cloned().collect();
        let alike = vec![1.0 / members.len() as f64; members.len()];
        (!members.is_empty()).then(|| Self {
            members,
            unseen: alike.clone(),
            known: alike,
        })
    }

    /// Removes the members that count for no query of these kinds.
    #[must_use]
    pub fn for_queries(&self, kinds: &[Familiarity]) -> Self {
        let counts = |place: usize| {
            let foreign = self.members[place].is_foreign();
            foreign
                || kinds.iter().any(|kind| match kind {
                    Familiarity::Unseen => self.unseen[place] > 0.0,
                    Familiarity::Known => self.known[place] > 0.0,
                })
        };
        let places: Vec<usize> = (0..self.members.len()).filter(|&p| counts(p)).collect();
        let pick = |values: &[f64]| places.iter().map(|&p| values[p]).collect();
        Self {
            members: places.iter().map(|&p| self.members[p].clone()).collect(),
            unseen: pick(&self.unseen),
            known: pick(&self.known),
        }
    }
}

#[cfg(test)]
mod tests {
    use opdata::Row;

    use super::*;
    use crate::data::{Machines, RowSet};
    use crate::testing::dense_row;

    /// Members for `count` products of different shapes; the first of them have counts.
    fn members(count: u64, counted: u64) -> WeightedMembers {
        let rows = (0..count).map(|number| Row {
            point_id: number.to_string(),
            workload_hash: Some(number.to_string()),
            time_median_ns: Some(1e6 + number as f64),
            simulated_instructions: (number < counted).then_some(1e6),
            ..dense_row(1 + number, 64, 64, "{}")
        });
        let rows: Vec<Row> = rows.collect();
        let dataset = Dataset::new(&RowSet::from(rows), &Machines::Single).unwrap();
        WeightedMembers::of(&dataset, &dataset.all())
    }

    #[test]
    fn members_of_a_kind_count_alike() {
        assert_eq!(
            members(59, 0),
            WeightedMembers::default(),
            "too few samples"
        );
        let found = members(60, 59);
        for (weights, count) in [(&found.unseen, 6), (&found.known, 5)] {
            let counting: Vec<f64> = weights.iter().copied().filter(|w| *w > 0.0).collect();
            assert_eq!(counting, vec![1.0 / f64::from(count); count as usize]);
        }
        assert_eq!(found.members.len(), 10, "one member is of both kinds");
        assert!(found.members.iter().all(|m| m.reads().next().is_none()));
    }

    #[test]
    fn members_that_read_counts_are_added_where_enough_samples_have_them() {
        let found = members(60, 60);
        let reads = |m: &&MemberSpec| m.reads().eq([Scope::Counted]);
        assert_eq!(found.members.iter().filter(reads).count(), 3 + 2);
        assert_eq!(found.members.len(), 10 + 3 + 2);
    }
}
