//! The members of the ensemble, by the queries that they count for.
//!
//! They differ in estimates, visible features (all, no sizes, neither sizes nor totals), objectives, and shallow and
//! deep trees. Members that see emitted code or counts are added where some points have them, and count for these.

use super::member::{
    DEEP_TREES, FOREIGN, MemberSpec, Objective, ROBUST, VIEWS, VIEWS_OF_CODE, VIEWS_OF_COUNTS,
    WIDE_TREES, default_members, many_trees, member, plain,
};
use crate::features::Scope;
use crate::features::base::Base;

/// Members for workloads that were not seen. Those that read code or counts are among them only if these are
/// `available`. A schedule's speed follows from its code and counts more than from its knobs.
pub fn unseen(available: &[Scope]) -> Vec<MemberSpec> {
    let [all, no_sizes, no_totals] = VIEWS_OF_COUNTS;
    let of_counts = [
        member(Base::Fitted, all, ROBUST, 22),
        member(Base::Work, no_sizes, ROBUST, 23),
        member(Base::Work, no_totals, ROBUST, 24),
    ];
    let readers = many_trees(VIEWS_OF_CODE, 15).into_iter().chain(of_counts);
    with_readers(default_members(), readers, available)
}

/// Members for workloads with other measured schedules; `available` as for [`unseen`].
pub fn known(available: &[Scope]) -> Vec<MemberSpec> {
    let [all, no_sizes, _] = VIEWS;
    // Chosen with the members for unseen workloads, on random samples held out of the same logs.
    let members = vec![
        MemberSpec {
            base: Base::Fitted,
            ..plain()
        },
        plain(),
        deep(&member(Base::Fitted, no_sizes, Objective::Squared, 11)),
        MemberSpec {
            trees: WIDE_TREES,
            ..member(Base::Serial, all, ROBUST, 12)
        },
        deep(&member(Base::Fitted, all, ROBUST, 9)),
    ];
    let of_built = |[all, no_sizes, _]: [&[Scope]; 3], seed| {
        [
            deep(&member(Base::Fitted, all, ROBUST, seed)),
            deep(&member(Base::Work, no_sizes, Objective::Squared, seed + 1)),
        ]
    };
    let readers = of_built(VIEWS_OF_CODE, 18).into_iter();
    with_readers(
        members,
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

/// The same member with deeper trees.
fn deep(spec: &MemberSpec) -> MemberSpec {
    MemberSpec {
        trees: DEEP_TREES,
        ..spec.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_stands_in_a_pool_twice() {
        let members = unseen(&Scope::OF_BUILT);
        for (place, member) in members.iter().enumerate() {
            let twice = members[..place].iter().any(|other| other.is_like(member));
            assert!(!twice, "{member:?}");
        }
    }
}
