//! The main job: a model in, a dataset of its operators out.
//!
//! Import, at every batch and image size of the sweep ([`variants`]) → candidates ([`work`]) → whole model
//! ([`network`]) → operators ([`collect`]) → rows on disk ([`row`], [`ledger`]) → [`RunReport`] ([`tally`]). The whole
//! model comes before the operators, so that every row can say how long its operator takes inside the model. A run can
//! end early ([`stop`]) and be taken up again ([`resume`]): what is done, it knows from its rows. Owns the order of
//! things and the run's folder; measuring is the workers', statistics and rendering are elsewhere.

mod candidates;
mod chosen;
mod collect;
mod ledger;
mod network;
mod outlook;
mod prepare;
mod replay;
mod resume;
mod row;
mod stop;
mod tally;
mod variants;
mod work;

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use collect::Collector;
use ledger::Ledger;
use opdata::contract::{Environment, Software};
use opdata::{Row, RunManifest, RunState, RunWriter};
use opengine::calibrate::Store;
use opengine::env::{Root, revision_near};
use opengine::interrupt::Interrupt;
use opmodels::{Home, ImportRequest, Imported};
use opreport::progress::Progress;
use prepare::Prepared;
use stop::Stop;
use tally::Tally;
use tvm_bridge::libs::{TVM_FFI_VERSION, TVM_VERSION};

use crate::plan::{Plan, Planned, conditions};
use crate::report::RunReport;

pub use candidates::{Listed, list_candidates};
pub use outlook::{OperatorOutlook, Outlook, outlook};
pub use replay::{Replayed, Verdict, replay};
pub use resume::{Resumed, resume};

/// Name and version of this program, as rows give it.
pub const TOOL_VERSION: &str = concat!("opcollect ", env!("CARGO_PKG_VERSION"));

/// File of a run's folder with what the workers and TVM said on standard error.
const WORKER_LOG: &str = "worker.log";

/// What a run needs besides its plan.
pub struct Session<'a> {
    /// Where the installation's files are.
    pub home: &'a Home,
    /// The program's arguments.
    pub command_line: Vec<String>,
    /// Whether the user wants to stop.
    pub interrupt: Interrupt,
    /// Where talk goes.
    pub progress: &'a mut dyn Progress,
}

/// Imports a model, or finds the import in the cache.
///
/// # Errors
/// The importer's or the registry's.
pub fn import(
    home: &Home,
    request: &ImportRequest,
    python: Option<&Path>,
) -> Result<Imported, opmodels::ImportError> {
    opmodels::import(
        request,
        &home.registry()?,
        &home.tooling(python),
        &home.cache(),
    )
}

/// What this process runs on and with.
pub fn environment(command_line: Vec<String>) -> Environment {
    let program = std::env::current_exe().unwrap_or_default();
    let versions = [
        ("opcollect", env!("CARGO_PKG_VERSION")),
        ("apache-tvm", TVM_VERSION),
        ("apache-tvm-ffi", TVM_FFI_VERSION),
    ];
    opengine::env::capture(
        &Root::system(),
        Software {
            versions: versions
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            git_revision: revision_near(&program),
            command_line,
        },
    )
}

/// Runs a plan to its end or until it is to stop; every row is on disk when it returns.
///
/// # Errors
/// The model cannot be imported, the plan leaves nothing to measure, or the results cannot be written. Failed points are
/// no errors.
pub fn run(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<RunReport> {
    let plan = &planned.plan;
    let prepared = Preparation::new(planned, session)?;
    let writer = RunWriter::create(&plan.out)?;
    let manifest = manifest(plan, session, &prepared)?;
    measure(planned, session, prepared, writer, manifest, &[])
}

/// What is known of a plan's rows before there is one.
fn manifest(
    plan: &Plan,
    session: &Session<'_>,
    prepared: &Preparation,
) -> anyhow::Result<RunManifest> {
    let mut manifest = RunManifest::new(&plan.run_id);
    manifest.command_line = session.command_line.clone();
    manifest.plan = serde_json::to_value(plan)?;
    manifest.plan_hash = Some(plan.hash());
    manifest.shard = plan.shard;
    manifest.environment = serde_json::to_value(&prepared.environment)?;
    manifest.versions = prepared.environment.software.versions.clone();
    let versions = prepared.imports.iter().map(|p| &p.imported.graph.versions);
    manifest
        .versions
        .extend(versions.flatten().map(|(k, v)| (k.clone(), v.clone())));
    Ok(manifest)
}

/// What is known before the first kernel is built.
struct Preparation {
    start: Instant,
    stop: Stop,
    environment: Environment,
    target: serde_json::Value,
    imports: Vec<Prepared>,
}

impl Preparation {
    fn new(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<Preparation> {
        let start = Instant::now();
        for warning in &planned.warnings {
            session.progress.note(&warning.to_string());
        }
        let mut environment = environment(session.command_line.clone());
        match Store::new(session.home.calibrations()).load(&environment.env_hash) {
            Ok(calibration) => environment.calibration = calibration,
            // The times are as good without it.
            Err(error) => session
                .progress
                .note(&format!("warning: not recorded in this run: {error}")),
        }
        let target = planned.plan.target.dictionary(&environment);
        let imports = prepare::prepare(planned, &environment, &target, session)?;
        Ok(Preparation {
            start,
            // Importing is not measuring: the budget is for the points.
            stop: Stop::new(session.interrupt.clone(), planned.plan.time_budget_ns),
            environment,
            target,
            imports,
        })
    }
}

/// Measures what `rows`, the rows that are there already, lack.
fn measure(
    planned: &Planned,
    session: &mut Session<'_>,
    prepared: Preparation,
    mut writer: RunWriter,
    mut manifest: RunManifest,
    rows: &[Row],
) -> anyhow::Result<RunReport> {
    let plan = &planned.plan;
    let Preparation {
        start,
        stop,
        environment,
        target,
        imports,
    } = prepared;
    let planned_points = imports.iter().map(|p| p.work.points() as u64).sum();
    let mut ledger = Ledger::new(&mut writer, &mut manifest, &plan.out, rows, planned_points);
    ledger.sync()?;
    session
        .progress
        .begin("measure", planned_points.saturating_sub(rows.len() as u64));
    let mut whole_model = Vec::new();
    let mut operators = Vec::new();
    let batch = imports.first().map_or(1, |p| p.imported.graph.batch);
    for mut import in imports {
        let network = match stop.due() {
            None => import.network(plan, session)?,
            Some(_) => network::Network::default(),
        };
        let facts = row::RunFacts::new(plan, &import.imported, &environment, &target);
        let mut tally = Tally::new(&import.imported.graph, facts.import_key(), conditions(plan));
        rows.iter().for_each(|row| tally.add(row));
        if stop.due().is_none() {
            Collector {
                plan,
                graph: &import.imported.graph,
                facts: &facts,
                network: &network,
                runner: &mut import.runner,
                ledger: &mut ledger,
                tally: &mut tally,
                progress: session.progress,
                stop: &stop,
            }
            .collect(&import.work.candidates)?;
        }
        whole_model.extend(network.reports);
        operators.extend(tally.into_reports());
    }
    session.progress.end();
    let left = ledger.left();
    let state = if left == 0 {
        RunState::Finished
    } else {
        RunState::Interrupted
    };
    writer.finish()?;
    manifest.end(state);
    manifest.save(&plan.out)?;
    let mut warnings: Vec<String> = planned.warnings.iter().map(ToString::to_string).collect();
    warnings.extend(doubts(&environment));
    Ok(RunReport {
        out: plan.out.clone(),
        run_id: plan.run_id.clone(),
        state,
        model: plan.model.clone(),
        batch,
        target: plan.target.device.describe_target(&target),
        cpu: plan.target.device.hardware(&environment),
        operators,
        whole_model,
        left,
        warnings,
        wall_ns: start.elapsed().as_nanos() as u64,
    })
}

/// What makes the machine's times doubtful.
fn doubts(environment: &Environment) -> Option<String> {
    let load = environment.state.load_1min?;
    let cores = f64::from(environment.state.cores_usable);
    (load > cores).then(|| {
        format!("the machine was busy when the run began (load {load:.1} on {cores} cores): times may be too long")
    })
}

/// A folder for files that are not kept.
pub(crate) fn scratch() -> anyhow::Result<tempfile::TempDir> {
    tempfile::tempdir().with_context(|| {
        let folder = std::env::temp_dir();
        format!(
            "cannot make a temporary folder in {}; set TMPDIR to one that can be written",
            folder.display()
        )
    })
}
