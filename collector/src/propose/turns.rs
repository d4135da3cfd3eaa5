//! The order in which candidates that were decided beforehand are measured.
//!
//! Operators take turns, a few schedules at a time, so that a run that is stopped early has measured all of them about
//! equally far. Each begins with its default schedule, the base of comparison. The order depends on the plan alone: a
//! candidate's place is the same in every run, resumed run and shard.

use opdata::Shard;
use opengine::device::Conditions;
use opengine::schedule::ScheduleSpec;

use super::{Candidate, Drawing, Listed};
use crate::sweep::Drawn;

/// Schedules of one operator that are measured one after the other.
const TURN: usize = 16;

/// The candidates in the order of measurement; `conditions` gives the conditions for an operator's schedule.
pub(super) fn in_turns(
    drawn: Vec<(usize, Drawn)>,
    shard: Option<Shard>,
    conditions: impl Fn(usize, &ScheduleSpec) -> Vec<Conditions>,
) -> Drawing {
    let longest = drawn
        .iter()
        .map(|(_, d)| d.schedule_specs.len())
        .max()
        .unwrap_or(0);
    let mut place = 0;
    let mut candidates = Vec::new();
    for turn in 0..longest.div_ceil(TURN) {
        for (operator, drawn) in &drawn {
            for schedule_spec in drawn.schedule_specs.iter().skip(turn * TURN).take(TURN) {
                if shard.is_none_or(|s| s.holds(place)) {
                    candidates.push(Candidate {
                        place,
                        operator: *operator,
                        schedule_spec: schedule_spec.clone(),
                        conditions: conditions(*operator, schedule_spec),
                    });
                }
                place += 1;
            }
        }
    }
    Drawing {
        proposer: Box::new(Listed::new(candidates)),
        operators: drawn,
        all_shards: place,
    }
}

#[cfg(test)]
mod tests {
    use opdata::CacheState;

    use super::*;
    use proptest::prelude::*;

    fn drawn(schedules: usize) -> Drawn {
        let sample = |seed| ScheduleSpec::Metaschedule { seed };
        Drawn {
            schedule_specs: std::iter::once(ScheduleSpec::Default)
                .chain((0..schedules as u64).map(sample))
                .collect(),
            combinations: None,
            unoffered: Vec::new(),
            dimensions: 0,
        }
    }

    fn at_one(_: usize, _: &ScheduleSpec) -> Vec<Conditions> {
        vec![Conditions::new(1, CacheState::Hot)]
    }

    proptest! {
        #[test]
        fn shards_part_the_candidates(sizes in proptest::collection::vec(0usize..40, 1..6), count in 1u32..5) {
            let all = || sizes.iter().enumerate().map(|(o, &n)| (o, drawn(n))).collect::<Vec<_>>();
            let whole = in_turns(all(), None, at_one).proposer.fixed_candidates().to_vec();
            let places: Vec<u64> = whole.iter().map(|c| c.place).collect();
            prop_assert_eq!(places, (0..whole.len() as u64).collect::<Vec<_>>());
            let mut parts: Vec<Candidate> = (1..=count)
                .flat_map(|index| in_turns(all(), Some(Shard { index, count }), at_one).proposer.fixed_candidates().to_vec())
                .collect();
            parts.sort_by_key(|c| c.place);
            prop_assert_eq!(parts, whole);
        }
    }

    #[test]
    fn operators_take_turns_and_begin_with_their_default() {
        let work = in_turns(vec![(3, drawn(40)), (5, drawn(1))], None, at_one);
        let operators: Vec<usize> = work
            .proposer
            .fixed_candidates()
            .iter()
            .map(|c| c.operator)
            .collect();
        assert_eq!(operators[..16], [3; 16]);
        assert_eq!(operators[16..18], [5; 2]);
        assert_eq!(operators[18..], [3; 25]);
        assert_eq!(
            work.proposer.fixed_candidates()[16].schedule_spec,
            ScheduleSpec::Default
        );
    }
}
