//! Profiles of a whole model: the request to a worker, and its record.
//!
//! Calls of a run are always the same. So facts about them are sent once ([`ProfiledCall`]), and each run sends its
//! times alone. Times are in nanoseconds since the profile began.

use serde::{Deserialize, Serialize};

use crate::measure::counters::Counter;
use crate::measure::counters::request::CounterRequest;

/// The runs of a long job that are recorded: `skip_first` runs, then `repeat` cycles of `wait` runs without the
/// instrument, `warmup` runs with it that are dropped, and `active` runs that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSchedule {
    /// Runs before the first cycle.
    pub skip_first: u32,
    /// Runs of a cycle that are not watched.
    pub wait: u32,
    /// Runs of a cycle that are watched and dropped.
    pub warmup: u32,
    /// Runs of a cycle that are kept, 1 at least.
    pub active: u32,
    /// Cycles, 1 at least.
    pub repeat: u32,
}

/// A request for a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSpec {
    /// Number of threads.
    pub threads: usize,
    /// The runs that are recorded.
    pub schedule: StepSchedule,
    /// Time for the runs that show what watching costs, in nanoseconds.
    pub overhead_budget_ns: u64,
    /// The counters to read for each call, in runs of their own.
    pub counters: CounterRequest,
}

/// The recorded profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// The calls of a run in the order in which they begin.
    pub calls: Vec<ProfiledCall>,
    /// Their times.
    pub cycles: Vec<ProfiledCycle>,
    /// Runs without the instrument and with it, taking turns, in nanoseconds.
    pub pairs: Vec<(f64, f64)>,
    /// The counts.
    pub counts: Vec<CallCounts>,
    /// Bytes of all storages that the machine allocates in a run.
    pub storage_bytes: u64,
    /// The reference kernel's time around the profile over its best: 1 on a quiet machine.
    pub slowdown: f64,
}

/// Facts about a call that are equal in every run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledCall {
    /// The function that is called.
    pub symbol: String,
    /// The call inside which it is made, if it is.
    pub parent: Option<usize>,
    /// Its tensors, outputs last.
    pub arguments: Vec<ProfiledArgument>,
    /// Bytes of the tensors that it is the first to use: its outputs and workspaces.
    pub allocated_bytes: u64,
    /// Bytes of the tensors that it is the last to use.
    pub freed_bytes: u64,
    /// Bytes of all tensors that exist while it runs, weights and inputs of the model aside.
    pub live_bytes: u64,
}

/// A tensor of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledArgument {
    /// Extents of the dimensions.
    pub shape: Vec<i64>,
    /// Element type; empty for one that is not known.
    pub dtype: String,
    /// Its index among the model's inputs and weights, if it is one of them.
    pub input: Option<usize>,
}

/// The counts of one counter, by call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallCounts {
    /// The counter's source.
    pub source: String,
    /// The counter.
    pub counter: Counter,
    /// Each call's own count in one run, without nested calls, in the order of the calls; or why there is none.
    pub of_calls: Result<Vec<f64>, String>,
}

impl CallCounts {
    /// Its name, as in rows: `source:name`.
    pub fn full_name(&self) -> String {
        self.counter.full_name(&self.source)
    }
}

/// The recorded runs of one cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfiledCycle {
    /// Number of its first recorded run, from 0, counting every run of the job.
    pub first_step: u64,
    /// Its runs.
    pub steps: Vec<ProfiledStep>,
}

/// One recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfiledStep {
    /// When it began and ended.
    pub span: (u64, u64),
    /// When each call began and ended, in the order of the calls.
    pub calls: Vec<(u64, u64)>,
    /// Tasks of parallel loops.
    pub tasks: Vec<TaskSpan>,
}

/// A task of a parallel loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpan {
    /// The thread of the pool, 0 being the machine's own.
    pub thread: u32,
    /// When it began and ended.
    pub span: (u64, u64),
}
