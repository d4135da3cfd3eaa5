//! The imports of a plan, each with its runner and its points.

use std::path::Path;

use anyhow::{Context as _, bail};
use opdata::contract::Environment;
use opdata::contract::whole_model::whole_model_file_name;
use opengine::device::remote::connect;
use opengine::device::{Purpose, Sharing};
use opengine::measure::counters::request::CounterRequest;
use opengine::protocol::{ContentId, Setup};
use opengine::runner::{RunnerOrder, WorkerPool};
use opmodels::{Imported, Provenance};
use opreport::units;

use super::row::import_key;
use super::whole_model::{self, WholeModelTimes};
use super::{Session, WORKER_LOG, variants};
use crate::plan::{Plan, Planned, WholeModel, model_conditions};
use crate::propose::{self, Drawing};

/// An import, ready to be measured.
pub(crate) struct Prepared {
    pub imported: Imported,
    /// The dictionary of the target that it is compiled for.
    pub target: serde_json::Value,
    pub drawing: Drawing,
    pub runner: WorkerPool,
    pub jobs: usize,
    /// Where the whole model's measurement is kept: the first import's has the plain name.
    whole_model_file: String,
}

/// Makes or finds the imports of a plan, for each of its targets, and draws their candidates.
///
/// # Errors
/// Fails if a model cannot be imported, or the plan leaves nothing to measure.
pub(crate) fn prepare(
    planned: &Planned,
    environment: &Environment,
    session: &mut Session<'_>,
) -> anyhow::Result<Vec<Prepared>> {
    let plan = &planned.plan;
    propose::check_machine(plan, &environment.env_hash)?;
    let base = imported(planned, &plan.model, session)?;
    let requests = variants::requests(plan, &base.graph)?;
    let targets: Vec<_> = plan.targets().map(|t| t.dictionary(environment)).collect();
    let count = requests.len() * targets.len();
    // Kernels are built here, wherever they are measured.
    let jobs = session.environment().state.cores_usable as usize;
    // Workers log to the run's folder before there is a row in it.
    std::fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot make the folder {}", plan.out.display()))?;
    let prepared: anyhow::Result<Vec<Prepared>> = requests
        .iter()
        .flat_map(|request| targets.iter().map(move |target| (request, target)))
        .enumerate()
        .map(|(place, (request, target))| {
            let imported = if *request == plan.model {
                base.clone()
            } else {
                imported(planned, request, session)?
            };
            let mut runner = runner(plan, &imported, target, jobs, session, &plan.out)?;
            let drawing = propose::draw(plan, &imported, count, environment, &mut runner)?;
            if count > 1 {
                // Every import has a worker of its own; one at a time is enough.
                runner.rest();
            }
            let whole_model_file = match place {
                0 => whole_model_file_name(None),
                _ => whole_model_file_name(Some(&import_key(&imported))),
            };
            Ok(Prepared {
                imported,
                target: target.clone(),
                drawing,
                runner,
                jobs,
                whole_model_file,
            })
        })
        .collect();
    let prepared = prepared.and_then(|all| {
        propose::check_found(plan, all.iter().map(|p| &p.imported.graph))?;
        check_shard(plan, &all)?;
        Ok(all)
    });
    if prepared.is_err() {
        remove_unused(&plan.out);
    }
    prepared
}

/// Refuses a shard without a single point: with more shards than kernels some are empty.
fn check_shard(plan: &Plan, all: &[Prepared]) -> anyhow::Result<()> {
    let Some(shard) = plan.shard else {
        return Ok(());
    };
    if all.iter().any(|p| p.drawing.proposer.points() > 0) {
        return Ok(());
    }
    let kernels: u64 = all.iter().map(|p| p.drawing.all_shards).sum();
    bail!(
        "--shard {shard} leaves nothing to measure: the plan has {} in all; take {} at most",
        units::plural(kernels, "kernel"),
        units::plural(kernels, "shard")
    )
}

/// Leaves nothing behind of a run that never began; a folder with anything else in it stays.
fn remove_unused(folder: &Path) {
    if !folder.join(opdata::RUN_JSON).exists() {
        let _ = std::fs::remove_file(folder.join(WORKER_LOG));
        let _ = std::fs::remove_dir(folder);
    }
}

fn imported(
    planned: &Planned,
    request: &opmodels::ImportRequest,
    session: &mut Session<'_>,
) -> anyhow::Result<Imported> {
    let model = &request.model;
    session.progress.working(&format!("importing {model}"));
    let progress = &mut *session.progress;
    let imported =
        session
            .importer
            .import(request, planned.python.as_deref(), &mut |transfer| {
                progress.working(&format!("fetching {model}: {transfer}"))
            })?;
    let absent = request.composites.absent(&imported.graph.operators);
    if !absent.is_empty() {
        session.progress.note(&format!(
            "{model} has no place for the composites {}",
            absent.join(", ")
        ));
    }
    if let Provenance::Fresh(took) = imported.provenance {
        let wall = units::wall(took.as_nanos() as u64);
        session.progress.note(&format!(
            "imported {model} in {wall}; the next run finds it in the cache"
        ));
    }
    Ok(imported)
}

/// The use of a plan's kernels.
pub(crate) fn purpose(plan: &Plan) -> Purpose {
    match plan.compile_only {
        true => Purpose::Compile,
        false => Purpose::Measure,
    }
}

/// A runner for an import; its workers' talk goes to a file in `folder`.
pub(crate) fn runner(
    plan: &Plan,
    imported: &Imported,
    target: &serde_json::Value,
    jobs: usize,
    session: &Session<'_>,
    folder: &Path,
) -> anyhow::Result<WorkerPool> {
    let setup = Setup {
        module: ContentId::default(),
        device: plan.target.device,
        target: target.clone(),
        max_threads: plan.threads.iter().copied().max().unwrap_or(1) as usize,
        seed: plan.seed,
        max_statements: plan.worker.max_statements,
        memory_limit_mib: plan.worker.memory_limit_mib,
        purpose: purpose(plan),
        counters: CounterRequest::parse(&plan.counters)?,
        compile_timeout_ns: plan.worker.compile_timeout_ns,
        keep_kernels: match &plan.keep_kernels {
            Some(folder) => Some(std::path::absolute(folder).context("--keep-kernels")?),
            None => None,
        },
        unit: 0,
        remote: plan.remote.clone(),
        avoid: Vec::new(),
    };
    let device = plan.target.device;
    let servers = match &plan.remote {
        Some(address) => connect::free_servers(address)?,
        None => 0,
    };
    let order = RunnerOrder {
        setup,
        contents: std::path::absolute(&imported.folder).context("the import's folder")?,
        policy: plan.worker,
        jobs,
        // The first worker builds on all cores; several measure where that disturbs nobody.
        units: match (purpose(plan), device.sharing()) {
            (Purpose::Compile, _) => vec![0],
            (Purpose::Measure, _) if servers > 0 => (0..servers as u32).collect(),
            (Purpose::Measure, Sharing::Alone) => device.units(),
            (Purpose::Measure, Sharing::SideBySide) => vec![0; jobs],
        },
        interrupt: session.interrupt.clone(),
    };
    Ok(session.runners.runner(order, &folder.join(WORKER_LOG)))
}

impl Prepared {
    /// The whole model: measured now, or read from the run's folder if it was measured before.
    ///
    /// # Errors
    /// Fails if a result cannot be written.
    pub fn whole_model(
        &mut self,
        plan: &Plan,
        session: &mut Session<'_>,
    ) -> anyhow::Result<WholeModelTimes> {
        let file = plan.out.join(&self.whole_model_file);
        match plan.whole_model {
            WholeModel::Skip => Ok(WholeModelTimes::default()),
            WholeModel::Measure => match whole_model::load(&file, &model_conditions(plan)) {
                Some(times) => Ok(times),
                None => {
                    let graph = &self.imported.graph;
                    let times = whole_model::measure(
                        plan,
                        graph,
                        self.jobs,
                        &mut self.runner,
                        session.progress,
                        &session.interrupt,
                        session.clock.as_ref(),
                    );
                    self.runner.first.forget_whole_model();
                    whole_model::save(&file, &times)?;
                    Ok(times)
                }
            },
        }
    }
}
