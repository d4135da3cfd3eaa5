//! A framework with the model loaded, and the result of a round.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kinds::Kind;

/// A framework with the model loaded and its outputs compared.
pub(super) trait Contender {
    /// Facts about it, before it runs.
    fn facts(&self) -> Facts;

    /// Times runs that nobody watches for about `budget`, then some that are watched.
    ///
    /// # Errors
    /// Fails if the framework is lost.
    fn round(&mut self, budget: Duration) -> anyhow::Result<Round>;
}

/// Facts about a framework with a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// Its version.
    pub version: String,
    /// Samples at once.
    pub batch: u64,
    /// The reference of its outputs.
    pub checked_against: String,
    /// Largest difference from the reference, over the largest expected value.
    pub error: Option<f64>,
}

/// The result of a round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Round {
    /// Time of each run that nobody watched, nanoseconds.
    pub runs_ns: Vec<f64>,
    /// The operators, of runs that were watched.
    pub operators: Vec<OperatorTime>,
}

/// An operator by its framework's name for it: all its calls in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorTime {
    /// The framework's name for it.
    pub name: String,
    /// The operator's kind.
    pub kind: Kind,
    /// Calls in a run.
    pub calls: f64,
    /// Their time in a run, nanoseconds.
    pub ns: f64,
}

/// Means over rounds, the slowest first.
pub(super) fn mean(rounds: &[Round]) -> Vec<OperatorTime> {
    let operators = rounds.iter().flat_map(|round| round.operators.iter());
    per_run(operators.cloned(), rounds.len())
}

/// Adds up the times of each operator by name and divides them by the number of runs. The slowest operator comes first.
pub(super) fn per_run(
    operators: impl Iterator<Item = OperatorTime>,
    runs: usize,
) -> Vec<OperatorTime> {
    let mut all: BTreeMap<String, OperatorTime> = BTreeMap::new();
    for operator in operators {
        match all.get_mut(&operator.name) {
            Some(known) => {
                known.calls += operator.calls;
                known.ns += operator.ns;
            }
            None => {
                all.insert(operator.name.clone(), operator);
            }
        }
    }
    let runs = runs.max(1) as f64;
    let mut all: Vec<OperatorTime> = all
        .into_values()
        .map(|sum| OperatorTime {
            calls: sum.calls / runs,
            ns: sum.ns / runs,
            ..sum
        })
        .collect();
    all.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    all
}
