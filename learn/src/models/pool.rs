//! The candidates for members of the ensemble.
//!
//! They differ in estimates, visible features (all, no sizes, neither sizes nor totals), objectives, and shallow and
//! deep trees. Members that see emitted code or counts are added where some points have them, and count for these.

use super::member::{
    DEEP_TREES, FOREIGN, MemberSpec, Objective, ROBUST, VIEWS, VIEWS_OF_CODE, VIEWS_OF_COUNTS,
    WIDE_TREES, default_members, many_trees, member, plain,
};
use crate::features::Scope;
use crate::features::base::Base;

/// Members for one kind of query: the first [`Pool::defaults`] are good everywhere, the others on some machines.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// Number of default members, which come first. They have equal weights unless another choice is better.
    pub defaults: usize,
}

/// Members that may carry over to workloads that were not seen. Those that read code or counts are in it only if these are
/// `available`.
pub fn unseen(available: &[Scope]) -> Pool {
    let [all, no_sizes, no_totals] = VIEWS;
    let defaults = default_members();
    let others = vec![
        member(Base::Steps, no_totals, ROBUST, 7),
        member(Base::Work, no_sizes, ROBUST, 8),
        deep(&member(Base::Fitted, all, ROBUST, 9)),
        member(Base::Fitted, no_sizes, ROBUST, 10),
    ];
    let [all, no_sizes, no_totals] = VIEWS_OF_COUNTS;
    let of_counts = vec![
        member(Base::Fitted, all, ROBUST, 22),
        member(Base::Work, no_sizes, ROBUST, 23),
        member(Base::Work, no_totals, ROBUST, 24),
    ];
    Pool::of(defaults, others, of_counts, available)
}

/// Members for compiled kernels of workloads that were not seen, which count alike. A schedule's speed follows from its
/// code more than from its knobs.
pub fn of_code() -> Vec<MemberSpec> {
    many_trees(VIEWS_OF_CODE, 15)
}

/// Members that may know workloads with other measured schedules; `available` as for [`unseen`].
pub fn known(available: &[Scope]) -> Pool {
    let [all, no_sizes, _] = VIEWS;
    // Chosen with the members for unseen workloads, on random samples held out of the same logs.
    let defaults = vec![
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
    let others = vec![
        member(Base::Fitted, all, ROBUST, 0),
        deep(&member(Base::Steps, all, Objective::Squared, 13)),
    ];
    let [all, no_sizes, _] = VIEWS_OF_CODE;
    let of_code = vec![
        deep(&member(Base::Fitted, all, ROBUST, 18)),
        deep(&member(Base::Work, no_sizes, Objective::Squared, 19)),
    ];
    let [all, no_sizes, _] = VIEWS_OF_COUNTS;
    let of_counts = vec![
        deep(&member(Base::Fitted, all, ROBUST, 25)),
        deep(&member(Base::Work, no_sizes, Objective::Squared, 26)),
    ];
    Pool::of(defaults, others, [of_code, of_counts].concat(), available)
}

/// Members for machines that were not seen, which count alike: their estimate knows the machine's rates.
pub fn foreign() -> Vec<MemberSpec> {
    vec![
        member(Base::Calibrated, FOREIGN, ROBUST, 20),
        member(Base::Calibrated, FOREIGN, Objective::Squared, 21),
    ]
}

impl Pool {
    fn of(
        defaults: Vec<MemberSpec>,
        others: Vec<MemberSpec>,
        mut readers: Vec<MemberSpec>,
        available: &[Scope],
    ) -> Pool {
        readers.retain(|spec| spec.reads().all(|scope| available.contains(&scope)));
        Pool {
            defaults: defaults.len(),
            members: [defaults, others, readers].concat(),
        }
    }
}

/// The same member with deeper trees.
pub fn deep(spec: &MemberSpec) -> MemberSpec {
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
        let members = unseen(&Scope::OF_BUILT).members;
        for (place, member) in members.iter().enumerate() {
            let twice = members[..place].iter().any(|other| other.is_like(member));
            assert!(!twice, "{member:?}");
        }
    }
}
