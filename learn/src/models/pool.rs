//! Members that a choice is made from.
//!
//! Each estimate, seen with all features, without sizes and without sizes and totals; where a shallow member is good, the
//! same with deeper trees is worth a look.

use super::member::{DEEP_TREES, MemberSpec, Objective, ROBUST, VIEWS, member};
use crate::features::base::Base;

/// Members that may carry over to workloads that were not seen. Seeds are their numbers.
pub fn shallow() -> Vec<MemberSpec> {
    let [all, no_sizes, no_totals] = VIEWS;
    let mut members = Vec::new();
    for base in [Base::Fitted, Base::Serial, Base::Steps] {
        for view in VIEWS {
            members.push(member(base, view, ROBUST, 0));
        }
    }
    members.extend([
        member(Base::Work, all, Objective::Squared, 0),
        member(Base::Work, no_sizes, ROBUST, 0),
        member(Base::Work, no_totals, ROBUST, 0),
    ]);
    numbered(members, 0)
}

/// Members that may know workloads of which other schedules were measured.
pub fn familiar() -> Vec<MemberSpec> {
    let [all, no_sizes, _] = VIEWS;
    let members = vec![
        deep(&member(Base::Fitted, all, ROBUST, 0)),
        deep(&member(Base::Fitted, all, Objective::Squared, 0)),
        deep(&member(Base::Fitted, no_sizes, Objective::Squared, 0)),
        deep(&member(Base::Serial, all, Objective::Squared, 0)),
        deep(&member(Base::Steps, all, Objective::Squared, 0)),
        member(Base::Fitted, all, ROBUST, 0),
        member(Base::Serial, all, ROBUST, 0),
    ];
    numbered(members, 100)
}

/// The same member with deeper trees.
pub fn deep(spec: &MemberSpec) -> MemberSpec {
    MemberSpec {
        trees: DEEP_TREES,
        ..spec.clone()
    }
}

fn numbered(mut members: Vec<MemberSpec>, first: u64) -> Vec<MemberSpec> {
    for (number, member) in (first..).zip(&mut members) {
        member.seed = number;
    }
    members
}
