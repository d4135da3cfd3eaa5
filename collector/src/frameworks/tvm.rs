//! TVM: the whole model with the schedules of the main job, as it times and watches it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use opdata::CacheState;
use opdata::contract::StopRule;
use opengine::device::Conditions;
use opengine::measure::TimingPolicy;
use opengine::protocol::{Counting, WholeModelReady, WholeModelSpec};
use opengine::runner::WorkerPool;
use opmodels::ImportRequest;
use tvm_bridge::libs::TVM_VERSION;

use super::contender::{Contender, Facts, OperatorTime, Round};
use super::kinds::Kind;
use crate::apply::Lookup;
use crate::plan::Planned;
use crate::run::{Session, in_model, runner};

/// Maximum number of timed runs in a round.
const MOST_RUNS: u32 = 500;

/// The model in a worker.
pub(super) struct Tvm {
    runner: WorkerPool,
    model: String,
    batch: u64,
    threads: usize,
    /// Name and kind of each operator by its function.
    operators: HashMap<String, (String, Kind)>,
    ready: WholeModelReady,
}

impl Tvm {
    /// Imports, builds and checks the model; with the schedules of the store if it is `tuned`.
    ///
    /// # Errors
    /// Fails if it cannot be imported or built, or has a wrong output.
    pub(super) fn build(
        planned: &Planned,
        request: &ImportRequest,
        tuned: bool,
        session: &mut Session<'_>,
        scratch: &Path,
    ) -> anyhow::Result<Tvm> {
        let plan = &planned.plan;
        let python = planned.python.as_deref();
        let imported = session.importer.import(request, python, &mut |_| {})?;
        let environment = session.environment();
        let target = plan.target.dictionary(&environment);
        let jobs = environment.state.cores_usable as usize;
        let mut runner = runner(plan, &imported, &target, jobs, session, scratch)?;
        let lookup = Lookup {
            plan,
            imported: &imported,
            target: &target,
            machine: &environment.env_hash,
            jobs,
        };
        let schedules = match tuned {
            true => lookup.schedules(&mut runner, &mut |text| session.progress.note(text))?,
            false => BTreeMap::new(),
        };
        let graph = imported.graph;
        let model = plan.model.model.clone();
        let operators = graph.operators.iter().map(|operator| {
            let kind = Kind::of_ours(operator.kind.name());
            (operator.symbol.clone(), (operator.name.clone(), kind))
        });
        let operators = operators.collect();
        let batch = graph.batch;
        let spec = WholeModelSpec {
            graph,
            jobs,
            schedules,
            export: None,
            watch_tasks: false,
        };
        let ready = in_model::build(&mut runner, spec)
            .with_context(|| format!("{model} cannot be run by TVM"))?;
        Ok(Tvm {
            runner,
            model,
            batch,
            threads: plan.threads.iter().copied().max().unwrap_or(1) as usize,
            operators,
            ready,
        })
    }

    /// The contender with another name for the reference of its outputs.
    pub(super) fn checked_against(mut self, origin: &str) -> Tvm {
        origin.clone_into(&mut self.ready.checked_against);
        self
    }
}

impl Contender for Tvm {
    fn facts(&self) -> Facts {
        Facts {
            version: TVM_VERSION.to_owned(),
            batch: self.batch,
            checked_against: self.ready.checked_against.clone(),
            error: None,
        }
    }

    fn round(&mut self, budget: Duration) -> anyhow::Result<Round> {
        let policy = TimingPolicy {
            warmup: 1,
            number: Some(1),
            stop: StopRule {
                // Sampling goes on until the time is spent, however narrow the interval is.
                ci_target: 0.0,
                min_samples: 1,
                max_samples: MOST_RUNS,
                budget_ns: budget.as_nanos() as u64,
            },
        };
        let at = Conditions::new(self.threads as u32, CacheState::Model);
        let measured = self
            .runner
            // The other frameworks have no reference kernel that shows quiet runs.
            .first
            .measure_whole_model(&at, policy, Counting::All)
            .map_err(|failure| anyhow!("{} in TVM: {}", self.model, failure.reason))?;
        let operators = measured.operators.iter().map(|seen| {
            let (name, kind) = self
                .operators
                .get(&seen.symbol)
                .cloned()
                .unwrap_or_else(|| (seen.symbol.clone(), Kind::Other));
            let calls = seen.calls as f64;
            OperatorTime {
                name,
                kind,
                calls,
                ns: calls * seen.median_ns,
            }
        });
        Ok(Round {
            runs_ns: measured.taken.samples.times().map(|ns| ns.get()).collect(),
            operators: operators.collect(),
        })
    }
}
