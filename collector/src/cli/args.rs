//! The flags, defined once: help, completions and the man page come from here; defaults come from the table of settings.
//!
//! Values of settings stay text and are read in `plan`, so that a value from a variable or a file meets the same checks. A
//! field has the setting's key as its name, with `_` for `-`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueHint};
use opreport::{OutputFormat, Verbosity, View};

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::config::{Arity, SETTINGS};
use crate::merge::MergeRequest;
use crate::replay::ReplayRequest;
use crate::run_report::ReportRequest;

const AFTER_HELP: &str = "\
Every option that takes a value can also be set by a variable (--max-failed is \
OPCOLLECT_MAX_FAILED) or a key of the TOML file named by --config (max-failed = 0.1). The command \
line goes before the environment, that before the file, that before the sweep's own settings, \
those before the default; --print-config shows which one won.

Exit codes: 0 done, 1 failed, 2 usage, 3 regression found, 4 done but more points failed than \
--max-failed allows, 130 interrupted (all rows are kept).";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "opcollect",
    version,
    about = "Measures the operators of a deep-learning model one by one, compiled through TVM",
    after_help = AFTER_HELP,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// The main job.
    #[command(flatten)]
    pub job: JobArgs,
    /// The label of the run.
    #[command(flatten)]
    pub label: LabelArgs,
    /// Form of the output.
    #[command(flatten)]
    pub view: ViewArgs,
    /// Anything but the main job.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Form of the output, for all commands.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Print one JSON object instead of tables
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Print only data and errors, no progress and no messages
    #[arg(
        short,
        long,
        global = true,
        help_heading = "Output",
        conflicts_with = "verbose"
    )]
    pub quiet: bool,
    /// Print more messages about what is done and why
    #[arg(short, long, global = true, help_heading = "Output")]
    pub verbose: bool,
    /// Read settings from a TOML file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

impl ViewArgs {
    /// How the flags want results to be shown.
    pub fn view(&self) -> View {
        View {
            format: if self.json {
                OutputFormat::Json
            } else {
                OutputFormat::Text
            },
            verbosity: match (self.quiet, self.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, true) => Verbosity::Verbose,
                (false, false) => Verbosity::Normal,
            },
        }
    }
}

/// The main job: take a model apart, measure its operators.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The points to measure.
    #[command(flatten)]
    pub points: PointArgs,
    /// How schedules are tuned.
    #[command(flatten)]
    pub tuning: TuneArgs,
    /// The timing.
    #[command(flatten)]
    pub timing: TimingArgs,
    /// Limits, results and tools.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The points to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Points")]
pub struct PointArgs {
    /// Target to compile for; options may follow, as in "llvm -mcpu=haswell"
    #[arg(long, value_name = "TARGET", value_parser = Suggest::targets())]
    pub target: Option<String>,
    /// Architectures to compile for, each with rows of its own; several need --compile-only [default: the target's]
    #[arg(long, value_name = "sm_NN,…", action = clap::ArgAction::Append)]
    pub arch: Vec<String>,
    /// Compile and describe kernels, run nothing: the device need not be there
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub compile_only: Option<String>,
    /// Keep the source and machine code of a device's kernels in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub keep_kernels: Option<String>,
    /// Thread counts, `max` being all cores this process may use
    #[arg(long, value_name = "N,N,…", action = clap::ArgAction::Append, allow_negative_numbers = true)]
    pub threads: Vec<String>,
    /// Cache states: as in the model, hot, flushed, or several of them
    #[arg(long, value_name = "STATE,…", action = clap::ArgAction::Append, value_parser = Suggest(&["model", "hot", "flushed"]))]
    pub cache: Vec<String>,
    /// Conditions that only some devices have, such as a clock that can be set
    #[arg(long, value_name = "NAME=VALUE,…", action = clap::ArgAction::Append)]
    pub condition: Vec<String>,
    /// Counters in calls that are not timed: auto (those that cost almost nothing here), none, or sources and events of
    /// `list counters`, as in callgrind,papi:PAPI_TOT_INS
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append, value_parser = Suggest(&["auto", "none", "perf"]))]
    pub counters: Vec<String>,
    /// Measure many schedules: a name of `list sweeps`, or the path of a TOML file. `--schedule as-is` measures the loops that
    /// each operator came with
    #[arg(long, alias = "schedule", value_name = "SWEEP", value_hint = ValueHint::FilePath)]
    pub sweep: Option<String>,
    /// Measure the I-th of N parts of the points only, e.g. 1/4; `merge` joins the parts
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Executor of the whole model
    #[arg(long, value_name = "EXECUTOR", value_parser = Suggest(&["vm"]))]
    pub executor: Option<String>,
    /// Measure the whole model too, or skip it
    #[arg(long, value_name = "CHOICE", value_parser = Suggest(&["measure", "skip"]))]
    pub whole_model: Option<String>,
    /// Seed of the input data
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
}

/// The timing.
#[derive(Debug, Args)]
#[command(next_help_heading = "Timing")]
pub struct TimingArgs {
    /// Sample until half the confidence interval is this share of the median
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub ci: Option<String>,
    /// Time for the samples of one point, e.g. 500ms
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Calls before the first timed one
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub warmup: Option<String>,
    /// Minimum number of samples of a point
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub min_samples: Option<String>,
    /// Maximum number of samples of a point
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_samples: Option<String>,
    /// Calls in a sample; auto for as many as the clock needs
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub number: Option<String>,
    /// Time limit for measuring points hit by interference again, as a multiple of the batch's first measurement time
    #[arg(
        long,
        value_name = "TIMES",
        allow_negative_numbers = true,
        alias = "patience"
    )]
    pub remeasure_budget: Option<String>,
}

/// Limits, results and tools.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Time limit for compiling one operator
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub compile_timeout: Option<String>,
    /// Time limit for checking and measuring one point
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub timeout: Option<String>,
    /// Maximum memory of a worker process
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory_limit: Option<String>,
    /// Skip kernels with more statements than this after unrolling
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_statements: Option<String>,
    /// Stop cleanly after this time, e.g. 6h; --resume continues the run
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub time_budget: Option<String>,
    /// Continue a run that was stopped or killed, by its own plan: its folder, its name, or `latest`
    #[arg(long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub resume: Option<PathBuf>,
    /// With --resume: measure failed points again, too
    #[arg(long, requires = "resume")]
    pub retry_failed: bool,
    /// Share of points that may fail before the exit code is 4
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub max_failed: Option<String>,
    /// Directory of the results, which must not exist yet [default: runs/<time>-<model>-<target>]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
    /// Measure on another machine: the host of a tracker of TVM's RPC, or of one server
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,
    /// Port of the tracker or server
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub port: Option<String>,
    /// Key of the servers to measure on; several servers of one key measure at the same time
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Print every setting with its value and origin, and stop
    #[arg(long)]
    pub print_config: bool,
}

/// The label of the run, and a second form of its report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Label")]
pub struct LabelArgs {
    /// A name for the run, usable wherever a run is named
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A remark that `list runs` shows
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Words to select runs by in `list runs --tag` (repeatable)
    #[arg(long, value_name = "WORD,…", action = clap::ArgAction::Append)]
    pub tag: Vec<String>,
    /// Write the report of the run to this file too, in Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_markdown: Option<String>,
}

/// How schedules are tuned.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning")]
pub struct TuneArgs {
    /// Tune the schedules of all operators
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub iftune: Option<String>,
    /// Measure the whole model with tuned and with default schedules in turn
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ifcompare: Option<String>,
    /// Report the latency after 0, 16, 32, 64, … schedules of each operator
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ifpartial: Option<String>,
    /// How to tune; `list tuners` shows them. Several, with --ifpartial, to compare them
    #[arg(long, value_name = "TUNER,…", action = clap::ArgAction::Append, value_parser = Suggest(crate::tuners::names()))]
    pub tuner: Vec<String>,
    /// Maximum number of schedules of an operator, from 10 to 3000; with --time-budget alone 3000, and the budget is
    /// shared out
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub trials: Option<String>,
    /// Also learn from the rows of an earlier run of this target and machine
    #[arg(long, value_name = "RUN", action = clap::ArgAction::Append, value_hint = ValueHint::DirPath)]
    pub history: Vec<String>,
    /// Store of the best known schedules, which tuning starts from and adds to: a file, or
    /// postgres://USER@HOST/DATABASE; `none` for no store, `auto` for the installation's
    #[arg(long, value_name = "STORE", value_hint = ValueHint::FilePath)]
    pub store: Option<String>,
}

/// Anything but the main job.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List what there is to measure and to compile for
    List {
        /// The list to print
        #[command(subcommand)]
        what: ListWhat,
    },
    /// Show what the main job would measure, how long it would take and how large the data would be
    Plan(Box<PlanArgs>),
    /// Measure a row of a dataset again, from its record alone (exit code 3 if the time differs)
    Replay(ReplayRequest),
    /// Check libraries, compiler, counters, cores and memory, and show a fix for each problem; calibrate the machine
    Doctor(DoctorArgs),
    /// Profile a model on the virtual machine: time and memory of every operator and every step between them
    Profile(Box<super::profile::ProfileArgs>),
    /// Compare two runs: what became slower or faster, and how sure that is (exit code 3 on a regression); or one model in
    /// several frameworks
    Compare(Box<super::compare::CompareArgs>),
    /// Write the report of a run as a web page and in Markdown; with a second run, also what changed and how surely
    Report(ReportRequest),
    /// Join the shards of a plan (runs made with --shard) into one run
    Merge(MergeRequest),
    /// Run the nightly jobs (models, targets, sweeps) within a time budget, and compare them with the night before
    Nightly(super::nightly::NightlyArgs),
    /// Show the best schedules of the store: the fastest of each workload, or all of one workload with their origin
    Best(super::store::BestArgs),
    /// Compile a model with the best schedules of the store: report their coverage and the model's time, write its library
    Apply(Box<super::store::ApplyArgs>),
    /// Import into, export, merge or verify the store of best schedules
    Store(super::store::StoreArgs),
    /// Measure operators alone and at the same time: the slowdown of each and the throughput of all
    Pairs(Box<super::side_by_side::PairsArgs>),
    /// Tune threads and schedules of operators that run at the same time, and compare with operators tuned alone
    Cotune(Box<super::side_by_side::CotuneArgs>),
    /// Run models by a schedule of operators side by side, measured in turn with runs of one call after another
    RunGraph(Box<super::side_by_side::RunGraphArgs>),
    /// Read profile dumps of Sophgo TPUs: write summary, traces, tables, a web page and dataset rows
    Tpu(Box<super::tpu::TpuArgs>),
    /// Use the simulator of VTA (target pynq) directly: show a run, calibrate it with a board's log, or compare it with one
    Vta(Box<super::vta::VtaArgs>),
    /// Offer this machine to clients of TVM's RPC, as TVM's own server does: one process a session, with limits of
    /// time, memory and rights
    ServeDevice(super::serve::ServeArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff; try `opcollect man | man -l -`)
    Man,
    /// Serve one run as its child process; not for people
    #[command(hide = true)]
    Worker {
        /// Arguments from the parent.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// The lists that can be printed.
#[derive(Debug, Subcommand)]
pub enum ListWhat {
    /// Models of the source `local`
    Models,
    /// Targets, and whether this build has them
    Targets,
    /// Sweeps that come with the program
    Sweeps,
    /// Tuners of --tuner
    Tuners,
    /// Knobs of the operators of a model: their choices, and the size of each space
    Knobs(Box<KnobsArgs>),
    /// Sources of counters and their events, with those that count here, and what the others lack
    Counters,
    /// Operators of the source `simple`, or of the model that is named
    Ops(Box<OpsArgs>),
    /// Runs, the newest first: model, target, points, verdict, note
    Runs(RunsArgs),
    /// Composite operators (quantised convolutions, GELU, …): what each source's form of them becomes, step by step
    Patterns,
    /// Servers that a tracker of TVM's RPC offers: keys, free and busy, and the machines of free ones
    Devices(DevicesArgs),
}

/// `list knobs`.
#[derive(Debug, Args)]
pub struct KnobsArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Target to compile for
    #[arg(long, value_name = "TARGET", value_parser = Suggest::targets())]
    pub target: Option<String>,
}

/// `list devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// The tracker's host
    #[arg(long, value_name = "HOST", env = "TVM_TRACKER_HOST", default_value = "127.0.0.1", value_hint = ValueHint::Hostname)]
    pub host: String,
    /// The tracker's port
    #[arg(
        long,
        value_name = "PORT",
        env = "TVM_TRACKER_PORT",
        default_value_t = 9190
    )]
    pub port: u16,
}

/// `list runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// The folder that has them
    #[arg(value_name = "DIR", default_value = opdata::RUNS, value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Only runs with this tag
    #[arg(long, value_name = "WORD")]
    pub tag: Option<String>,
}

/// `list ops`.
#[derive(Debug, Args)]
pub struct OpsArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Print the Relax calls, the TensorIR and the default schedule of all operators, or of one
    #[arg(long, value_name = "OPERATOR", num_args = 0..=1, default_missing_value = "")]
    pub ir: Option<String>,
}

/// A job to preview.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Write every point as a row without a time to this directory, for `oppredict suggest` to choose from
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Points")]
    pub candidates: Option<PathBuf>,
}

/// The doctor's checks.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Thread counts that will be measured
    #[arg(long, value_name = "N,N,…", action = clap::ArgAction::Append)]
    pub threads: Vec<String>,
    /// Directory that will hold the results [default: runs]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
    /// Measure this machine's limits (peak GFLOP/s, bandwidth of each cache and of memory) at each number of
    /// threads: those of --threads, or 1, 2, 4, … max. Kept for later runs to record
    #[arg(long)]
    pub calibrate: bool,
    /// Look at another machine too: the host of a tracker of TVM's RPC, or of one server
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,
    /// Port of the tracker or server
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub port: Option<String>,
    /// Key of the servers
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Target that will be compiled for that machine
    #[arg(long, value_name = "TARGET", value_parser = Suggest::targets())]
    pub target: Option<String>,
    /// Time for the samples of one rate of --calibrate
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        requires = "calibrate"
    )]
    pub budget: Option<String>,
}

/// The parser. The help of each flag that is a setting ends with the default from the table of settings, unless the
/// command has a default of its own.
pub fn command() -> clap::Command {
    with_defaults(Cli::command())
}

fn with_defaults(command: clap::Command) -> clap::Command {
    let shown = |arg: clap::Arg| {
        let setting = SETTINGS.iter().find(|s| arg.get_long() == Some(s.key));
        let default = setting
            .filter(|s| s.arity != Arity::Switch)
            .and_then(|s| s.default);
        let help = arg.get_help().map(ToString::to_string);
        match (default, help) {
            (Some(default), Some(help)) if !has_own_default(&arg, &help) => {
                arg.help(format!("{help} [default: {default}]"))
            }
            _ => arg,
        }
    };
    command.mut_args(shown).mut_subcommands(with_defaults)
}

/// Whether a flag's default does not come from the table of settings.
fn has_own_default(arg: &clap::Arg, help: &str) -> bool {
    help.contains("[default: ") || !arg.get_default_values().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_flag_that_shows_its_default() {
        let command = command();
        for setting in SETTINGS {
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(setting.key))
                .unwrap_or_else(|| panic!("no flag for {}", setting.key));
            assert_eq!(arg.get_id().as_str(), setting.key.replace('-', "_"));
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if let (Some(default), true) = (setting.default, setting.arity != Arity::Switch) {
                let shown = format!("[default: {default}]");
                assert!(help.ends_with(&shown), "--{}: {help}", setting.key);
            }
        }
    }

    #[test]
    fn no_flag_shows_two_defaults() {
        fn check(command: &mut clap::Command) {
            let name = command.get_name().to_owned();
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let shown = help.matches("[default: ").count();
                let is_added =
                    !arg.get_default_values().is_empty() && !arg.is_hide_default_value_set();
                let defaults = shown + usize::from(is_added);
                assert!(defaults <= 1, "{name} --{}: {help}", arg.get_id());
            }
            command.get_subcommands_mut().for_each(check);
        }
        check(&mut command());
    }

    #[test]
    fn every_flag_with_a_value_is_a_setting() {
        // A file cannot name the file of settings, and the form of the output is no setting of a run.
        let exempt = [
            "config",
            "json",
            "quiet",
            "verbose",
            "dry-run",
            "print-config",
            "resume",
            "retry-failed",
            "help",
            "version",
        ];
        for arg in command().get_arguments() {
            let long = arg.get_long().unwrap_or_default();
            assert!(
                exempt.contains(&long) || SETTINGS.iter().any(|s| s.key == long),
                "--{long} is no setting"
            );
        }
    }
}
