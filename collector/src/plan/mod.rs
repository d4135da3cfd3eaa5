//! The plan of a run: everything that decides what is measured and how, validated.
//!
//! Owns [`Plan`] (serialisable; it is stored in `run.json` and printed by `--dry-run`), the
//! reading of settings into it ([`Plan::from_settings`]) and the errors of bad values. It does not
//! look at the model: whether a name exists is the importer's to say.

mod build;
mod model;
pub(crate) mod parse;
mod reader;
mod run_id;

pub use build::{HostFacts, Planned, Warning};

use std::path::PathBuf;

use opdata::{CacheState, Shard};
use opengine::device::{Conditions, Target};
use opengine::measure::TimingPolicy;
use opengine::runner::WorkerPolicy;
use opmodels::ImportRequest;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::Origin;
use crate::sweep::Sweep;

/// Format of a serialised plan; raised when a field changes its meaning.
pub const PLAN_FORMAT: u32 = 2;

/// A validated plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_FORMAT`] of the writer.
    pub format: u32,
    /// What to take apart.
    pub model: ImportRequest,
    /// What to compile for.
    pub target: Target,
    /// Thread counts to measure at, in the given order, without repetition, each at least 1.
    pub threads: Vec<u32>,
    /// Cache states to measure in, without repetition.
    pub cache_states: Vec<CacheState>,
    /// Which schedules to measure; the default ones if there is no sweep.
    pub sweep: Option<Sweep>,
    /// Which part of the points to measure; all if there is none.
    pub shard: Option<Shard>,
    /// Time to spend, in nanoseconds; all that it takes if there is none.
    pub time_budget_ns: Option<u64>,
    /// How each point is timed.
    pub timing: TimingPolicy,
    /// What a worker process may use.
    pub worker: WorkerPolicy,
    /// Seed of the input data and of everything random.
    pub seed: u64,
    /// Whether the whole model is run too.
    pub whole_model: WholeModel,
    /// Directory of the results; it does not exist yet.
    pub out: PathBuf,
    /// Name of the run, unique enough to tell runs apart.
    pub run_id: String,
    /// Share of points (0 to 1) that may fail with the run still counted as done.
    pub max_failed_share: f64,
}

impl Plan {
    /// What decides which points there are and how they are measured, as a hash: equal for runs of one plan and for
    /// its shards, wherever and for however long they run.
    pub fn hash(&self) -> String {
        let essence = Plan {
            shard: None,
            time_budget_ns: None,
            out: PathBuf::new(),
            run_id: String::new(),
            max_failed_share: 0.0,
            ..self.clone()
        };
        let text = serde_json::to_value(&essence).map_or_else(|_| String::new(), |v| v.to_string());
        opdata::stable_hash(&[("plan", &text)])
    }

    /// Points of one kernel: thread counts × cache states, in the order they are measured.
    pub fn conditions(&self) -> impl Iterator<Item = Conditions> + '_ {
        self.threads.iter().flat_map(|&t| {
            self.cache_states
                .iter()
                .map(move |&c| Conditions::new(t, c))
        })
    }
}

/// Whether the whole model is run beside its operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WholeModel {
    /// It is run, checked and timed.
    Measure,
    /// Operators only.
    Skip,
}

/// Why settings make no plan. The message says what is wrong where, and what to do next.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// No value where one is needed.
    #[error("{} is missing: {next}", flag(key))]
    Missing {
        /// The setting.
        key: &'static str,
        /// What to do.
        next: String,
    },
    /// A value that cannot be.
    #[error("{} {value} ({origin}): {problem}; {next}", flag(key))]
    BadValue {
        /// The setting.
        key: &'static str,
        /// Its text.
        value: String,
        /// Where it came from.
        origin: Origin,
        /// What is wrong.
        problem: String,
        /// What to do.
        next: String,
    },
    /// A capability that is not there yet.
    #[error(
        "{} {value} ({origin}): not available yet: {problem}; {next}",
        flag(key)
    )]
    NotAvailable {
        /// The setting.
        key: &'static str,
        /// Its text.
        value: String,
        /// Where it came from.
        origin: Origin,
        /// What is not there.
        problem: String,
        /// What to do instead.
        next: String,
    },
}

fn flag(key: &str) -> String {
    format!("--{key}")
}
