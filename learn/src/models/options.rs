//! Options of training a model.

use super::choice::members_for_few;
use super::member::MemberSpec;

/// Parallelism of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// The members of the ensemble.
    Members,
    /// Nothing runs in parallel, because the caller runs many fits at the same time.
    Not,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// Parallelism of a fit.
    pub parallel: Parallel,
    /// The members of the ensemble.
    pub members: Vec<MemberSpec>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            parallel: Parallel::Members,
            members: members_for_few(),
            seed: 42,
        }
    }
}
