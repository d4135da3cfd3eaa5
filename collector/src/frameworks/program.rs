//! Frameworks that run in a program of their own, over the protocol of `libtorch/`: libtorch itself, and ONNX Runtime's Python
//! package.

use std::time::Duration;

use opmodels::{Deployed, Tooling};
use optorch::client::{Client, Program};
use optorch::lines::{GroupBy, SortBy, summary};
use optorch::protocol::{Cycle, Detail, RecordSpec};

use super::contender::{Contender, Facts, OperatorTime, Round, per_run};
use super::kinds::Kind;

/// ONNX Runtime's name in messages, and as the origin of outputs.
pub(super) const ONNX_RUNTIME: &str = "ONNX Runtime";
/// Fewest and most runs of a round.
const RUNS: (u32, u32) = (3, 500);
/// Fewest and most runs of a round that are watched.
const WATCHED: (u32, u32) = (2, 10);

/// The program that runs models in ONNX Runtime.
pub(super) fn onnxruntime(tooling: &Tooling) -> Program {
    Program {
        framework: ONNX_RUNTIME,
        command: tooling.command("opbench_onnxruntime"),
    }
}

/// A program with the model.
pub(super) struct Running {
    client: Client,
    batch: u64,
    checked_against: String,
    limit: Duration,
    /// Reads the operators from the record.
    operators: fn(&Cycle) -> Vec<OperatorTime>,
}

impl Running {
    /// libtorch with a model; a run may take as long as `limit`.
    pub(super) fn torch(client: Client, deployed: &Deployed, limit: Duration) -> Running {
        Running::new(client, deployed, limit, of_libtorch)
    }

    /// ONNX Runtime with a model; a run may take as long as `limit`.
    pub(super) fn onnxruntime(client: Client, deployed: &Deployed, limit: Duration) -> Running {
        Running::new(client, deployed, limit, of_onnxruntime)
    }

    fn new(
        client: Client,
        deployed: &Deployed,
        limit: Duration,
        operators: fn(&Cycle) -> Vec<OperatorTime>,
    ) -> Running {
        Running {
            client,
            batch: deployed.batch,
            checked_against: deployed.origin.clone(),
            limit,
            operators,
        }
    }
}

impl Contender for Running {
    fn facts(&self) -> Facts {
        Facts {
            version: self.client.version.clone(),
            batch: self.batch,
            checked_against: self.checked_against.clone(),
            error: Some(self.client.error),
        }
    }

    fn round(&mut self, budget: Duration) -> anyhow::Result<Round> {
        // The first run after another framework's finds cold caches, like TVM's warm-up. Its time shows how many runs
        // fit.
        let first = self.client.run(1, self.limit)?;
        let one = first.first().copied().unwrap_or(1).max(1);
        let fitting = (budget.as_nanos() as u64 / one).min(u64::from(RUNS.1)) as u32;
        let runs = fitting.max(RUNS.0);
        let runs_ns = self.client.run(runs, self.limit * runs)?;
        let active = fitting.clamp(WATCHED.0, WATCHED.1);
        let record = RecordSpec {
            warmup: 1,
            active,
            first_step: 0,
            detail: Detail::default(),
            trace: None,
        };
        // Before it records, a framework may have to load the model again.
        let cycle = self.client.record(record, self.limit * (active + 2))?;
        Ok(Round {
            runs_ns: runs_ns.into_iter().map(|ns| ns as f64).collect(),
            operators: (self.operators)(&cycle),
        })
    }
}

/// The operators that the model itself calls, with those that they call.
fn of_libtorch(cycle: &Cycle) -> Vec<OperatorTime> {
    let lines = summary(cycle, GroupBy::Outermost, SortBy::Total).lines;
    let operators = lines.into_iter().map(|line| OperatorTime {
        kind: Kind::of_ours(optorch::kinds::kind(&line.name)),
        calls: line.count,
        ns: line.total_ns,
        name: line.name,
    });
    operators.collect()
}

/// ONNX Runtime's nodes; they call nothing that is recorded.
fn of_onnxruntime(cycle: &Cycle) -> Vec<OperatorTime> {
    let calls = cycle.events.iter().map(|event| OperatorTime {
        name: event.name.clone(),
        kind: Kind::of_onnx(&event.name),
        calls: 1.0,
        ns: event.duration_ns as f64,
    });
    per_run(calls, cycle.steps_ns.len())
}
