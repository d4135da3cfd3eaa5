//! The members of an ensemble for some training samples.
//!
//! A model that carries over to other workloads must not rely on the sizes of known ones; for other schedules of a
//! known workload it may. So there are members for each kind of query. Members of a kind count alike.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::member::MemberSpec;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Familiarity {
    /// No schedule of the workload was measured.
    Unseen,
    /// At least one schedule of the workload was measured.
    Known,
}

/// The members for some training samples: by what is known of these, never by their times.
pub fn members_for(dataset: &Dataset, indices: &[usize]) -> Vec<MemberSpec> {
    let samples = || indices.iter().map(|&i| &dataset.samples[i]);
    let workloads: HashSet<usize> = samples().map(|s| s.workload).collect();
    if indices.len() < LEAST_SAMPLES || workloads.len() < LEAST_WORKLOADS {
        return members_for_few();
    }
    let is_available = |scope: &Scope| {
        let having = samples().filter(|s| s.point.known.contains(scope));
        having.count() >= LEAST_SAMPLES
    };
    let available: Vec<Scope> = Scope::OF_BUILT.into_iter().filter(is_available).collect();
    let pools = [
        (Familiarity::Unseen, pool::unseen(&available)),
        (Familiarity::Known, pool::known(&available)),
    ];
    let for_kind = |(kind, members): (Familiarity, Vec<MemberSpec>)| {
        members.into_iter().map(move |member| MemberSpec {
            queries: vec![kind],
            ..member
        })
    };
    let mut found: Vec<MemberSpec> = pools.into_iter().flat_map(for_kind).collect();
    let machines: HashSet<usize> = samples().map(|s| s.machine).collect();
    let has_rates = |machine: &&usize| !dataset.machines[**machine].rates.is_empty();
    if machines.iter().filter(has_rates).count() >= LEAST_MACHINES {
        found.extend(pool::foreign());
    }
    found
}

/// The members for few samples: the same for all queries.
pub fn members_for_few() -> Vec<MemberSpec> {
    let mut members = pool::unseen(&[]);
    for member in &mut members {
        member.queries = vec![Familiarity::Unseen, Familiarity::Known];
    }
    members
}

/// The members that count for queries of these kinds, and those for machines outside the training data.
pub fn for_queries(members: &[MemberSpec], kinds: &[Familiarity]) -> Vec<MemberSpec> {
    let counts =
        |m: &&MemberSpec| m.is_foreign() || kinds.iter().any(|kind| m.queries.contains(kind));
    members.iter().filter(counts).cloned().collect()
}

#[cfg(test)]
mod tests {
    use opdata::Row;

    use super::*;
    use crate::data::{Machines, RowSet};
    use crate::testing::dense_row;

    /// Members for `count` products of different shapes; the first of them have counts.
    fn members(count: u64, counted: u64) -> Vec<MemberSpec> {
        let rows = (0..count).map(|number| Row {
            point_id: number.to_string(),
            workload_hash: Some(number.to_string()),
            time_median_ns: Some(1e6 + number as f64),
            simulated_instructions: (number < counted).then_some(1e6),
            ..dense_row(1 + number, 64, 64, "{}")
        });
        let rows: Vec<Row> = rows.collect();
        let dataset = Dataset::new(&RowSet::from(rows), &Machines::Single).unwrap();
        members_for(&dataset, &dataset.all())
    }

    #[test]
    fn each_kind_of_query_has_its_members() {
        assert_eq!(members(59, 0), members_for_few(), "too few samples");
        let found = members(60, 59);
        for (kind, count) in [(Familiarity::Unseen, 5), (Familiarity::Known, 3)] {
            assert_eq!(for_queries(&found, &[kind]).len(), count);
        }
        assert_eq!(found.len(), 8);
        assert!(found.iter().all(|m| m.reads().next().is_none()));
    }

    #[test]
    fn members_that_read_counts_are_added_where_enough_samples_have_them() {
        let found = members(60, 60);
        let reads = |m: &&MemberSpec| m.reads().eq([Scope::Counted]);
        assert_eq!(found.iter().filter(reads).count(), 3 + 2);
        assert_eq!(found.len(), 8 + 3 + 2);
    }
}
