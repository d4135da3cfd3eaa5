//! Which members an ensemble has, and how much each counts: for workloads that it has not seen, and for those that it has.
//!
//! What carries over to other workloads does not see too much of this one's sizes; what knows other schedules of the same
//! workload may. So there are two sets of weights over the same members, and every query takes the one that fits it.
//! Weights are not negative and sum to 1. `crossval::select` finds them.

use serde::{Deserialize, Serialize};

use super::member::{MemberSpec, default_members};

/// Whether some schedule of a point's workload was measured on its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Familiarity {
    /// None was.
    Unseen,
    /// Some was.
    Known,
}

/// Members and their weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedMembers {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// How much each counts for workloads that were not seen.
    pub unseen: Vec<f64>,
    /// How much each counts for workloads that were seen.
    pub known: Vec<f64>,
}

impl Familiarity {
    /// Both kinds of queries.
    pub const ALL: [Self; 2] = [Self::Unseen, Self::Known];
}

impl Default for WeightedMembers {
    /// A few members that count alike, where there is not enough to choose by.
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
    /// The members for machines that were not trained on, counting alike; none if there are none.
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

    /// Without the members that count for no query of these kinds.
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
