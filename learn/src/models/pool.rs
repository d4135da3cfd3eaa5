//! The members of the ensemble, by the queries that they count for.
//!
//! They differ in estimates, visible features (all, no sizes, neither sizes nor totals), objectives, and shallow and
//! deep trees. Members that see emitted code or counts are added where some points have them, and count for these.

use super::member::{
    DEEP_TREES, FOREIGN, MANY_TREES, MemberSpec, Objective, QUICK_TREES, ROBUST, VIEWS,
    VIEWS_OF_CODE, VIEWS_OF_COUNTS, WIDE_TREES, member,
};
use crate::features::Scope;
use crate::features::base::Base;

/// Members for workloads that were not seen. Five are for every device. They differ in two ways, so that their errors
/// differ too. Each predicts the ratio of the time to one estimate ([`Base`]). Each sees all features, those without
/// sizes, or those without totals. Members that read code or counts follow if these are `available`: a schedule's speed
/// follows from them more than from its knobs.
///
/// The five were chosen among ten on 30 November and 1 December 2026: the lowest geometric mean of the errors on
/// workloads left out of `opbench-llvm`, `opbench-cuda`, `opbench-cuda-sm75`, `opbench-pynq`, the sample, and an AutoTVM
/// log of a Xeon.
pub fn unseen(available: &[Scope]) -> Vec<MemberSpec> {
    let [all, no_sizes, no_totals] = VIEWS;
    let members = vec![
        member(Base::Steps, no_sizes, ROBUST, 0).with(WIDE_TREES),
        member(Base::Fitted, all, ROBUST, 9).with(DEEP_TREES),
        member(Base::Serial, no_totals, ROBUST, 2),
        member(Base::Serial, no_sizes, ROBUST, 3),
        member(Base::Fitted, no_totals, ROBUST, 4),
    ];
    let of_code = VIEWS_OF_CODE.into_iter().zip(15..);
    let of_code = of_code.map(|(view, seed)| member(Base::Fitted, view, ROBUST, seed));
    let [all, no_sizes, no_totals] = VIEWS_OF_COUNTS;
    let of_counts = [
        member(Base::Fitted, all, ROBUST, 22),
        member(Base::Work, no_sizes, ROBUST, 23),
        member(Base::Work, no_totals, ROBUST, 24),
    ];
    let readers = of_code.map(|m| m.with(MANY_TREES)).chain(of_counts);
    with_readers(members, readers, available)
}

/// Members for workloads with other measured schedules; `available` as for [`unseen`].
pub fn known(available: &[Scope]) -> Vec<MemberSpec> {
    let [all, no_sizes, _] = VIEWS;
    // Chosen among twelve on random samples held out of the logs of `unseen` (2026-12-01).
    let members = [
        member(Base::Fitted, all, Objective::Squared, 9),
        member(Base::Serial, all, Objective::Squared, 12),
        member(Base::Fitted, no_sizes, ROBUST, 11),
    ]
    .map(|m| m.with(QUICK_TREES));
    let of_built = |[all, no_sizes, _]: [&[Scope]; 3], seed| {
        [
            member(Base::Fitted, all, ROBUST, seed).with(DEEP_TREES),
            member(Base::Work, no_sizes, Objective::Squared, seed + 1).with(DEEP_TREES),
        ]
    };
    let readers = of_built(VIEWS_OF_CODE, 18).into_iter();
    with_readers(
        members.into(),
        readers.chain(of_built(VIEWS_OF_COUNTS, 25)),
        available,
    )
}

/// Adds the members that read only what is available.
fn with_readers(
    mut members: Vec<MemberSpec>,
    readers: impl Iterator<Item = MemberSpec>,
    available: &[Scope],
) -> Vec<MemberSpec> {
    members.extend(readers.filter(|spec| spec.reads().all(|scope| available.contains(&scope))));
    members
}

/// Members for machines that were not seen, which count alike: their estimate knows the machine's rates.
pub fn foreign() -> Vec<MemberSpec> {
    vec![
        member(Base::Calibrated, FOREIGN, ROBUST, 20),
        member(Base::Calibrated, FOREIGN, Objective::Squared, 21),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_stands_in_a_pool_twice() {
        for pool in [unseen, known] {
            let mut members = pool(&Scope::OF_BUILT);
            for member in &mut members {
                member.seed = 0;
            }
            for (place, member) in members.iter().enumerate() {
                assert!(!members[..place].contains(member), "{member:?}");
            }
        }
    }
}
