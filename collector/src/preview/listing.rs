//! The points of a plan as rows without a time, for a program that chooses from them.
//!
//! They are in a folder like a run's: the rows, all `skipped`, and `run.json` with plan and machine. A row has all that is
//! known of its point before anything is compiled.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use opdata::{RunState, RunWriter, Status};
use opengine::runner::Failure;
use serde::Serialize;

use crate::plan::{Plan, Planned};
use crate::run::{PointFacts, Preparation, RunFacts, Session, manifest};

/// The files written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Their folder.
    pub folder: PathBuf,
    /// Number of points, one row each.
    pub points: u64,
    /// Number of operators in them.
    pub operators: u64,
}

/// Writes the points of a plan to `folder`, which must not exist yet; measures nothing.
///
/// # Errors
/// Fails as [`run`](crate::run::run) does before the first kernel.
pub fn list_candidates(
    planned: &Planned,
    folder: &Path,
    session: &mut Session<'_>,
) -> anyhow::Result<Listed> {
    let plan = &planned.plan;
    // Workers that describe spaces write a log, which is of no use here.
    let scratch = crate::run::scratch()?;
    let elsewhere = Planned {
        plan: Plan {
            out: scratch.path().to_owned(),
            ..plan.clone()
        },
        ..planned.clone()
    };
    let prepared = Preparation::new(&elsewhere, session)?;
    let mut manifest = manifest(planned, session, &prepared)?;
    let mut writer = RunWriter::create(folder)?;
    let mut operators = HashSet::new();
    for import in &prepared.imports {
        let graph = &import.imported.graph;
        let facts = RunFacts::new(
            plan,
            &import.imported,
            &prepared.environment,
            &import.target,
        );
        for candidate in import.drawing.proposer.fixed_candidates() {
            let operator = &graph.operators[candidate.operator];
            operators.insert((facts.import_key().to_owned(), candidate.operator));
            for at in &candidate.conditions {
                let point = PointFacts {
                    operator,
                    schedule_spec: &candidate.schedule_spec,
                    conditions: at,
                    built: None,
                    in_model_ns: None,
                    doubtful: false,
                };
                let unmeasured = Failure {
                    status: Status::Skipped,
                    reason: "a candidate: planned, not measured".to_owned(),
                };
                let row = facts.row(writer.next_ordinal(), &point, Err(unmeasured));
                writer.append(&row)?;
                manifest.counts.add(&row);
            }
        }
    }
    let points = manifest.counts.rows();
    manifest.counts.planned = points;
    manifest.end(RunState::Finished);
    writer.finish()?;
    manifest.save(folder)?;
    Ok(Listed {
        folder: folder.to_owned(),
        points,
        operators: operators.len() as u64,
    })
}
