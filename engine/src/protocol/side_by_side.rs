//! Requests and replies about calls of models that run at the same time in one worker.

use std::path::PathBuf;

use opdata::contract::{CallRef, Stage};
use serde::{Deserialize, Serialize};

use super::{ContentId, WholeModelReady, WholeModelSpec};
use crate::schedule::{ScheduleSpec, Space};

/// A request to run calls of models at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum SideBySideOrder {
    /// Build and check models, in the order that [`CallRef`] counts them. Answered by [`SideBySideDone::Loaded`].
    Load {
        /// The models.
        models: Vec<ModelToLoad>,
    },
    /// Run the models loaded in several ways in turn. Answered by [`SideBySideDone::Compared`].
    Compare(CompareWays),
    /// Time some calls alone and at the same time. Answered by [`SideBySideDone::Group`].
    Group(GroupSpec),
    /// Describe the template space of an operator of a model. Answered by [`SideBySideDone::Space`].
    Space {
        /// Number of the model.
        model: usize,
        /// The operator's function.
        symbol: String,
    },
}

/// The result of such a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum SideBySideDone {
    /// The models are there, in order.
    Loaded {
        /// Facts about each model.
        models: Vec<ModelLoaded>,
        /// Numbers of the processors that kernels may run on, as the operating system counts them.
        processors: Vec<usize>,
    },
    /// Times of the ways.
    Compared(WaysCompared),
    /// Times of the calls.
    Group(GroupTimes),
    /// A template space.
    Space(Space),
}

/// A model to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelToLoad {
    /// Folder of its import on this machine.
    pub folder: PathBuf,
    /// The module in it.
    pub module: ContentId,
    /// How the model is built.
    pub spec: WholeModelSpec,
}

/// A model that was built, checked, and run once to see its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelLoaded {
    /// The check of its output.
    pub ready: WholeModelReady,
    /// Its calls in order.
    pub calls: Vec<CallSeen>,
}

/// A call as it was seen in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSeen {
    /// The operator's function.
    pub symbol: String,
    /// Whether it calls a kernel; a view of its input does not.
    pub has_kernel: bool,
    /// Numbers of the calls whose results it reads, ascending.
    pub inputs: Vec<usize>,
}

/// A way to run the models that were loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Way {
    /// TVM's virtual machine runs one model after the other.
    VirtualMachine,
    /// Stage by stage, on lanes of threads that run side by side.
    Stages {
        /// The stages.
        stages: Vec<Stage>,
    },
}

/// Ways to run the models in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareWays {
    /// The ways.
    pub ways: Vec<Way>,
    /// Threads of all.
    pub threads: u32,
    /// Rounds; each runs every way.
    pub rounds: u32,
    /// Time for the samples of one way in a round, in nanoseconds.
    pub budget_ns: u64,
}

/// Times of the ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaysCompared {
    /// Median time of a run of all models in nanoseconds, for each way in each round.
    pub rounds_ns: Vec<Vec<f64>>,
    /// Whether the outputs have the bits of the virtual machine's, for each way.
    pub same_bits: Vec<bool>,
    /// The reference kernel's time over its idle time, the largest around a round.
    pub slowdown: f64,
}

/// Calls to time alone and at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The calls.
    pub members: Vec<GroupMember>,
    /// Rounds; each times every call alone, all at the same time, and every call on all threads.
    pub rounds: u32,
    /// Time for one of these in a round, in nanoseconds.
    pub span_ns: u64,
}

/// A call of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupMember {
    /// The call.
    pub call: CallRef,
    /// The processors of its threads, as the kernel numbers them.
    pub processors: Vec<usize>,
    /// Its schedule. `None` for that of the model's own kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
}

/// Times of a group's calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupTimes {
    /// Times of each call of the group.
    pub members: Vec<MemberTimes>,
    /// The reference kernel's time over its idle time, the largest before and after.
    pub slowdown: f64,
}

/// Median times of one call in each round, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberTimes {
    /// Alone on its processors.
    pub alone_ns: Vec<f64>,
    /// While the others run.
    pub together_ns: Vec<f64>,
    /// Alone on all processors of the group.
    pub all_threads_ns: Vec<f64>,
    /// Slowdown beside a stream of copies, in some rounds.
    #[serde(default)]
    pub beside_stream: Vec<f64>,
    /// Slowdown of that stream beside it.
    #[serde(default)]
    pub of_stream: Vec<f64>,
}
