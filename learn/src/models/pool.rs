//! Members that a choice is made from.
//!
//! Estimates, what is seen of the features (all, no sizes, neither sizes nor totals), objectives, shallow and deep trees.

use super::member::{DEEP_TREES, MemberSpec, Objective, ROBUST, VIEWS, default_members, member};
use crate::features::base::Base;

/// Members for one kind of query: the first [`Pool::usual`] are good everywhere, the others on some machines.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// How many of them, from the first, count alike unless something else is found to be better.
    pub usual: usize,
}

/// Members that may carry over to workloads that were not seen.
pub fn unseen() -> Pool {
    let [all, no_sizes, no_totals] = VIEWS;
    let usual = default_members();
    let others = vec![
        member(Base::Serial, no_totals, ROBUST, 5),
        member(Base::Steps, no_sizes, ROBUST, 6),
        member(Base::Steps, no_totals, ROBUST, 7),
        member(Base::Work, no_sizes, ROBUST, 8),
        deep(&member(Base::Fitted, all, ROBUST, 9)),
        deep(&member(Base::Work, all, Objective::Squared, 10)),
    ];
    Pool {
        usual: usual.len(),
        members: [usual, others].concat(),
    }
}

/// Members that may know workloads of which other schedules were measured.
pub fn known() -> Pool {
    let [all, no_sizes, _] = VIEWS;
    let usual = vec![
        deep(&member(Base::Fitted, all, ROBUST, 9)),
        member(Base::Fitted, all, ROBUST, 0),
        deep(&member(Base::Fitted, no_sizes, Objective::Squared, 11)),
        member(Base::Serial, all, ROBUST, 12),
        deep(&member(Base::Steps, all, Objective::Squared, 13)),
    ];
    let others = vec![
        deep(&member(Base::Fitted, all, Objective::Squared, 14)),
        deep(&member(Base::Work, all, Objective::Squared, 10)),
    ];
    Pool {
        usual: usual.len(),
        members: [usual, others].concat(),
    }
}

/// The same member with deeper trees.
pub fn deep(spec: &MemberSpec) -> MemberSpec {
    MemberSpec {
        trees: DEEP_TREES,
        ..spec.clone()
    }
}
