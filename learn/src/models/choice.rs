//! The members of an ensemble and their weights: for workloads that it was not trained on, and for those that it was.
//!
//! A model that carries over to other workloads must not rely on the sizes of known ones; for other schedules of a
//! known workload it may. So there are two sets of weights over the same members, and each query uses the one that fits
//! it. Weights are not negative and sum to 1. `crossval::select` finds them.

use serde::{Deserialize, Serialize};

use super::member::{MemberSpec, default_members};

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
