//! Flags of `opcollect pairs`, `run-graph` and `cotune`: operators at the same time.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::plan::{Planned, parse::duration_ns};
use crate::side_by_side::cotune::{CotuneOptions, CotuneRequest};
use crate::side_by_side::graph::{GraphOptions, RunGraphRequest};
use crate::side_by_side::groups::{Mode, split};
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
    pub split: Vec<Vec<u32>>,
    /// Whether operators have processors of their own, or share the same ones
    #[arg(
        long,
        value_name = "MODE,…",
        value_delimiter = ',',
        default_value = "partitioned"
    )]
    pub mode: Vec<Mode>,
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
        PairsRequest::Measure(
            Box::new(PairsPlan {
                plan: planned.plan,
                others,
                splits: self.which.split,
                modes: self.which.mode,
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
    pub how: GraphOptions,
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
    pub how: CotuneOptions,
}

impl CotuneArgs {
    /// The request for a plan.
    pub fn request(self, planned: Box<Planned>) -> CotuneRequest {
        CotuneRequest {
            planned,
            others: self.common.with,
            how: self.how,
        }
    }
}

impl RunGraphArgs {
    /// The request for a plan.
    pub fn request(self, planned: Box<Planned>) -> RunGraphRequest {
        RunGraphRequest {
            planned,
            others: self.common.with,
            how: self.how,
        }
    }
}
