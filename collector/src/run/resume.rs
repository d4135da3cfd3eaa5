//! Going on with a run that was stopped, killed, or ran out of disk.
//!
//! The plan in `run.json` says which points there are, the rows say which are done. The others are measured as if the
//! run had never stopped. A row that was torn in the writing is cut off and its point measured again.

use std::path::{Path, PathBuf};

use anyhow::bail;
use opdata::contract::plan::hash_of_json;
use opdata::{RunManifest, RunState, RunWriter, Status};
use opreport::units;

use super::{Preparation, Session, measure};
use crate::plan::{Plan, Planned};
use crate::report::RunReport;

/// How points end that another attempt may change; an unsupported point stays so.
const FAILED: [Status; 4] = [
    Status::CompileFailed,
    Status::WrongResult,
    Status::TimedOut,
    Status::Crashed,
];

/// The run to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeRequest {
    /// Its folder.
    pub folder: PathBuf,
    /// Whether points that failed are measured again.
    pub retry_failed: bool,
    /// Time budget, in nanoseconds; unlimited if missing.
    pub time_budget_ns: Option<u64>,
    /// The Python that runs the importer; `None` for the project's own.
    pub python: Option<PathBuf>,
}

/// The result of continuing a run.
#[derive(Debug)]
pub enum Resumed {
    /// The run was finished already.
    Nothing {
        /// Its folder.
        folder: PathBuf,
        /// Its rows.
        rows: u64,
    },
    /// The run was continued.
    Report {
        /// The report of the whole run.
        report: Box<RunReport>,
        /// Share of points that its plan allows to fail.
        max_failed_share: f64,
    },
}

/// Goes on with a run that ended early.
///
/// # Errors
/// Fails if the folder holds no run of this version, its rows are damaged, if another process continues it, or as
/// [`run`](super::run) does.
pub fn resume(request: &ResumeRequest, session: &mut Session<'_>) -> anyhow::Result<Resumed> {
    let folder = &request.folder;
    let mut manifest = RunManifest::load(folder)?;
    let plan = plan_of(&manifest, folder)?;
    let failed: u64 = FAILED
        .iter()
        .map(|status| manifest.counts.of(*status))
        .sum();
    if manifest.state == RunState::Finished && (failed == 0 || !request.retry_failed) {
        return Ok(Resumed::Nothing {
            folder: folder.to_owned(),
            rows: manifest.counts.rows(),
        });
    }
    check_unchanged(&manifest, &plan, folder)?;
    let planned = Planned {
        plan: Plan {
            // The folder may have been moved since.
            out: folder.to_owned(),
            time_budget_ns: request.time_budget_ns,
            ..plan
        },
        warnings: Vec::new(),
        python: request.python.clone(),
        label: manifest.label.clone(),
        export_markdown: None,
    };
    let mut reopened = RunWriter::reopen(folder)?;
    if reopened.torn_bytes > 0 {
        session.progress.note(&format!(
            "cut off {} bytes of a row that was being written when the run ended",
            reopened.torn_bytes
        ));
    }
    let prepared = Preparation::new(&planned, session)?;
    let environment = serde_json::to_value(&prepared.environment)?;
    let machine = |e: &serde_json::Value| e["env_hash"].as_str().map(str::to_owned);
    if machine(&environment) != machine(&manifest.environment) {
        bail!(
            "{}: the run began on another machine (or after other hardware or kernel settings); rows of unlike machines do not belong into one run: start a new run here with the same sweep and --shard, or go on there",
            folder.display()
        );
    }
    session.progress.note(&format!(
        "continuing after {} rows of {}",
        reopened.rows.len(),
        folder.display()
    ));
    manifest.state = RunState::Running;
    manifest.ended = None;
    if request.retry_failed {
        // Saved before the rows move, so that a run that ends here counts as unfinished.
        manifest.save(folder)?;
        let failed = reopened.set_aside(|row| FAILED.contains(&row.status))?;
        session.progress.note(&format!(
            "measuring {} again; their rows are kept in {}",
            units::plural(failed, "failed point"),
            folder.join(opdata::ROWS_SET_ASIDE).display()
        ));
    }
    let report = measure(
        &planned,
        session,
        prepared,
        reopened.writer,
        manifest,
        &reopened.rows,
    )?;
    Ok(Resumed::Report {
        report: Box::new(report),
        max_failed_share: planned.plan.max_failed_share,
    })
}

/// Refuses a plan that differs from the one that the rows were measured by. Runs from before the hash was recorded have
/// none.
fn check_unchanged(manifest: &RunManifest, plan: &Plan, folder: &Path) -> anyhow::Result<()> {
    let Some(recorded) = &manifest.plan_hash else {
        return Ok(());
    };
    if hash_of_json(manifest.plan.clone()) == *recorded && plan.shard == manifest.shard {
        return Ok(());
    }
    bail!(
        "{}: the plan in run.json was changed since the run began, and its rows are of the plan before; undo the change to go on, or measure the changed plan in a new run",
        folder.display()
    )
}

/// The plan of a run.
///
/// # Errors
/// Fails if it is of another version of the program, or damaged.
pub(crate) fn plan_of(manifest: &RunManifest, folder: &Path) -> anyhow::Result<Plan> {
    Plan::read(manifest).map_err(|error| anyhow::anyhow!("{}: {error}", folder.display()))
}
