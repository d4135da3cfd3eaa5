//! `opcollect pairs`, `cotune` and `run-graph`.

use opreport::output::show;
use opreport::{Exit, View};

use super::{AppError, End, require_free, until_interrupted, with_session};
use crate::cli::side_by_side::PairsRequest;
use crate::render::{
    cotune_json, cotune_text, graph_json, graph_text, pair_replay_json, pair_replay_text,
    pairs_text,
};
use crate::run::Session;
use crate::side_by_side::cotune::{CotuneRequest, cotune};
use crate::side_by_side::graph::{RunGraphRequest, run_graph};
use crate::side_by_side::pairs::{measure, plan_of, replay};

/// Measures groups of operators, continues such a run, or measures one group again.
pub(super) fn pairs(request: &PairsRequest, view: View) -> Result<Exit, AppError> {
    let (plan, python) = match request {
        PairsRequest::Measure(plan, python) => {
            require_free(&plan.plan.out)?;
            (plan.as_ref().clone(), python)
        }
        PairsRequest::Resume(folder, python) => (plan_of(folder)?, python),
        PairsRequest::Replay { run, group, python } => {
            let replayed = with_session(view.verbosity, |session| {
                Ok(replay(run, group, python.as_deref(), session)?)
            })?;
            show(
                view,
                || pair_replay_json(&replayed),
                |style| pair_replay_text(&replayed, style),
            )?;
            return Ok(match replayed.is_like_before() {
                true => Exit::Done,
                false => Exit::Regression,
            });
        }
    };
    let (report, end) =
        until_interrupted(view, |session| measure(&plan, python.as_deref(), session))?;
    show(view, || &report, |style| pairs_text(&report, style))?;
    Ok(match end {
        End::Asked => Exit::Interrupted,
        End::Own if report.has_failures() => Exit::PointsFailed,
        End::Own => Exit::Done,
    })
}

/// Tunes operators together.
///
/// # Errors
/// As for [`cotune`].
pub(super) fn cotune_command(
    request: &CotuneRequest,
    session: &mut Session<'_>,
    view: View,
) -> anyhow::Result<Exit> {
    let report = cotune(request, session)?;
    show(
        view,
        || cotune_json(&report),
        |style| cotune_text(&report, style),
    )?;
    Ok(Exit::Done)
}

/// Runs models by a schedule.
///
/// # Errors
/// Fails as [`run_graph`] does, or if the file cannot be written.
pub(super) fn run_graph_command(
    request: &RunGraphRequest,
    session: &mut Session<'_>,
    view: View,
) -> anyhow::Result<Exit> {
    if let Some(path) = &request.how.out {
        opdata::check_output(path)?;
    }
    let report = run_graph(request, session)?;
    if let Some(path) = &request.how.out {
        opdata::write_atomically(path, format!("{:#}\n", graph_json(&report)).as_bytes())?;
    }
    show(
        view,
        || graph_json(&report),
        |style| graph_text(&report, style),
    )?;
    Ok(match report.ways.iter().all(|way| way.same_bits) {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
