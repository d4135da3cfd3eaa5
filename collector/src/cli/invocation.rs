//! Arguments, environment and file → what to do. All inputs come in as data, so tests need no
//! process of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use opengine::calibrate::usual_threads;
use opengine::device::DeviceRef;
use opengine::measure::counters::request::CounterRequest;
use opmodels::ImportRequest;
use opreport::View;

use super::CliError;
use super::args::{Cli, Command, ListWhat, OpsArgs, command};
use super::compare::{FIRST, FRAMEWORK};
use super::profile::{Framework, ProfileArgs};
use crate::apply::ApplyRequest;
use crate::compare::CompareRequest;
use crate::config::{ConfigFile, Layers, Origin, SETTINGS, Settings, SweepLayer};
use crate::doctor::{CalibrationRequest, DoctorRequest};
use crate::frameworks::FrameworksRequest;
use crate::merge::MergeRequest;
use crate::nightly::NightlyRequest;
use crate::plan::{HostFacts, Planned};
use crate::profile::ProfileRequest;
use crate::profile::libtorch::TorchRequest;
use crate::replay::ReplayRequest;
use crate::run::ResumeRequest;
use crate::run_report::ReportRequest;
use crate::sweep::{Sweep, SweepFile};
use opengine::serve::ServeRequest;

/// Variable that names the configuration file when `--config` does not.
const CONFIG_VARIABLE: &str = "OPCOLLECT_CONFIG";

/// The inputs of a process: its arguments (program first), its environment, its machine.
#[derive(Debug, Clone)]
pub struct Process {
    /// Arguments, the program's name first.
    pub args: Vec<OsString>,
    /// Environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Cores and time.
    pub host: HostFacts,
    /// Folder of the sweeps that come with the program.
    pub sweeps: PathBuf,
}

/// The action, and the form of its output.
#[derive(Debug, PartialEq)]
pub struct Invocation {
    /// How results and progress are shown.
    pub view: View,
    /// The action.
    pub action: Action,
}

/// The actions.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// The main job.
    Run(Box<Planned>),
    /// Show what the main job would do.
    DryRun(Box<Planned>),
    /// Write the points that the main job would measure to a folder.
    ListCandidates(Box<Planned>, PathBuf),
    /// Go on with a run.
    Resume(ResumeRequest),
    /// Measure a row again.
    Replay(ReplayRequest),
    /// Show the settings.
    PrintConfig(Settings),
    /// List something.
    List(ListRequest),
    /// Check the machine.
    Doctor(DoctorRequest),
    /// Compare two sets of rows.
    Compare(CompareRequest),
    /// Run a model by several frameworks.
    CompareFrameworks(FrameworksRequest),
    /// Report on a run.
    Report(ReportRequest),
    /// Run the nightly jobs.
    Nightly(NightlyRequest),
    /// Join shards.
    Merge(MergeRequest),
    /// Profile a model.
    Profile(ProfileRequest),
    /// Profile a model in libtorch.
    ProfileTorch(TorchRequest),
    /// Let the program for dumps of TPUs act on these arguments.
    Tpu(Vec<OsString>),
    /// Work with the simulator of VTA.
    Vta(super::vta::VtaCommand),
    /// Show the store's best schedules.
    Best(super::store::BestArgs),
    /// Do something with the store.
    Store(super::store::StoreCommand),
    /// Compile a model with the store's schedules.
    Apply(ApplyRequest),
    /// Measure operators at the same time.
    Pairs(super::side_by_side::PairsRequest),
    /// Tune operators together.
    Cotune(crate::side_by_side::cotune::CotuneRequest),
    /// Run models by a schedule.
    RunGraph(crate::side_by_side::graph::RunGraphRequest),
    /// Offer this machine to others.
    Serve(ServeRequest),
    /// Print completions.
    Completions(clap_complete::Shell),
    /// Print the manual page.
    Man,
    /// Be a worker.
    Worker(Vec<OsString>),
}

/// The lists that can be printed.
#[derive(Debug, PartialEq)]
pub enum ListRequest {
    /// The registry's models.
    Models,
    /// The targets.
    Targets,
    /// The sweeps that come with the program.
    Sweeps,
    /// The sources of counters.
    Counters,
    /// The tuners.
    Tuners,
    /// The knobs of a model's operators.
    Knobs(Box<Planned>),
    /// The operators that `--modelsource simple` builds.
    SimpleOperators,
    /// The operators of a model, and the Python to import it with.
    Operators(Box<ImportRequest>, Option<PathBuf>),
    /// The code of a model's operators: of all of them, or those of one name.
    OperatorIr(Box<ImportRequest>, Option<PathBuf>, Option<String>),
    /// The steps of composite operators.
    Patterns,
    /// The servers of a tracker at this host and port.
    Devices(String, u16),
    /// The runs in a folder, or only those with a tag.
    Runs(PathBuf, Option<String>),
}

/// Reads a command line.
pub fn parse(process: Process) -> Result<Invocation, CliError> {
    let matches = command().try_get_matches_from(&process.args)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Some((name, _)) = matches.subcommand() {
        refuse_stray_flags(&matches, name)?;
    }
    let view = cli.view.view();
    let config = cli.view.config.clone();
    let settings = |matches: &ArgMatches| {
        merge(matches, config.clone(), &process).map(|merged| merged.settings)
    };
    let planned_and_settings = |matches: &ArgMatches| -> Result<_, CliError> {
        let merged = merge(matches, config.clone(), &process)?;
        let planned = Planned::from_settings(&merged.settings, merged.sweep, process.host)?;
        Ok((Box::new(planned), merged.settings))
    };
    let planned = |matches: &ArgMatches| planned_and_settings(matches).map(|both| both.0);
    let action = match cli.command {
        None if cli.job.run.print_config => Action::PrintConfig(settings(&matches)?),
        None => match cli.job.run.resume {
            Some(folder) => Action::Resume(resume(
                &matches,
                folder,
                cli.job.run.retry_failed,
                settings(&matches)?,
            )?),
            None if cli.job.run.dry_run => Action::DryRun(planned(&matches)?),
            None => Action::Run(planned(&matches)?),
        },
        Some(Command::Plan(args)) => {
            let planned = planned(innermost(&matches))?;
            match args.candidates {
                Some(folder) => Action::ListCandidates(planned, folder),
                None => Action::DryRun(planned),
            }
        }
        Some(Command::Replay(request)) => {
            CounterRequest::parse(&request.counters)?.check()?;
            Action::Replay(request)
        }
        Some(Command::List { what }) => Action::List(match what {
            ListWhat::Models => ListRequest::Models,
            ListWhat::Targets => ListRequest::Targets,
            ListWhat::Sweeps => ListRequest::Sweeps,
            ListWhat::Counters => ListRequest::Counters,
            ListWhat::Tuners => ListRequest::Tuners,
            ListWhat::Knobs(_) => ListRequest::Knobs(planned_and_settings(innermost(&matches))?.0),
            ListWhat::Patterns => ListRequest::Patterns,
            ListWhat::Devices(args) => ListRequest::Devices(args.host, args.port),
            ListWhat::Runs(args) => ListRequest::Runs(args.folder, args.tag),
            ListWhat::Ops(model) => operators(&model, &settings(innermost(&matches))?)?,
        }),
        Some(Command::Doctor(args)) => {
            let settings = settings(innermost(&matches))?;
            Action::Doctor(doctor(args.calibrate, &settings, process.host.cores)?)
        }
        Some(Command::Compare(args)) => match args.rows() {
            Some(request) => Action::Compare(request),
            None => {
                let (planned, settings) = planned_and_settings(innermost(&matches))?;
                let planned = with_one_thread_count(planned, &settings)?;
                let request = args.frameworks.request(planned, &settings);
                Action::CompareFrameworks(request.map_err(refused)?)
            }
        },
        Some(Command::Report(request)) => Action::Report(request),
        Some(Command::Merge(request)) => Action::Merge(request),
        Some(Command::Nightly(args)) => {
            Action::Nightly(args.request(config.clone(), process.host.now)?)
        }
        Some(Command::Profile(args)) => {
            let (planned, settings) = planned_and_settings(innermost(&matches))?;
            profile(args, planned, &settings)?
        }
        Some(Command::Tpu(_)) => Action::Tpu(process.args.iter().skip(1).cloned().collect()),
        Some(Command::Best(args)) => Action::Best(args),
        Some(Command::Store(args)) => Action::Store(args.command),
        Some(Command::Apply(args)) => {
            let (planned, settings) = planned_and_settings(innermost(&matches))?;
            let planned = with_one_thread_count(planned, &settings)?;
            Action::Apply(ApplyRequest {
                planned,
                options: args.options,
            })
        }
        Some(Command::Pairs(args)) => match args.goes_by_a_run() {
            true => match args.of_a_run() {
                Some(request) => Action::Pairs(request),
                None => return Err(refused("--replay GROUP needs --run DIR".to_owned()).into()),
            },
            false => {
                let planned = planned(innermost(&matches))?;
                Action::Pairs(args.request(planned))
            }
        },
        Some(Command::Cotune(args)) => {
            let planned = planned(innermost(&matches))?;
            Action::Cotune(args.request(planned))
        }
        Some(Command::RunGraph(args)) => {
            let planned = planned(innermost(&matches))?;
            Action::RunGraph(args.request(planned))
        }
        Some(Command::Vta(args)) => Action::Vta(args.command),
        Some(Command::ServeDevice(args)) => Action::Serve(args.request()?),
        Some(Command::Completions { shell }) => Action::Completions(shell),
        Some(Command::Man) => Action::Man,
        Some(Command::Worker { args }) => Action::Worker(args),
    };
    Ok(Invocation { view, action })
}

/// `profile`: by TVM or by libtorch.
fn profile(
    args: Box<ProfileArgs>,
    planned: Box<Planned>,
    settings: &Settings,
) -> Result<Action, CliError> {
    let planned = with_one_thread_count(planned, settings)?;
    Ok(match args.framework {
        Framework::Tvm => {
            check_profile(&planned, &args)?;
            Action::Profile(args.request(planned))
        }
        Framework::Torch => {
            let request = super::libtorch::request(*args, planned, settings);
            Action::ProfileTorch(request.map_err(refused)?)
        }
    })
}

/// `list ops`: without a model, the operators that `--modelsource simple` builds.
fn operators(args: &OpsArgs, settings: &Settings) -> Result<ListRequest, CliError> {
    if args.model.modelname.is_none() && args.ir.is_none() {
        return Ok(ListRequest::SimpleOperators);
    }
    let python = settings.get("python").texts.first().map(PathBuf::from);
    let model = Box::new(Planned::model_of(settings)?);
    Ok(match &args.ir {
        None => ListRequest::Operators(model, python),
        Some(name) => {
            let name = Some(name.clone()).filter(|name| !name.is_empty());
            ListRequest::OperatorIr(model, python, name)
        }
    })
}

fn doctor(calibrate: bool, settings: &Settings, cores: u32) -> Result<DoctorRequest, CliError> {
    let threads = Planned::threads_of(settings, cores)?;
    let calibration = match calibrate {
        false => None,
        true => Some(CalibrationRequest {
            threads: match settings.get("threads").origin {
                Origin::Default => usual_threads(cores),
                _ => threads.clone(),
            },
            budget_ns: Planned::budget_of(settings)?,
        }),
    };
    let path = |key| settings.get(key).texts.first().map(PathBuf::from);
    Ok(DoctorRequest {
        threads,
        calibration,
        out: path("out").unwrap_or_else(|| "runs".into()),
        python: path("python"),
        remote: Planned::remote_of(settings)?,
    })
}

/// The error of a flag that means nothing here.
pub(super) fn refused(problem: String) -> clap::Error {
    command().error(clap::error::ErrorKind::InvalidValue, problem)
}

/// A plan with one number of threads. If none was given, it is the last of the main job's counts: all cores.
fn with_one_thread_count(
    mut planned: Box<Planned>,
    settings: &Settings,
) -> Result<Box<Planned>, clap::Error> {
    let threads = &mut planned.plan.threads;
    if settings.get("threads").origin == Origin::Default {
        threads.drain(..threads.len() - 1);
    }
    match threads[..] {
        [_] => Ok(planned),
        _ => Err(refused(
            "--threads: this is of one number of threads; give one, as in --threads 2".to_owned(),
        )),
    }
}

/// Refuses what the main job can do and a profile of TVM cannot.
fn check_profile(planned: &Planned, args: &ProfileArgs) -> Result<(), clap::Error> {
    let plan = &planned.plan;
    if args.shown.stack {
        return Err(refused(
            "--stack: modules are known of libtorch (--framework torch); with TVM use --group-by layer"
                .to_owned(),
        ));
    }
    if plan.target.device.profiles() {
        return Ok(());
    }
    Err(refused(format!(
        "--target {}: a profile is taken by the host's clock, which does not see when kernels there end; measure the model \
         instead: its report has the operators' times inside it",
        plan.target.device.name()
    )))
}

/// Everything else that a resumed run does is in its own plan.
fn resume(
    matches: &ArgMatches,
    folder: PathBuf,
    retry_failed: bool,
    settings: Settings,
) -> Result<ResumeRequest, CliError> {
    let allowed = ["time-budget", "python"];
    let given = command_line(matches);
    if let Some(key) = given.keys().find(|key| !allowed.contains(key)) {
        return Err(command()
            .error(
                clap::error::ErrorKind::ArgumentConflict,
                format!(
                    "--{key} cannot be given with --resume: the run goes on by its own plan; leave it out, or start a new run"
                ),
            )
            .into());
    }
    Ok(ResumeRequest {
        folder,
        retry_failed,
        time_budget_ns: Planned::time_budget_of(&settings)?,
        python: settings.get("python").texts.first().map(PathBuf::from),
    })
}

/// The matches of the subcommand, or of its subcommand.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches
        .subcommand()
        .map_or(matches, |(_, inner)| innermost(inner))
}

/// A flag of the main job before a subcommand would be without effect: say so.
fn refuse_stray_flags(matches: &ArgMatches, subcommand: &str) -> Result<(), clap::Error> {
    let others = ["dry_run", "print_config"];
    let ids = SETTINGS.iter().map(|s| s.key.replace('-', "_"));
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match ids.chain(others.map(str::to_owned)).find(|id| given(id)) {
        None => Ok(()),
        Some(id) => Err(command().error(
            clap::error::ErrorKind::ArgumentConflict,
            format!(
                "--{} stands before `{subcommand}` and would be without effect; leave it out, or put it behind if `opcollect {subcommand} --help` has it",
                id.replace('_', "-")
            ),
        )),
    }
}

/// All settings, and the sweep among them.
struct Merged {
    settings: Settings,
    sweep: Option<Sweep>,
}

fn merge(
    matches: &ArgMatches,
    config: Option<PathBuf>,
    process: &Process,
) -> Result<Merged, CliError> {
    let from_variable = || {
        process
            .environment
            .iter()
            .find(|(name, value)| name == CONFIG_VARIABLE && !value.is_empty())
            .map(|(_, value)| PathBuf::from(value))
    };
    let mut command_line = command_line(matches);
    if let Some(model) = model_of_compare(matches) {
        command_line.insert("modelname", vec![model]);
    }
    // Settings of a run are TOML. A JSON file is a model's configuration from transformers.
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let (model_config, config) = match config {
        Some(path) if is_json(&path) => (Some(path), None),
        config => (None, config),
    };
    if let Some(path) = model_config {
        let text = path.to_string_lossy().into_owned();
        command_line.entry("model-config").or_default().push(text);
    }
    let file = match config.or_else(from_variable) {
        Some(path) => Some(ConfigFile::read(&path)?),
        None => None,
    };
    let mut layers = Layers {
        command_line,
        environment: process.environment.clone(),
        file,
        sweep: None,
    };
    let settings = layers.merge()?;
    let Some(name) = settings.get("sweep").texts.first().cloned() else {
        return Ok(Merged {
            settings,
            sweep: None,
        });
    };
    let file = SweepFile::find(&name, &process.sweeps)?;
    layers.sweep = Some(SweepLayer {
        name: file.sweep.name.clone(),
        texts: file.settings.clone(),
    });
    let settings = layers.merge()?;
    // A target without a device is refused later, with the plan.
    let file = match device_of(&settings) {
        Some(device) => file.for_device(device)?,
        None => file,
    };
    Ok(Merged {
        settings,
        sweep: Some(file.sweep),
    })
}

/// The device of the requested target, if there is such a device.
fn device_of(settings: &Settings) -> Option<DeviceRef> {
    let target = settings.get("target");
    opengine::device::named(target.texts.first()?.split_whitespace().next()?)
}

/// The model that `compare --framework` names without a flag.
fn model_of_compare(matches: &ArgMatches) -> Option<String> {
    matches
        .try_get_many::<crate::frameworks::Framework>(FRAMEWORK)
        .ok()??;
    let model = matches.try_get_one::<PathBuf>(FIRST).ok()??;
    Some(model.to_string_lossy().into_owned())
}

/// Texts of the settings that were given as flags.
fn command_line(matches: &ArgMatches) -> BTreeMap<&'static str, Vec<String>> {
    let mut given = BTreeMap::new();
    for setting in SETTINGS {
        let id = setting.key.replace('-', "_");
        // A subcommand has only some of the flags; a lookup of the others is allowed here.
        let Ok(Some(texts)) = matches.try_get_many::<String>(&id) else {
            continue;
        };
        if matches.value_source(&id) == Some(ValueSource::CommandLine) {
            given.insert(setting.key, texts.cloned().collect());
        }
    }
    given
}

#[cfg(test)]
mod tests;
