//! Flags of `opcollect pairs`, `run-graph` and `cotune`: operators at the same time.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use opdata::contract::Executor;

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::plan::{Planned, parse::duration_ns};
use crate::side_by_side::cotune::{CotuneRequest, Objective};
use crate::side_by_side::graph::RunGraphRequest;
use crate::side_by_side::groups::Mode;
use crate::side_by_side::others;
use crate::side_by_side::pairs::PairsPlan;

/// `opcollect pairs`.
#[derive(Debug, Args)]
pub struct PairsArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Options common to the commands that run operators side by side.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The pairs.
    #[command(flatten)]
    pub which: WhichArgs,
}

/// Flags of all commands that run operators side by side.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// A further model of the same source, whose operators run beside the first's, as NAME or NAME:SEQLEN (repeatable)
    #[arg(long, value_name = "MODEL", action = clap::ArgAction::Append)]
    pub with: Vec<String>,
    /// Target to compile for; options may follow, as in "llvm -mcpu=haswell"
    #[arg(long, value_name = "TARGET", value_parser = Suggest(&["llvm"]))]
    pub target: Option<String>,
    /// Seed of the input data
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
}

/// The pairs that are measured, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pairs")]
pub struct WhichArgs {
    /// Threads of each operator of a group, as in 1+1,1+3; the number of parts is the number of operators
    #[arg(long, value_name = "N+N,…", value_delimiter = ',', default_value = "1+1", value_parser = split)]
    pub split: Vec<Split>,
    /// Whether operators have processors of their own, or share the same ones
    #[arg(
        long,
        value_name = "MODE,…",
        value_delimiter = ',',
        default_value = "partitioned"
    )]
    pub mode: Vec<ModeName>,
    /// Only these operators: their names, functions or workloads
    #[arg(long, value_name = "OPERATOR,…", value_delimiter = ',')]
    pub ops: Vec<String>,
    /// Measure this many groups, chosen to differ most in traffic and arithmetic [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,
    /// Rounds of measuring alone and together
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Time of each measurement in a round, e.g. 10ms
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration_ns)]
    pub span: u64,
    /// Directory of the rows [default: runs/<time>-<model>-<target>]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<String>,
    /// Go on with a run of pairs that was stopped or killed, by its own plan
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["out", "replay"])]
    pub resume: Option<PathBuf>,
    /// Measure a group of --run again: its group_id (exit code 3 if the slowdown is another)
    #[arg(long, value_name = "GROUP", requires = "run")]
    pub replay: Option<String>,
    /// The run that has the group
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,
}

/// Threads of each operator of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split(pub Vec<u32>);

fn split(text: &str) -> Result<Split, String> {
    let parts: Result<Vec<u32>, _> = text.split('+').map(|part| part.trim().parse()).collect();
    match parts {
        Ok(parts) if (2..=8).contains(&parts.len()) && !parts.contains(&0) => Ok(Split(parts)),
        _ => Err("give the threads of 2 to 8 operators, as in 1+1".to_owned()),
    }
}

/// The names of modes on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// Each operator on processors of its own.
    Partitioned,
    /// All on the same processors.
    TimeSliced,
}

/// The requests of `opcollect pairs`.
#[derive(Debug, PartialEq)]
pub enum PairsRequest {
    /// Measure groups, or continue a run; the Python for imports.
    Measure(Box<PairsPlan>, Option<PathBuf>),
    /// Go on with the run in a folder.
    Resume(PathBuf, Option<PathBuf>),
    /// Measure one group of a run again.
    Replay {
        /// The run.
        run: PathBuf,
        /// The group.
        group: String,
        /// The Python for imports.
        python: Option<PathBuf>,
    },
}

impl PairsArgs {
    /// Whether a run's own plan says what to measure.
    pub fn goes_by_a_run(&self) -> bool {
        self.which.resume.is_some() || self.which.replay.is_some()
    }

    /// The request, if it follows the plan of a run.
    pub fn of_a_run(self) -> Option<PairsRequest> {
        let python = self.common.python.map(PathBuf::from);
        match (self.which.resume, self.which.replay, self.which.run) {
            (Some(folder), ..) => Some(PairsRequest::Resume(folder, python)),
            (None, Some(group), Some(run)) => Some(PairsRequest::Replay { run, group, python }),
            _ => None,
        }
    }

    /// A new run by a plan of the main job's settings.
    pub fn request(self, planned: Box<Planned>) -> PairsRequest {
        let others = others(&planned, &self.common.with);
        let python = planned.python.clone();
        let modes = self.which.mode.iter().map(|mode| match mode {
            ModeName::Partitioned => Mode::Partitioned,
            ModeName::TimeSliced => Mode::TimeSliced,
        });
        PairsRequest::Measure(
            Box::new(PairsPlan {
                plan: planned.plan,
                others,
                splits: self.which.split.into_iter().map(|split| split.0).collect(),
                modes: modes.collect(),
                operators: self.which.ops,
                sample: self.which.sample.map(|most| most as usize),
                rounds: self.which.rounds,
                span_ns: self.which.span,
            }),
            python,
        )
    }
}

/// `opcollect run-graph`.
#[derive(Debug, Args)]
pub struct RunGraphArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Options common to the commands that run operators side by side.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Number of threads, `max` being all cores this process may use [default: max]
    #[arg(long, value_name = "N", action = clap::ArgAction::Append, allow_negative_numbers = true)]
    pub threads: Vec<String>,
    /// Flags of how models are run.
    #[command(flatten)]
    pub how: HowArgs,
}

/// How models are run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Schedule")]
pub struct HowArgs {
    /// The schedule that `oppredict schedule` wrote for the models
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub schedule: Option<PathBuf>,
    /// Without a schedule: one call after another, or each model on threads of its own
    #[arg(
        long = "executor",
        value_name = "EXECUTOR",
        default_value = "sequential",
        conflicts_with = "schedule",
        id = "graph-executor"
    )]
    pub executor: ExecutorName,
    /// Rounds; each runs every way in turn
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Write the result to this file too, as JSON
    #[arg(long = "out", value_name = "FILE.json", value_hint = ValueHint::FilePath, id = "graph-out")]
    pub out: Option<PathBuf>,
}

/// `opcollect cotune`.
#[derive(Debug, Args)]
pub struct CotuneArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Options common to the commands that run operators side by side.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The operators to tune, and how.
    #[command(flatten)]
    pub how: TuneTogetherArgs,
}

/// The operators that are tuned together, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tuning together")]
pub struct TuneTogetherArgs {
    /// Operators that run at the same time: their names, functions or workloads; one for each part of a split
    #[arg(
        long,
        value_name = "OPERATOR,…",
        value_delimiter = ',',
        required = true
    )]
    pub ops: Vec<String>,
    /// Threads of each operator, as in 1+1; of several splits, the best is chosen
    #[arg(long, value_name = "N+N,…", value_delimiter = ',', default_value = "1+1", value_parser = split)]
    pub split: Vec<Split>,
    /// Objective: the highest throughput, or the lowest latency of the slowest operator
    #[arg(long, value_name = "OBJECTIVE", default_value = "throughput")]
    pub objective: ObjectiveName,
    /// Schedules drawn of each operator
    #[arg(long = "trials", value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=3000), id = "cotune-trials")]
    pub trials: u64,
    /// Combinations that are measured at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub finalists: u64,
    /// Operators measured at the same time (a folder of `pairs`), from which slowdowns are predicted (repeatable)
    #[arg(long, value_name = "DIR", action = clap::ArgAction::Append, value_hint = ValueHint::DirPath)]
    pub pairs: Vec<PathBuf>,
    /// Rounds of the last comparison, in turn
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Time of each measurement in a round, e.g. 5ms
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration_ns)]
    pub span: u64,
}

/// The names of objectives on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveName {
    /// The highest throughput.
    Throughput,
    /// The lowest latency of the slowest operator.
    Latency,
}

impl CotuneArgs {
    /// The request for a plan.
    pub fn request(self, planned: Box<Planned>) -> CotuneRequest {
        CotuneRequest {
            planned,
            others: self.common.with,
            operators: self.how.ops,
            splits: self.how.split.into_iter().map(|split| split.0).collect(),
            trials: self.how.trials as usize,
            finalists: self.how.finalists as usize,
            objective: match self.how.objective {
                ObjectiveName::Throughput => Objective::Throughput,
                ObjectiveName::Latency => Objective::Latency,
            },
            pairs: self.how.pairs,
            rounds: self.how.rounds,
            span_ns: self.how.span,
        }
    }
}

/// The names of executors on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecutorName {
    /// One call after another.
    Sequential,
    /// Stages whose lanes run at the same time.
    Staged,
    /// Each model on threads of its own.
    Partitioned,
}

impl RunGraphArgs {
    /// The request for a plan.
    pub fn request(self, planned: Box<Planned>) -> RunGraphRequest {
        RunGraphRequest {
            planned,
            others: self.common.with,
            schedule: self.how.schedule,
            executor: match self.how.executor {
                ExecutorName::Sequential => Executor::Sequential,
                ExecutorName::Staged => Executor::Staged,
                ExecutorName::Partitioned => Executor::Partitioned,
            },
            rounds: self.how.rounds,
            out: self.how.out,
        }
    }
}
