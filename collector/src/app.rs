//! Performs the action of the command line: one function for each action, each returning an exit code.
//!
//! Data goes to standard output, progress and warnings to standard error. Errors carry the exit code of the program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use opdata::RunWriter;
use opengine::interrupt::Interrupt;
use opengine::measure::counters::{SIMULATED_CHILD, SOURCES, serve_kernel};
use opengine::protocol::Contents;
use opengine::serve::{SESSION, serve_session};
use opengine::worker::serve;
use opinstall::Home;
use opmodels::{ImportError, Registry};
use opreport::output::{complain, with_causes};
use opreport::progress::for_stderr;
use opreport::{Exit, Misuse, Style, Verbosity, View};
use serde::Serialize;

use crate::cli::store::StoreCommand;
use crate::cli::{Action, Invocation, ListRequest, completions, man_page};
use crate::plan::Planned;
use crate::preview::estimate;
use crate::render::{
    Listing, plan_json, plan_text, replay_json, replay_text, run_json, run_text, settings_text,
};
use crate::replay::{ReplayRequest, Verdict, replay};
use crate::report::RunReport;
use crate::run::{self, Importer as _, ResumeRequest, Resumed, Session};
use crate::run_list;
use crate::sweep::SweepFile;

mod doctor;
mod frameworks;
mod libtorch;
mod profile;
mod remote;
mod runs;
mod side_by_side;
mod store;
mod vta;

/// Why an action failed, and the exit code for it.
#[derive(Debug)]
pub struct AppError {
    /// The exit code.
    pub exit: Exit,
    /// The error with its place and its remedy.
    pub source: anyhow::Error,
}

impl AppError {
    /// Prints the error with its causes, and returns the exit code to end with.
    pub fn complain(&self) -> Exit {
        complain(&with_causes(self.source.as_ref()));
        self.exit
    }
}

impl<E: Into<anyhow::Error>> From<E> for AppError {
    fn from(error: E) -> Self {
        let source: anyhow::Error = error.into();
        let exit = match source.downcast_ref::<ImportError>() {
            Some(ImportError::Interrupted) => Exit::Interrupted,
            Some(error) if error.is_usage() => Exit::Usage,
            _ if source.is::<Misuse>() => Exit::Usage,
            _ if matches!(source.downcast_ref(), Some(opdata::Error::NoSuchRun { .. })) => {
                Exit::Usage
            }
            _ => Exit::Failed,
        };
        AppError { exit, source }
    }
}

/// Carries out an action.
///
/// # Errors
/// Fails if the action cannot be performed. A run with failed points is no error, but has an exit code of its own.
pub fn perform(invocation: Invocation) -> Result<Exit, AppError> {
    let view = invocation.view;
    match invocation.action {
        Action::Run(planned) => main_job(&planned, view),
        Action::DryRun(planned) => dry_run(&planned, view),
        Action::ListCandidates(planned, folder) => runs::list_candidates(&planned, &folder, view),
        Action::Resume(request) => go_on(&request, view),
        Action::Replay(request) => replay_row(&request, view),
        Action::PrintConfig(settings) => {
            show(view, || &settings, |style| settings_text(&settings, style))
        }
        Action::List(request) => list(request, view),
        Action::Doctor(request) => doctor::diagnose(&request, view),
        Action::Compare(request) => runs::compare_runs(&request, view),
        Action::CompareFrameworks(request) => frameworks::run(&request, view),
        Action::Report(request) => runs::report(&request, view),
        Action::Merge(request) => runs::merge_shards(&request, view),
        Action::Nightly(request) => runs::nightly(&request, view),
        Action::Profile(request) => profile::run(&request, view),
        Action::ProfileTorch(request) => libtorch::run(&request, view),
        Action::Tpu(arguments) => Ok(become_tpu_program(&arguments)?),
        Action::Vta(command) => Ok(vta::perform(command, view)?),
        Action::Best(args) => Ok(store::best(args, view)?),
        Action::Store(command) => {
            // No other command on a store needs to know this machine.
            let here = match &command {
                StoreCommand::Import { here: true, .. } => {
                    let hash = |session: &mut Session<'_>| Ok(session.environment().env_hash);
                    Some(with_session(view.verbosity, hash)?)
                }
                _ => None,
            };
            Ok(store::perform(command, here.as_deref(), view)?)
        }
        Action::Apply(request) => with_session(view.verbosity, |session| {
            Ok(store::apply_best(&request, session, view)?)
        }),
        Action::Pairs(request) => side_by_side::pairs(&request, view),
        Action::Cotune(request) => with_session(view.verbosity, |session| {
            Ok(side_by_side::cotune_command(&request, session, view)?)
        }),
        Action::RunGraph(request) => with_session(view.verbosity, |session| {
            Ok(side_by_side::run_graph_command(&request, session, view)?)
        }),
        Action::Serve(request) => Ok(remote::serve(&request)?),
        Action::Completions(shell) => print(&completions(shell)),
        Action::Man => print(&man_page()?),
        Action::Worker(arguments) => {
            serve_parent(&arguments)?;
            Ok(Exit::Done)
        }
    }
}

/// Replaces this process by `opcollect-tpu`, which lies beside this program. Returns only if that fails.
fn become_tpu_program(arguments: &[OsString]) -> anyhow::Result<Exit> {
    let program = std::env::current_exe()?.with_file_name("opcollect-tpu");
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| {
        format!(
            "{} does not start; scripts/setup --program=opcollect-tpu builds it",
            program.display()
        )
    })
}

/// Serves a run as its child process. With a further argument it serves a client of `serve-device`, runs one kernel in a
/// simulator, or compiles for the worker of the named device.
fn serve_parent(arguments: &[OsString]) -> anyhow::Result<()> {
    match arguments {
        [] => serve(
            std::io::stdin().lock(),
            std::io::stdout(),
            Contents::of_environment(),
        ),
        [word] if word == SESSION => serve_session(),
        [word] if word == SIMULATED_CHILD => serve_kernel(std::io::stdin().lock()),
        [device, rest @ ..] => {
            let name = device.to_string_lossy();
            let device = opengine::device::named(&name);
            let device = device.with_context(|| format!("there is no device {name}"))?;
            device.serve_compiler(rest)
        }
    }
}

/// Refuses a folder that holds something already, or that cannot be written, before anything is imported.
fn require_free(out: &Path) -> anyhow::Result<()> {
    let is_new = !out.exists();
    std::fs::create_dir_all(out)
        .with_context(|| format!("--out {}: cannot make the folder", out.display()))?;
    RunWriter::remove_unbegun(out, &[run::WORKER_LOG])?;
    let first = std::fs::read_dir(out)
        .with_context(|| format!("--out {}", out.display()))?
        .next();
    if let Some(entry) = first {
        let name = entry?.file_name();
        return Err(Misuse(format!(
            "--out {}: the folder is not empty (it holds {}); name a new one, or go on with a run that was cut off by \
             `opcollect --resume {}`",
            out.display(),
            name.display(),
            out.display()
        ))
        .into());
    }
    let written = tempfile::NamedTempFile::new_in(out).map(drop);
    if is_new {
        // The run creates the folder when it begins.
        let _ = std::fs::remove_dir(out);
    }
    written.with_context(|| format!("--out {}: cannot write into the folder", out.display()))
}

fn main_job(planned: &Planned, view: View) -> Result<Exit, AppError> {
    if let Some(path) = &planned.export_markdown {
        opdata::check_output(path).context("--export-markdown")?;
    }
    require_free(&planned.plan.out)?;
    let (report, end) = until_interrupted(view, |session| run::run(planned, session))?;
    if let Some(path) = &planned.export_markdown
        && !report.counts().is_nothing()
    {
        runs::export_markdown(path, &planned.plan.out)?;
    }
    report_on(&report, planned.plan.max_failed_share, end, view)
}

fn go_on(request: &ResumeRequest, view: View) -> Result<Exit, AppError> {
    let request = ResumeRequest {
        folder: run_folder(&request.folder)?,
        ..request.clone()
    };
    let (resumed, end) = until_interrupted(view, |session| {
        let resumed = run::resume(&request, session)?;
        if let Resumed::Nothing { folder, rows } = &resumed {
            session.progress.note(&format!(
                "{} is finished: {rows} rows, none left to measure",
                folder.display()
            ));
        }
        Ok(resumed)
    })?;
    match resumed {
        Resumed::Report {
            report,
            max_failed_share,
        } => report_on(&report, max_failed_share, end, view),
        Resumed::Nothing { .. } => Ok(Exit::Done),
    }
}

/// The folder of a run that is named by its path, its id, its name or its age.
fn run_folder(word: &Path) -> opdata::Result<PathBuf> {
    opdata::named_run(word, Path::new(opdata::RUNS))
}

/// How a run's work ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing interrupted the run.
    Own,
    /// The user interrupted it.
    Asked,
}

/// Runs `work` in a session. An interrupt before there is a result is an error of its own.
fn until_interrupted<T>(
    view: View,
    work: impl FnOnce(&mut Session<'_>) -> anyhow::Result<T>,
) -> Result<(T, End), AppError> {
    with_session(view.verbosity, |session| {
        let result = work(session);
        match (result, session.interrupt.requested()) {
            (Err(_), true) => Err(interrupted_before_results()),
            (result, asked) => Ok((result?, if asked { End::Asked } else { End::Own })),
        }
    })
}

fn report_on(report: &RunReport, allowed: f64, end: End, view: View) -> Result<Exit, AppError> {
    show(view, || run_json(report), |style| run_text(report, style))?;
    Ok(if end == End::Asked {
        Exit::Interrupted
    } else if report.failed_share() > allowed || report.counts().is_nothing() {
        Exit::PointsFailed
    } else {
        Exit::Done
    })
}

/// Gives `work` what every measuring action needs: the installation, progress, and the state of Ctrl-C.
fn with_session<T>(
    verbosity: Verbosity,
    work: impl FnOnce(&mut Session<'_>) -> Result<T, AppError>,
) -> Result<T, AppError> {
    let home = Home::find()?;
    let mut progress = for_stderr(verbosity);
    let command_line = std::env::args().collect();
    let interrupt = Interrupt::install()?;
    work(&mut Session::new(
        &home,
        command_line,
        interrupt,
        progress.as_mut(),
    )?)
}

fn replay_row(request: &ReplayRequest, view: View) -> Result<Exit, AppError> {
    let run = request.run.as_deref().map(run_folder).transpose()?;
    let request = ReplayRequest {
        run,
        ..request.clone()
    };
    let replayed = with_session(view.verbosity, |session| Ok(replay(&request, session)?))?;
    show(
        view,
        || replay_json(&replayed),
        |style| replay_text(&replayed, style),
    )?;
    Ok(match replayed.verdict {
        Verdict::Inside => Exit::Done,
        Verdict::Slower | Verdict::Faster => Exit::Regression,
    })
}

fn interrupted_before_results() -> AppError {
    AppError {
        exit: Exit::Interrupted,
        source: anyhow::anyhow!("interrupted before there were results"),
    }
}

fn dry_run(planned: &Planned, view: View) -> Result<Exit, AppError> {
    let estimate = with_session(Verbosity::Quiet, |session| Ok(estimate(planned, session)?))?;
    show(
        view,
        || plan_json(&planned.plan, Some(&estimate)),
        |style| plan_text(&planned.plan, Some(&estimate), style),
    )
}

fn list(request: ListRequest, view: View) -> Result<Exit, AppError> {
    match request {
        ListRequest::Models => {
            let registry = Registry::load(&Home::find()?.registry())?;
            show_list(&Listing::Models(&registry.models), view)
        }
        ListRequest::Targets => show_list(&Listing::Targets, view),
        ListRequest::Sweeps => {
            let folder = Home::find()?.sweeps();
            let sweeps = SweepFile::names(&folder)
                .iter()
                .map(|name| SweepFile::find(name, &folder))
                .collect::<Result<Vec<_>, _>>()?;
            show_list(&Listing::Sweeps(&sweeps), view)
        }
        ListRequest::Counters => {
            let surveys: Vec<_> = SOURCES.iter().map(|kind| (*kind, kind.survey())).collect();
            show_list(&Listing::Counters(&surveys), view)
        }
        ListRequest::Tuners => show_list(&Listing::Tuners, view),
        ListRequest::Knobs(planned) => {
            let knobs = with_session(view.verbosity, |session| {
                Ok(crate::preview::knobs(&planned, session)?)
            })?;
            show_list(&Listing::Knobs(&knobs), view)
        }
        ListRequest::SimpleOperators => {
            show_list(&Listing::SimpleOperators(opmodels::simple::OPERATORS), view)
        }
        ListRequest::Operators(model, python) => {
            let imported = Home::find()?.import(&model, python.as_deref(), &mut |_| {})?;
            show_list(&Listing::Operators(&imported.graph), view)
        }
        ListRequest::OperatorIr(model, python, name) => {
            let imported = Home::find()?.import(&model, python.as_deref(), &mut |_| {})?;
            let operators = crate::operator_ir::read(&imported, name.as_deref())?;
            show_list(&Listing::Ir(&operators), view)
        }
        ListRequest::Runs(folder, tag) => {
            let runs = run_list::list(&folder, tag.as_deref())?;
            show_list(&Listing::Runs(&runs), view)
        }
        ListRequest::Devices(host, port) => Ok(remote::list(&host, port, view)?),
        ListRequest::Patterns => {
            let forms =
                crate::patterns::expand(&Home::find()?, None, for_stderr(view.verbosity).as_mut())?;
            show_list(&Listing::Patterns(&forms), view)
        }
    }
}

fn show_list(listing: &Listing<'_>, view: View) -> Result<Exit, AppError> {
    show(view, || listing.json(), |style| listing.text(style))
}

/// Prints data in the requested form.
fn show<T: Serialize>(
    view: View,
    object: impl FnOnce() -> T,
    text: impl FnOnce(Style) -> String,
) -> Result<Exit, AppError> {
    opreport::output::show(view, object, text)?;
    Ok(Exit::Done)
}

fn print(data: &[u8]) -> Result<Exit, AppError> {
    opreport::output::print(data)?;
    Ok(Exit::Done)
}
