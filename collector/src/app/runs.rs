//! The commands that work on finished runs: `compare`, `merge`, `nightly`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use opengine::interrupt::Interrupt;
use opreport::progress::for_stderr;
use opreport::{Exit, View};

use super::{AppError, run_folder, show, until_interrupted};
use crate::compare::{CompareRequest, Verdict, compare, rank};
use crate::merge::{MergeRequest, merge};
use crate::nightly::jobs::ProcessRunner;
use crate::nightly::{self, NightlyError, NightlyPlan, NightlyRequest};
use crate::plan::Planned;
use crate::preview;
use crate::render::{
    candidates_text, compare_markdown, compare_text, merge_text, nightly_markdown,
    nightly_plan_text, nightly_summary, ranking_markdown, ranking_text, report_html, report_json,
    report_markdown,
};
use crate::run_report::{self, ReportRequest};

/// Compares two sets of rows; a regression has an exit code of its own.
pub(super) fn compare_runs(request: &CompareRequest, view: View) -> Result<Exit, AppError> {
    if let Some(path) = &request.export_markdown {
        opdata::check_output(path).context("--export-markdown")?;
    }
    let base = run_folder(&request.base)?;
    let others = request.others.iter().map(|word| run_folder(word));
    let others = others.collect::<opdata::Result<Vec<_>>>()?;
    let [other] = &others[..] else {
        return rank_runs([vec![base], others].concat(), request, view);
    };
    let (a, b) = ([base], std::slice::from_ref(other));
    let comparison = compare(&a, b, request.options)?;
    if let Some(path) = &request.export_markdown {
        opdata::write_atomically(path, compare_markdown(&comparison).as_bytes())?;
    }
    show(
        view,
        || &comparison,
        |style| compare_text(&comparison, style),
    )?;
    Ok(if comparison.count(Verdict::Regression) > 0 {
        Exit::Regression
    } else {
        Exit::Done
    })
}

/// Ranks three or more runs, the first being the base.
fn rank_runs(runs: Vec<PathBuf>, request: &CompareRequest, view: View) -> Result<Exit, AppError> {
    let ranking = rank(&runs, request.options)?;
    if let Some(path) = &request.export_markdown {
        opdata::write_atomically(path, ranking_markdown(&ranking).as_bytes())?;
    }
    show(view, || &ranking, |style| ranking_text(&ranking, style))?;
    Ok(match ranking.has_regression() {
        true => Exit::Regression,
        false => Exit::Done,
    })
}

/// Writes the report of a run in Markdown.
pub(super) fn export_markdown(path: &Path, run: &Path) -> anyhow::Result<()> {
    let report = run_report::read(&ReportRequest {
        run: run.to_owned(),
        later: None,
        out: None,
    })?;
    Ok(opdata::write_atomically(
        path,
        report_markdown(&report).as_bytes(),
    )?)
}

/// Writes the points of a plan as rows without a time.
pub(super) fn list_candidates(
    planned: &Planned,
    folder: &Path,
    view: View,
) -> Result<Exit, AppError> {
    let (listed, _) = until_interrupted(view, |session| {
        preview::list_candidates(planned, folder, session)
    })?;
    show(view, || &listed, |_| candidates_text(&listed))
}

/// Reports on a run: two files, and on standard output their paths and a summary.
pub(super) fn report(request: &ReportRequest, view: View) -> Result<Exit, AppError> {
    let later = request.later.as_deref().map(run_folder).transpose()?;
    let request = &ReportRequest {
        run: run_folder(&request.run)?,
        later,
        out: request.out.clone(),
    };
    let report = run_report::read(request)?;
    let folder = request.out.as_ref().or(request.later.as_ref());
    let folder = folder.unwrap_or(&request.run);
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let files = [
        ("report.html", report_html(&report)),
        ("report.md", report_markdown(&report)),
    ];
    let mut written = String::new();
    for (name, text) in files {
        let path = folder.join(name);
        opdata::write_atomically(&path, text.as_bytes())?;
        written.push_str(&format!("{}\n", path.display()));
    }
    show(view, || report_json(&report), |_| written)
}

/// Joins shards into one run.
pub(super) fn merge_shards(request: &MergeRequest, view: View) -> Result<Exit, AppError> {
    let shards = request.shards.iter().map(|word| run_folder(word));
    let request = MergeRequest {
        shards: shards.collect::<opdata::Result<_>>()?,
        ..request.clone()
    };
    let merged = merge(&request, std::env::args().collect())?;
    show(view, || &merged, |style| merge_text(&merged, style))
}

/// Runs the jobs of a nightly configuration, or shows what it would do.
pub(super) fn nightly(request: &NightlyRequest, view: View) -> Result<Exit, AppError> {
    let plan = NightlyPlan::read(&request.config, &request.date).map_err(|error| AppError {
        exit: Exit::Usage,
        source: NightlyError::Config(error).into(),
    })?;
    if request.dry_run {
        let estimate = nightly::estimate(plan)?;
        return show(
            view,
            || &estimate,
            |style| nightly_plan_text(&estimate, style),
        );
    }
    let mut runner = ProcessRunner {
        program: std::env::current_exe().context("the path of this program")?,
    };
    let mut progress = for_stderr(view.verbosity);
    let report = nightly::run(
        &plan,
        &mut nightly::Session {
            runner: &mut runner,
            interrupt: Interrupt::install()?,
            progress: progress.as_mut(),
            summary: nightly_summary,
        },
    )?;
    show(view, || &report, |_| nightly_markdown(&report))?;
    Ok(report.exit())
}
