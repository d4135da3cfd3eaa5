//! Candidates that were decided beforehand.

use super::{Candidate, Outcome, Proposer};

/// Proposes a list in its order and never looks back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listed {
    candidates: Vec<Candidate>,
    proposed: usize,
}

impl Listed {
    /// A proposer of these candidates.
    pub fn new(candidates: Vec<Candidate>) -> Listed {
        Listed {
            candidates,
            proposed: 0,
        }
    }
}

impl Proposer for Listed {
    fn propose(&mut self, n: usize) -> Vec<Candidate> {
        let left = &self.candidates[self.proposed..];
        let next = left[..n.min(left.len())].to_vec();
        self.proposed += next.len();
        next
    }

    fn observe(&mut self, _outcomes: &[Outcome]) {}

    fn fixed_candidates(&self) -> &[Candidate] {
        &self.candidates
    }
}
