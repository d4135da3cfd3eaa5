//! Members that a choice is made from.
//!
//! Estimates, what is seen of the features (all, no sizes, neither sizes nor totals), objectives, shallow and deep trees; and
//! members that see emitted code, where there is some, which count for points that have it.

use super::member::{
    DEEP_TREES, FOREIGN, MemberSpec, Objective, ROBUST, VIEWS, VIEWS_OF_CODE, default_members,
    member,
};
use crate::features::base::Base;

/// Members for one kind of query: the first [`Pool::usual`] are good everywhere, the others on some machines.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// How many of them, from the first, count alike unless something else is found to be better.
    pub usual: usize,
}

/// Whether there is emitted code to learn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Too few samples have any.
    Absent,
    /// There is.
    Present,
}

/// Members that may carry over to workloads that were not seen.
pub fn unseen(code: Code) -> Pool {
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
    let [all, no_sizes, no_totals] = VIEWS_OF_CODE;
    let of_code = vec![
        member(Base::Fitted, all, ROBUST, 15),
        member(Base::Work, no_sizes, ROBUST, 16),
        member(Base::Work, no_totals, ROBUST, 17),
    ];
    Pool::of(usual, others, of_code, code)
}

/// Members that may know workloads of which other schedules were measured.
pub fn known(code: Code) -> Pool {
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
    let [all, no_sizes, _] = VIEWS_OF_CODE;
    let of_code = vec![
        deep(&member(Base::Fitted, all, ROBUST, 18)),
        deep(&member(Base::Work, no_sizes, Objective::Squared, 19)),
    ];
    Pool::of(usual, others, of_code, code)
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
        usual: Vec<MemberSpec>,
        others: Vec<MemberSpec>,
        of_code: Vec<MemberSpec>,
        code: Code,
    ) -> Pool {
        let of_code = match code {
            Code::Absent => Vec::new(),
            Code::Present => of_code,
        };
        Pool {
            usual: usual.len(),
            members: [usual, others, of_code].concat(),
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
