//! Operators at the same time: measured in groups ([`pairs`]), whole models run by a schedule ([`graph`]), and
//! schedules of operators chosen together ([`cotune`]).
//!
//! All models are in one worker process, built with the kernels of their default schedules and checked as whole models.

pub mod cotune;
pub mod graph;
pub mod groups;
pub mod pairs;
mod rows;
mod sample;

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use opdata::contract::Environment;
use opengine::protocol::{
    CallSeen, ContentId, GroupSpec, GroupTimes, ModelToLoad, SideBySideDone, SideBySideOrder,
    WholeModelSpec,
};
use opengine::runner::WorkerPool;
use opengine::schedule::Space;
use opmodels::{ImportRequest, Imported};

use crate::plan::{Plan, Planned};
use crate::run::{Session, runner, scratch};

/// Models in a worker, ready to run side by side.
pub(crate) struct Loaded {
    runner: WorkerPool,
    /// The models in the order that calls count them.
    pub models: Vec<Imported>,
    /// The calls of each, as a run makes them.
    pub calls: Vec<Vec<CallSeen>>,
    /// The processors that kernels may run on.
    pub processors: Vec<usize>,
    /// The machine.
    pub environment: Environment,
    /// The target's dictionary.
    pub target: serde_json::Value,
    /// The worker's log.
    _folder: tempfile::TempDir,
}

/// The requests of further models of the same source: `NAME`, or `NAME:N` for a sequence length.
pub fn others(planned: &Planned, names: &[String]) -> Vec<ImportRequest> {
    let of = |name: &String| ImportRequest::named(planned.plan.model.source, name);
    names.iter().map(of).collect()
}

impl Loaded {
    /// Imports the models, builds them in one worker, and checks their outputs.
    ///
    /// # Errors
    /// Fails if a model cannot be imported or built, has a wrong output, or the target is not this machine's processor.
    pub fn load(
        plan: &Plan,
        others: &[ImportRequest],
        python: Option<&std::path::Path>,
        session: &mut Session<'_>,
    ) -> anyhow::Result<Loaded> {
        if !plan.target.device.profiles() || plan.remote.is_some() {
            bail!(
                "--target {}: operators run side by side on processors of this machine only; use --target llvm",
                plan.target.device.name()
            );
        }
        let environment = session.environment_of(plan)?;
        let mut models = Vec::new();
        for request in std::iter::once(&plan.model).chain(others) {
            session
                .progress
                .working(&format!("importing {}", request.model));
            models.push(session.importer.import(request, python, &mut |_| {})?);
        }
        let target = plan.target.dictionary(&environment);
        let jobs = environment.state.cores_usable as usize;
        let folder = scratch()?;
        let first = models.first().context("no model")?;
        let runner = runner(plan, first, &target, jobs, session, folder.path())?;
        let mut loaded = Loaded {
            runner,
            models,
            calls: Vec::new(),
            processors: Vec::new(),
            environment,
            target,
            _folder: folder,
        };
        session
            .progress
            .working("building the models and checking their outputs");
        loaded.build(plan)?;
        Ok(loaded)
    }

    /// Builds the models, in a new worker if the last was lost.
    ///
    /// # Errors
    /// Fails as [`Loaded::load`] does.
    pub fn build(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let models = self.models.iter().map(|imported| {
            Ok(ModelToLoad {
                folder: imported.folder.clone(),
                module: ContentId::of_module(&imported.folder)?,
                spec: WholeModelSpec {
                    graph: imported.graph.clone(),
                    jobs: self.environment.state.cores_usable as usize,
                    schedules: Default::default(),
                    export: None,
                    watch_tasks: false,
                },
            })
        });
        let models = models.collect::<anyhow::Result<Vec<_>>>()?;
        // The time limit is that of a whole model: every operator may take its time, scheduled and unscheduled.
        let operators: u64 = self
            .models
            .iter()
            .map(|m| m.graph.operators.len() as u64)
            .sum();
        let nanos = plan
            .worker
            .compile_timeout_ns
            .saturating_mul(2 * operators + 1);
        let order = SideBySideOrder::Load { models };
        match self.order(order, Duration::from_nanos(nanos))? {
            SideBySideDone::Loaded { models, processors } => {
                for (model, imported) in models.iter().zip(&self.models) {
                    if let Some(complaint) = model.ready.complaint() {
                        bail!("{}: {complaint}", imported.graph.model);
                    }
                }
                self.calls = models.into_iter().map(|model| model.calls).collect();
                self.processors = processors;
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Builds the models again if the worker was lost, and the models with it.
    ///
    /// # Errors
    /// Fails as [`Loaded::load`] does.
    pub fn recover(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let first = self.calls.first().and_then(|calls| calls.first());
        let symbol = first.context("a model without calls")?.symbol.clone();
        match self.space(plan, 0, &symbol) {
            Ok(_) => Ok(()),
            Err(_) => self.build(plan),
        }
    }

    /// The template space of a function of a model.
    ///
    /// # Errors
    /// Fails if there is none, or if the worker was lost.
    pub fn space(&mut self, plan: &Plan, model: usize, symbol: &str) -> anyhow::Result<Space> {
        let order = SideBySideOrder::Space {
            model,
            symbol: symbol.to_owned(),
        };
        let limit = Duration::from_nanos(plan.worker.compile_timeout_ns);
        match self.order(order, limit)? {
            SideBySideDone::Space(space) => Ok(space),
            other => Err(unexpected(&other)),
        }
    }

    /// Times a group alone and at the same time. The time limit of a point is for one round.
    ///
    /// # Errors
    /// Fails if a kernel fails, or the worker was lost.
    pub fn time(&mut self, plan: &Plan, group: GroupSpec) -> anyhow::Result<GroupTimes> {
        let compiled = group.members.iter().filter(|own| own.schedule.is_some());
        let limits = &plan.worker;
        let nanos = limits
            .measure_timeout_ns
            .saturating_mul(u64::from(group.rounds) + 1)
            .saturating_add(
                limits
                    .compile_timeout_ns
                    .saturating_mul(compiled.count() as u64),
            );
        match self.order(SideBySideOrder::Group(group), Duration::from_nanos(nanos))? {
            SideBySideDone::Group(times) => Ok(times),
            other => Err(unexpected(&other)),
        }
    }

    /// Passes an order to the worker.
    ///
    /// # Errors
    /// Fails if the worker cannot carry it out, or was lost.
    pub fn order(
        &mut self,
        order: SideBySideOrder,
        timeout: Duration,
    ) -> anyhow::Result<SideBySideDone> {
        let done = self.runner.first.side_by_side(order, timeout);
        done.map_err(|failure| anyhow!(failure.reason))
    }
}

/// A worker's answer does not fit its order.
fn unexpected(done: &SideBySideDone) -> anyhow::Error {
    anyhow!("the worker gave an answer to another question: {done:?}")
}
