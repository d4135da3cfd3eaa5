//! Chooses which calls of models run at the same time, on how many threads each, and predicts the gain.
//!
//! | module | owns |
//! | --- | --- |
//! | [`problem`] | the calls with their times by number of threads, and the time of a stage |
//! | [`build`] | the problem from datasets, predictions and pairs |
//! | [`blocks`] | where the graph can be cut |
//! | [`dynamic`] | the fastest stages between two cuts, by dynamic programming |
//! | [`simple`] | one call after another, greedy stages, each model on threads of its own |

pub mod blocks;
pub mod build;
pub mod dynamic;
pub mod problem;
pub mod simple;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use opdata::contract::{Executor, Stage};
use serde::Serialize;

use problem::Problem;

/// A schedule that is not this much faster by prediction is not chosen. Of predicted gains of 3 to 5 %, between -1 and
/// +3 % were measured (rnn, inception_v3; `scripts/bench side-by-side` on two machines, 2026-11-25).
pub const LEAST_GAIN: f64 = 0.04;

/// One way to run the models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// The executor that runs it.
    pub executor: Executor,
    /// Predicted time of one run of all models, ns.
    pub predicted_ns: f64,
    /// Predicted speedup over one call after another on all threads.
    pub speedup: f64,
    /// The same by each call's shortest time. Interference slows loops on several threads most, which looks like a gain of fewer.
    pub undisturbed_speedup: f64,
    /// The stages.
    #[serde(skip)]
    pub stages: Vec<Stage>,
}

/// All ways, and the one to take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scheduled {
    /// The ways, `sequential` first.
    pub outcomes: Vec<Outcome>,
    /// Number of the fastest whose two speedups both gain [`LEAST_GAIN`]; of the first if none does.
    pub chosen: usize,
    /// Whether the time limit, or too many states, cut the search short.
    pub cut_short: bool,
    /// No schedule takes less by these times, ns: [`Problem::bound_ns`].
    pub bound_ns: f64,
}

/// Schedules the models in every way. `undisturbed` has the same calls with their shortest times.
pub fn schedule(problem: &Problem, undisturbed: &Problem, limit: Duration) -> Scheduled {
    let deadline = Instant::now() + limit;
    let sequential = simple::sequential(problem);
    let [sequential_ns, undisturbed_ns] = [problem, undisturbed].map(|p| p.time_ns(&sequential));
    let mut ways = vec![("sequential", Executor::Sequential, sequential)];
    ways.push(("greedy", Executor::Staged, simple::greedy(problem)));
    let found = dynamic::stages(problem, deadline);
    ways.push(("dynamic programme", Executor::Staged, found.stages));
    if let Some(stages) = simple::partitioned(problem) {
        ways.push(("partitioned", Executor::Partitioned, stages));
    }
    let outcomes: Vec<Outcome> = ways
        .into_iter()
        .map(|(name, executor, stages)| {
            let predicted_ns = problem.time_ns(&stages);
            Outcome {
                name,
                executor,
                predicted_ns,
                speedup: sequential_ns / predicted_ns,
                undisturbed_speedup: undisturbed_ns / undisturbed.time_ns(&stages),
                stages: problem.named(&stages),
            }
        })
        .collect();
    let gains = |outcome: &Outcome| outcome.speedup.min(outcome.undisturbed_speedup);
    let mut chosen = 0;
    for (number, outcome) in outcomes.iter().enumerate() {
        let is_faster = outcome.speedup > outcomes[chosen].speedup;
        if is_faster && gains(outcome) >= 1.0 + LEAST_GAIN {
            chosen = number;
        }
    }
    Scheduled {
        chosen,
        outcomes,
        cut_short: found.cut_short,
        bound_ns: problem.bound_ns(),
    }
}
