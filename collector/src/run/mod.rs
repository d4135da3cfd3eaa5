//! The main job: from a model to a dataset of its operators.
//!
//! Import, at every batch and image size of the sweep ([`variants`]), then the whole model ([`whole_model`]). Then the
//! operators, as [`crate::propose`] proposes them ([`collect`]), their rows on disk ([`row`], [`ledger`]), and the
//! [`RunReport`] ([`tally`]). The whole model comes before the operators, so that every row can say how long its operator
//! takes inside the model. A run can end early ([`stop`]) and be resumed ([`mod@resume`]): its rows show what is done. This
//! module owns the order of the steps and the run's folder. Workers measure; statistics and rendering are elsewhere.

mod collect;
mod counts;
mod curves;
mod grades;
pub(crate) mod in_model;
mod ledger;
mod prepare;
mod queue;
mod resume;
mod row;
mod session;
mod stages;
mod stop;
mod tally;
#[cfg(test)]
mod tests;
mod tuned;
mod variants;
mod warnings;
mod whole_model;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use collect::Collector;
use ledger::{Keeping, Ledger};
use opdata::contract::Environment;
use opdata::contract::plan::TuningPolicy;
use opdata::{Row, RunManifest, RunState, RunWriter};
use opengine::device::Purpose;
use stages::Stages;
use stop::Stop;
use tally::{Load, Tally};

use crate::plan::{Plan, Planned, conditions, model_conditions};
use crate::report::{RunReport, TunedReport};
use crate::store::Store;

pub use resume::{ResumeRequest, Resumed, resume};
pub use session::{Clock, Importer, Session, SystemClock, environment};

pub(crate) use collect::kernel_spec;
pub(crate) use grades::quality;
pub(crate) use prepare::{Prepared, prepare, purpose, runner};
pub(crate) use resume::plan_of;
pub(crate) use row::{PointFacts, RunFacts, import_key};
pub(crate) use tally::time_of;
pub(crate) use tuned::compare as compare_models;
pub(crate) use variants::requests;

/// Name and version of this program, as rows give it.
pub const TOOL_VERSION: &str = concat!("opcollect ", env!("CARGO_PKG_VERSION"));

/// File of a run's folder with the standard error of the workers and TVM.
pub(crate) const WORKER_LOG: &str = "worker.log";

/// Runs a plan to its end or until it is to stop; every row is on disk when it returns.
///
/// # Errors
/// Fails if the model cannot be imported, the plan leaves nothing to measure, or the results cannot be written. Failed
/// points are no errors.
pub fn run(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<RunReport> {
    let plan = &planned.plan;
    let prepared = Preparation::new(planned, session)?;
    let writer = RunWriter::create(&plan.out)?;
    let manifest = manifest(planned, session, &prepared)?;
    measure(planned, session, prepared, writer, manifest, &[])
}

/// Facts about a plan's rows before there is one.
pub(crate) fn manifest(
    planned: &Planned,
    session: &Session<'_>,
    prepared: &Preparation,
) -> anyhow::Result<RunManifest> {
    let plan = &planned.plan;
    let mut manifest = RunManifest::new(&plan.run_id);
    manifest.command_line = session.command_line.clone();
    manifest.plan = serde_json::to_value(plan)?;
    manifest.plan_hash = Some(plan.hash());
    manifest.shard = plan.shard;
    manifest.label = planned.label.clone();
    manifest.environment = serde_json::to_value(&prepared.environment)?;
    manifest.versions = prepared.environment.software.versions.clone();
    let versions = prepared.imports.iter().map(|p| &p.imported.graph.versions);
    manifest
        .versions
        .extend(versions.flatten().map(|(k, v)| (k.clone(), v.clone())));
    let imports = prepared.imports.iter().map(|p| &p.imported);
    manifest.import_checks = imports
        .map(|i| (import_key(i), i.graph.check.to_string()))
        .collect();
    Ok(manifest)
}

/// The state before the first kernel is built.
pub(crate) struct Preparation {
    start: Duration,
    stop: Stop,
    pub environment: Environment,
    pub imports: Vec<Prepared>,
}

impl Preparation {
    pub fn new(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<Preparation> {
        let start = session.clock.now();
        let plan = &planned.plan;
        // Where kernels run elsewhere, this machine compiles alone.
        let here = match plan.remote {
            Some(_) => Purpose::Compile,
            None => purpose(plan),
        };
        plan.target.device.check_machine(&plan.target, here)?;
        for warning in &planned.warnings {
            session.progress.note(&warning.to_string());
        }
        let mut environment = session.environment_of(plan)?;
        match session.calibrations.load(&environment.env_hash) {
            Ok(calibration) => environment.calibration = calibration,
            // The times are as good without it.
            Err(error) => session
                .progress
                .note(&format!("warning: not recorded in this run: {error}")),
        }
        let imports = prepare(planned, &environment, session)?;
        Ok(Preparation {
            start,
            // Importing is not measuring: the budget is for the points.
            stop: Stop::new(
                session.interrupt.clone(),
                planned.plan.time_budget_ns,
                session.clock.as_ref(),
            ),
            environment,
            imports,
        })
    }
}

/// Measures the points that have no row in `rows` yet.
fn measure(
    planned: &Planned,
    session: &mut Session<'_>,
    prepared: Preparation,
    mut writer: RunWriter,
    mut manifest: RunManifest,
    rows: &[Row],
) -> anyhow::Result<RunReport> {
    let plan = &planned.plan;
    let mut report = report_before(planned, &prepared);
    let Preparation {
        start,
        stop,
        environment,
        imports,
    } = prepared;
    let mut stages = Stages::default();
    stages.add("import", session.clock.now().saturating_sub(start));
    let planned_points = imports.iter().map(|p| p.drawing.proposer.points()).sum();
    let decides = |p: &Prepared| p.drawing.proposer.decides_by_outcomes();
    let keeping = match imports.iter().any(decides) {
        true => Keeping::Rows,
        false => Keeping::Names,
    };
    let mut ledger = Ledger::new(
        &mut writer,
        &mut manifest,
        &plan.out,
        rows,
        planned_points,
        keeping,
    );
    ledger.sync()?;
    session.progress.begin(
        match simulation(plan, &environment) {
            Some(_) => "simulate",
            None => "measure",
        },
        planned_points.saturating_sub(rows.len() as u64),
    );
    let mut complete = true;
    let cores = environment.state.cores_usable.max(1);
    let mut load = Load::default();
    for mut import in imports {
        let times_in_model = match stop.due(session.clock.as_ref()) {
            None => {
                let begun = session.clock.now();
                let times = import.whole_model(plan, session)?;
                stages.add("whole_model", session.clock.now().saturating_sub(begun));
                times
            }
            Some(_) => whole_model::WholeModelTimes::default(),
        };
        let facts = row::RunFacts::new(plan, &import.imported, &environment, &import.target);
        let mut tally = Tally::new(
            &import.imported.graph,
            facts.import_key(),
            one_of_several_architectures(plan, &import.target),
            conditions(plan).into_iter(),
        );
        let own = rows.iter().filter(|row| facts.includes(row));
        own.for_each(|row| tally.add(row));
        complete &= stop.due(session.clock.as_ref()).is_none()
            && Collector {
                plan,
                graph: &import.imported.graph,
                facts: &facts,
                times_in_model: &times_in_model,
                ledger: &mut ledger,
                stages: &mut stages,
                tally: &mut tally,
                progress: session.progress,
                stop: &stop,
                clock: session.clock.as_ref(),
                cores,
            }
            .collect(&mut import.runner, import.drawing.proposer.as_mut())?;
        report.warnings.extend(import.drawing.proposer.warnings());
        if let Some(policy) = &plan.tuning
            && !session.interrupt.requested()
        {
            let begun = session.clock.now();
            let kept = ledger.rows(facts.import_key());
            let rows: Vec<&Row> = kept.iter().map(|row| &**row).collect();
            let tuned = after_tuning(plan, policy, &mut import, &rows, session)?;
            report.tuned.push(tuned);
            stages.add("tuned", session.clock.now().saturating_sub(begun));
        }
        load.add(tally.load);
        let operators = tally.into_reports();
        let of_import = warnings::of_import(&operators, &times_in_model.reports, cores);
        report.warnings.extend(of_import);
        let slowdowns = times_in_model.slowdowns();
        let of_models = slowdowns.filter_map(|(at, slowdown)| warnings::of_slowdown(at, slowdown));
        report.warnings.extend(of_models);
        report.whole_model.extend(times_in_model.reports);
        report.operators.extend(operators);
    }
    session.progress.end();
    if complete {
        // A proposer that uses outcomes may end before the maximum number of points.
        ledger.end_plan();
    }
    report.left = ledger.left();
    if report.left == 0 {
        report.state = RunState::Finished;
    }
    writer.finish()?;
    if plan.tuning.as_ref().is_some_and(|policy| policy.partial) {
        curves::write_curves(&plan.out, &report.tuned)?;
    }
    if plan.tuning.is_some() || plan.sweep.is_some() {
        let rows = opdata::read_rows(&plan.out)?;
        report.warnings.extend(feed_store(plan, &rows));
    }
    stages.add_to(&mut manifest.stages_ns);
    manifest.end(report.state);
    manifest.save(&plan.out)?;
    let load = warnings::of_load(load.disturbed, load.measured);
    report.warnings.extend(load);
    let wall = session.clock.now().saturating_sub(start);
    session.progress.detail(&stages.line(wall));
    report.wall_ns = wall.as_nanos() as u64;
    Ok(report)
}

/// The last steps of a tuning run for an import, after all candidates are measured.
fn after_tuning(
    plan: &Plan,
    policy: &TuningPolicy,
    import: &mut Prepared,
    rows: &[&Row],
    session: &mut Session<'_>,
) -> anyhow::Result<TunedReport> {
    let Prepared {
        imported,
        target,
        runner: own,
        jobs,
        drawing,
        ..
    } = import;
    let graph = &imported.graph;
    let mut said = Vec::new();
    let trials = drawing.proposer.trials();
    let mut tuned = tuned::finish(plan, graph, rows, &trials, own, &mut |text| {
        said.push(text.to_owned());
    });
    own.rest();
    if policy.compare {
        let another = &mut || runner(plan, imported, target, *jobs, session, &plan.out);
        let compared = compare_models(
            plan,
            graph,
            *jobs,
            &tuned.operators,
            &model_conditions(plan),
            another,
            &mut |text| {
                said.push(text.to_owned());
            },
        );
        match compared {
            Ok(comparisons) => tuned.comparisons = comparisons,
            Err(error) => said.push(format!("the whole models were not compared: {error:#}")),
        }
    }
    for text in said {
        session.progress.note(&text);
    }
    if !policy.partial {
        tuned.partial.clear();
    }
    Ok(tuned)
}

/// Adds what a sweep or tuning found to the store; what cannot be added is a warning, for the rows are there.
fn feed_store(plan: &Plan, rows: &[Row]) -> Option<String> {
    let path = plan.store.as_deref()?;
    let source = plan.run_id.as_str();
    let added = Store::open(path).and_then(|mut store| store.add_rows(rows, source));
    added.err().map(|error| error.to_string())
}

/// The architecture of one of a plan's targets, where there are several.
fn one_of_several_architectures<'a>(plan: &Plan, target: &'a serde_json::Value) -> Option<&'a str> {
    target["arch"]
        .as_str()
        .filter(|_| !plan.more_targets.is_empty())
}

/// The name of the hardware that the points run on.
fn hardware(plan: &Plan, environment: &Environment) -> String {
    let device = plan.target.device;
    match &plan.remote {
        // The fingerprint is that of the machine's processor, not of its accelerators.
        Some(address) if !device.has_host_threads() && simulation(plan, environment).is_none() => {
            format!(
                "the {} device of {} at {}:{}",
                device.name(),
                address.key,
                address.host,
                address.port
            )
        }
        _ => device.hardware(environment),
    }
}

/// How the plan's points are simulated, if they are not measured.
fn simulation(plan: &Plan, environment: &Environment) -> Option<String> {
    let device = plan.target.device;
    device.simulation(&plan.target.dictionary(environment))
}

/// The report of a run before its first point.
fn report_before(planned: &Planned, prepared: &Preparation) -> RunReport {
    let plan = &planned.plan;
    let environment = &prepared.environment;
    let mut warnings: Vec<String> = planned.warnings.iter().map(ToString::to_string).collect();
    if !plan.compile_only && plan.remote.is_none() && simulation(plan, environment).is_none() {
        warnings.extend(warnings::of_environment(environment));
    }
    let simulation = simulation(plan, environment);
    warnings.extend(simulation.clone());
    if environment.machine.emulated {
        let name = environment.machine.cpu.name.as_deref();
        warnings.push(format!(
            "the times are those of an emulator ({}), not of a board",
            name.unwrap_or("unknown")
        ));
    }
    let first = prepared.imports.first();
    let checks: BTreeSet<String> = prepared
        .imports
        .iter()
        .map(|p| p.imported.graph.check.to_string())
        .collect();
    let device = plan.target.device;
    let described = plan
        .targets()
        .map(|t| device.describe_target(&t.dictionary(environment)));
    let targets: Vec<String> = described.collect();
    RunReport {
        out: plan.out.clone(),
        run_id: plan.run_id.clone(),
        state: RunState::Interrupted,
        model: plan.model.clone(),
        batch: first.map_or(1, |p| p.imported.graph.batch),
        target: targets.join(", "),
        cpu: hardware(plan, environment),
        timed: match simulation {
            Some(_) => opdata::Status::Simulated,
            None => opdata::Status::Measured,
        },
        operators: Vec::new(),
        whole_model: Vec::new(),
        counters: plan
            .counters
            .iter()
            .filter(|text| *text != "auto")
            .cloned()
            .collect(),
        import_checks: checks.into_iter().collect(),
        tuned: Vec::new(),
        left: 0,
        warnings,
        wall_ns: 0,
    }
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
