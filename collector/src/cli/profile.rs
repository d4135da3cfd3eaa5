//! Flags of `opcollect profile`.
//!
//! Syntax only. Flags that are settings of the main job have its names and reach the plan through `config`.

use clap::{Args, ValueEnum, ValueHint};
use opengine::protocol::StepSchedule;

use super::model::ModelArgs;
use super::suggest::Suggest;
use crate::plan::Planned;
use crate::profile::{ProfileRequest, Shown};

/// `opcollect profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Framework that runs the model: TVM's virtual machine, or libtorch (scripts/setup --with torch)
    #[arg(long, value_name = "FRAMEWORK", value_enum, default_value_t = Framework::Tvm)]
    pub framework: Framework,
    /// Target to compile for; options may follow, as in "llvm -mcpu=haswell"
    #[arg(long, value_name = "TARGET", value_parser = Suggest(&["llvm"]))]
    pub target: Option<String>,
    /// Number of threads, `max` being all cores this process may use [default: max]
    #[arg(long, value_name = "N", action = clap::ArgAction::Append, allow_negative_numbers = true)]
    pub threads: Vec<String>,
    /// Counters in runs that are not timed: auto (those that cost almost nothing here), none, or sources and events of
    /// `list counters`, as in papi:PAPI_TOT_INS
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append, value_parser = Suggest(&["auto", "none", "perf"]))]
    pub counters: Vec<String>,
    /// Seed of the input data
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
    /// Maximum memory of the worker process
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory_limit: Option<String>,
    /// Longest single run of the model
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub timeout: Option<String>,
    /// Python with TVM that imports models [default: the project's .venv]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
    /// The recorded runs.
    #[command(flatten)]
    pub steps: StepArgs,
    /// The content of the output.
    #[command(flatten)]
    pub shown: Shown,
}

/// The frameworks that can be profiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Framework {
    /// TVM's virtual machine
    Tvm,
    /// libtorch, for models of the sources torch and transformers
    Torch,
}

/// Maximum number of runs of one kind.
const MOST_RUNS: i64 = 1_000_000;

fn runs_from(least: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=MOST_RUNS)
}

/// The runs that are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs")]
pub struct StepArgs {
    /// Runs before the first cycle
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = runs_from(0))]
    pub skip_first: u32,
    /// Runs at the start of each cycle without the profiler
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = runs_from(0))]
    pub wait: u32,
    /// Warm-up runs with the profiler on, whose times are dropped
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = runs_from(0))]
    pub warmup: u32,
    /// Runs after the warm-up, which are recorded
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = runs_from(1))]
    pub active: u32,
    /// Number of cycles; each has a table, a trace and a file of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = runs_from(1))]
    pub repeat: u32,
}

impl StepArgs {
    /// The steps as plain data.
    pub fn schedule(&self) -> StepSchedule {
        let StepArgs {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
        } = *self;
        StepSchedule {
            skip_first,
            wait,
            warmup,
            active,
            repeat,
        }
    }
}

impl ProfileArgs {
    /// The request that the arguments make, with the plan that the settings make.
    pub fn request(self, planned: Box<Planned>) -> ProfileRequest {
        ProfileRequest {
            planned,
            schedule: self.steps.schedule(),
            shown: self.shown,
        }
    }
}
