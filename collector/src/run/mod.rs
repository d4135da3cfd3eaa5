//! The main job: a model in, a dataset of its operators out.
//!
//! Import → whole model ([`network`]) → operators ([`operators`]) → rows on disk ([`row`]) → [`RunReport`]. The whole
//! model comes first, so that every operator's row can say how long the operator takes inside the model. Owns the order
//! of things and the run's folder; measuring is the workers', statistics and rendering are elsewhere.

mod home;
mod network;
mod operators;
mod row;

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use opdata::{RunManifest, RunState, RunWriter};
use opmodels::{Graph, ImportRequest, Imported, Provenance};
use serde_json::json;
use tvm_bridge::DType;
use tvm_bridge::libs::{TVM_FFI_VERSION, TVM_VERSION};

use crate::env::{Environment, Root, Software, revision_near};
use crate::interrupt::Interrupt;
use crate::plan::{Plan, Planned, WholeModel};
use crate::progress::Progress;
use crate::render::{RunReport, units};
use crate::worker::lab::ProcessLab;
use crate::worker::process::Launcher;
use crate::worker::protocol::Setup;

pub use home::{HOME_VARIABLE, Home};
pub use network::WHOLE_MODEL_JSON;

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
    Environment::capture(
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

/// TVM's target for a plan's.
pub fn target_json(plan: &Plan, environment: &Environment) -> serde_json::Value {
    let llvm_cpu = &environment.machine.llvm_cpu;
    // Without a name LLVM takes its baseline for the architecture.
    let cpu = plan.target.mcpu.as_ref().or(llvm_cpu.name.as_ref());
    let mut target =
        json!({ "kind": plan.target.kind.name(), "num-cores": environment.machine.cores_online });
    if let Some(cpu) = cpu {
        target["mcpu"] = json!(cpu);
    }
    if !plan.target.mattr.is_empty() {
        target["mattr"] = json!(plan.target.mattr);
    }
    target
}

/// Runs a plan to its end or until interrupted; every row is on disk when it returns.
///
/// # Errors
/// The model cannot be imported, or the results cannot be written. Failed points are no errors.
pub fn run(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<RunReport> {
    let start = Instant::now();
    let plan = &planned.plan;
    let mut warnings: Vec<String> = planned.warnings.iter().map(ToString::to_string).collect();
    for warning in &warnings {
        session.progress.note(warning);
    }
    session
        .progress
        .working(&format!("importing {}", plan.model.model));
    let imported = import(session.home, &plan.model, planned.python.as_deref())?;
    if let Provenance::Fresh(took) = imported.provenance {
        let wall = units::wall(took.as_nanos() as u64);
        session.progress.note(&format!(
            "imported {} in {wall}; the next run finds it in the cache",
            plan.model.model
        ));
    }

    let environment = environment(session.command_line.clone());
    let target = target_json(plan, &environment);
    let mut writer = RunWriter::create(&plan.out)?;
    let mut manifest = manifest(plan, &environment, &imported)?;
    manifest.save(&plan.out)?;

    let setup = Setup {
        import: std::path::absolute(&imported.folder).context("the import's folder")?,
        target: target.clone(),
        max_threads: plan.threads.iter().copied().max().unwrap_or(1) as usize,
        seed: plan.seed,
        model_weight_bytes: weight_bytes(&imported.graph),
        memory_limit_mib: plan.worker.memory_limit_mib,
    };
    let launcher = Launcher {
        program: std::env::current_exe().context("the path of this program")?,
        log: plan.out.join(WORKER_LOG),
    };
    let jobs = environment.state.cores_usable as usize;
    let lab = || {
        ProcessLab::new(
            launcher.clone(),
            setup.clone(),
            plan.worker,
            jobs,
            session.interrupt.clone(),
        )
    };

    let network = match plan.whole_model {
        WholeModel::Measure => {
            let mut lab = lab();
            let result = network::measure(
                plan,
                &imported.graph,
                jobs,
                &mut lab,
                session.progress,
                &session.interrupt,
            );
            network::save(&plan.out, &result)?;
            result
        }
        WholeModel::Skip => network::Network::default(),
    };
    let facts = row::RunFacts::new(plan, &imported, &environment, &target);
    let operators = operators::measure(
        plan,
        &imported.graph,
        &facts,
        &network,
        &mut lab(),
        &mut operators::Sink {
            writer: &mut writer,
            manifest: &mut manifest,
        },
        session.progress,
        &session.interrupt,
    )?;

    let state = if session.interrupt.requested() {
        RunState::Interrupted
    } else {
        RunState::Finished
    };
    writer.finish()?;
    manifest.end(state);
    manifest.save(&plan.out)?;
    warnings.extend(doubts(&environment));
    Ok(RunReport {
        out: plan.out.clone(),
        run_id: plan.run_id.clone(),
        state,
        model: plan.model.clone(),
        batch: imported.graph.batch,
        target: describe_target(&target),
        cpu: environment
            .machine
            .cpu
            .name
            .clone()
            .unwrap_or_else(|| "unknown processor".to_owned()),
        operators,
        whole_model: network.reports,
        warnings,
        wall_ns: start.elapsed().as_nanos() as u64,
    })
}

/// Bytes of all weights as the kernels read them.
fn weight_bytes(graph: &Graph) -> u64 {
    let bytes_of = |dtype: &str| dtype.parse::<DType>().map_or(0, |d| d.bytes() as u64);
    graph
        .weights()
        .map(|w| w.shape.iter().product::<u64>() * bytes_of(&w.dtype))
        .sum()
}

fn describe_target(target: &serde_json::Value) -> String {
    let kind = target["kind"].as_str().unwrap_or_default();
    target["mcpu"]
        .as_str()
        .map_or_else(|| kind.to_owned(), |cpu| format!("{kind} -mcpu={cpu}"))
}

fn manifest(
    plan: &Plan,
    environment: &Environment,
    imported: &Imported,
) -> anyhow::Result<RunManifest> {
    let mut manifest = RunManifest::new(&plan.run_id);
    manifest.command_line = environment.software.command_line.clone();
    manifest.plan = serde_json::to_value(plan)?;
    manifest.environment = serde_json::to_value(environment)?;
    manifest.versions = environment.software.versions.clone();
    manifest.versions.extend(imported.graph.versions.clone());
    manifest.counts.planned =
        (imported.graph.operators.len() * plan.threads.len() * plan.cache_states.len()) as u64;
    Ok(manifest)
}

/// What makes the machine's times doubtful.
fn doubts(environment: &Environment) -> Option<String> {
    let load = environment.state.load_1min?;
    let cores = f64::from(environment.state.cores_usable);
    (load > cores).then(|| {
        format!("the machine was busy when the run began (load {load:.1} on {cores} cores): times may be too long")
    })
}
