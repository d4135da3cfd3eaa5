//! Messages between a parent and a worker: one JSON object a line.
//!
//! The parent sends [`Request`]s; the worker answers each with one or more [`Reply`]s. Times are in nanoseconds.

mod contents;
mod profile;
mod side_by_side;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use contents::{ContentId, Contents, PARAMETERS, REFERENCES};
use opdata::Status;
use opdata::contract::RemoteAddress;
use opdata::contract::device_kernel::DeviceKernel;
use opmodels::Graph;
use opmodels::graph::Argument;
pub use profile::{
    CallCounts, ProfileSpec, Profiled, ProfiledArgument, ProfiledCall, ProfiledCycle, ProfiledStep,
    StepSchedule, TaskSpan,
};
use serde::{Deserialize, Serialize};
pub use side_by_side::{
    CallSeen, CompareWays, GroupMember, GroupSpec, GroupTimes, MemberTimes, ModelLoaded,
    ModelToLoad, SideBySideDone, SideBySideOrder, Way, WaysCompared,
};

use crate::device::{Conditions, DeviceRef, DeviceState, Opening, Purpose, SimulatedRun};
use crate::measure::TimingPolicy;
use crate::measure::check::Comparison;
use crate::measure::counters::Counted;
use crate::measure::counters::request::CounterRequest;
use crate::measure::sampling::Taken;
use crate::schedule::{Choice, ScheduleSpec, Space};

/// A request to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Load TVM and a module. Answered by [`Reply::Ready`].
    Setup(Setup),
    /// Describe the template spaces of operators. Answered by [`Reply::Spaces`] or [`Reply::Refused`].
    Spaces {
        /// The operators' functions.
        symbols: Vec<String>,
    },
    /// Build kernels. Answered by [`Reply::Started`] and [`Reply::Built`], [`Reply::Duplicate`] or [`Reply::Refused`] for each, then
    /// [`Reply::AllBuilt`].
    Build {
        /// The kernels to build.
        kernels: Vec<KernelSpec>,
        /// Number of threads to build on.
        jobs: usize,
    },
    /// Check and time a kernel that was built. Answered by [`Reply::Measured`] or [`Reply::Refused`].
    Measure(MeasureSpec),
    /// Forget kernels. Not answered.
    Drop {
        /// Their ids.
        ids: Vec<u64>,
    },
    /// Build the whole model and run its reference. Answered by [`Reply::WholeModelReady`] or [`Reply::Refused`].
    BuildWholeModel(Box<WholeModelSpec>),
    /// Forget the whole model. Not answered.
    DropWholeModel,
    /// Time the whole model. Answered by [`Reply::WholeModelMeasured`] or [`Reply::Refused`].
    MeasureWholeModel {
        /// The conditions of the run; the caches are as the model leaves them.
        at: Conditions,
        /// How the model is timed.
        policy: TimingPolicy,
        /// The samples that count.
        counting: Counting,
    },
    /// Profile the whole model. Answered by [`Reply::WholeModelProfiled`] or [`Reply::Refused`].
    ProfileWholeModel(ProfileSpec),
    /// Run calls of models at the same time. Answered by [`Reply::SideBySide`] or [`Reply::Refused`].
    SideBySide(SideBySideOrder),
}

/// The settings that a worker needs first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The module with the operators' functions.
    pub module: ContentId,
    /// The device to measure on.
    pub device: DeviceRef,
    /// The device's dictionary of the target.
    pub target: serde_json::Value,
    /// Maximum number of threads of a kernel.
    pub max_threads: usize,
    /// Seed of argument data and schedules.
    pub seed: u64,
    /// Maximum number of statements of a lowered kernel; larger ones are not compiled.
    pub max_statements: u64,
    /// Maximum memory of the process, in MiB.
    pub memory_limit_mib: u64,
    /// The use of the kernels.
    #[serde(default)]
    pub purpose: Purpose,
    /// The counters to read for each kernel, in calls that are not timed.
    #[serde(default)]
    pub counters: CounterRequest,
    /// Longest time that one kernel may take to compile, in nanoseconds.
    pub compile_timeout_ns: u64,
    /// Where source and machine code of device kernels are kept, if they are.
    #[serde(default)]
    pub keep_kernels: Option<PathBuf>,
    /// Number of the device's unit to measure on.
    #[serde(default)]
    pub unit: u32,
    /// The servers of another machine, if it is measured on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAddress>,
    /// Servers that answered wrongly: others are taken while there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

impl Setup {
    /// Arguments for opening the device's session.
    pub fn opening(&self) -> Opening {
        /// A separate compiler such as NVRTC gets a quarter less time than the build, so that the worker outlives it.
        const SHARE: u64 = 4;
        let limit_ns = self.compile_timeout_ns - self.compile_timeout_ns / SHARE;
        Opening {
            dictionary: self.target.clone(),
            max_threads: self.max_threads,
            purpose: self.purpose,
            compile_limit: Duration::from_nanos(limit_ns),
            keep_kernels: self.keep_kernels.clone(),
            unit: self.unit,
            remote: self.remote.clone(),
            avoid: self.avoid.clone(),
        }
    }
}

/// Bytes of traffic in the model between two uses of an operator's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Bytes that the model reads and writes between two uses of its inputs, if the operator reads these; else 0.
    pub inputs: u64,
    /// Bytes that the model reads and writes between two uses of one of the operator's weights; 0 without weights.
    pub weights: u64,
    /// Bytes that the model reads and writes between two uses of the memory of its outputs; 0 if unknown.
    pub outputs: u64,
}

/// A kernel to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// The parent's name for it.
    pub id: u64,
    /// The operator's function in the module.
    pub symbol: String,
    /// Its schedule.
    pub schedule_spec: ScheduleSpec,
    /// Its arguments, outputs last.
    pub arguments: Vec<Argument>,
    /// The model's traffic between two uses of its memory.
    pub reuse: Reuse,
    /// Number of terms in an element's sum, on which the check's tolerance depends.
    pub reduction_length: u64,
}

/// A point to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureSpec {
    /// The kernel.
    pub id: u64,
    /// The conditions of the measurement.
    pub at: Conditions,
    /// How the point is timed.
    pub policy: TimingPolicy,
    /// A kernel that takes longer is not worth samples, in nanoseconds.
    pub prune_beyond_ns: Option<u64>,
    /// Whether the worker waits for a quiet moment first.
    pub quiet: QuietMoment,
}

/// Whether a point is measured in a quiet moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuietMoment {
    /// The point is measured at once. It can be measured again, which takes less time than a wait before every point.
    Ignored,
    /// The worker waits for a quiet moment, and measures even if none comes.
    Preferred,
    /// The point has a result already, under interference. The worker waits for a quiet moment, and refuses if none comes.
    Required,
}

/// A whole model to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WholeModelSpec {
    /// The model's graph.
    pub graph: Graph,
    /// Number of threads to build on.
    pub jobs: usize,
    /// Schedules of operators by function. Operators without an entry get their default schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schedules: BTreeMap<String, ScheduleSpec>,
    /// Files to write of it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// Whether the tasks of its parallel loops can be recorded: a profile needs it, at the price of one more call a loop.
    #[serde(default)]
    pub watch_tasks: bool,
}

/// Files of a whole model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// The shared library that TVM's runtime loads.
    pub library: Option<PathBuf>,
    /// The scheduled module as TVM's JSON.
    pub module: Option<PathBuf>,
}

/// An answer of the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The set-up is done.
    Ready,
    /// The schedule spaces of the requested operators.
    Spaces {
        /// Their spaces, in the order of the request.
        spaces: Vec<Space>,
    },
    /// A build has begun.
    Started {
        /// The kernel.
        id: u64,
    },
    /// A kernel is ready to be measured.
    Built(Built),
    /// A kernel's program is that of an earlier one; it was not compiled.
    Duplicate {
        /// The kernel.
        id: u64,
        /// The earlier one.
        of: u64,
    },
    /// The worker cannot do what was requested, and goes on.
    Refused {
        /// The kernel, if it was about one.
        id: Option<u64>,
        /// The status of the kernel's rows.
        status: Status,
        /// The reason, in one line.
        reason: String,
    },
    /// Every build of the request has ended.
    AllBuilt,
    /// A point's check and samples.
    Measured(Measured),
    /// The whole model is ready and its output checked.
    WholeModelReady(WholeModelReady),
    /// Samples of the whole model.
    WholeModelMeasured(WholeModelMeasured),
    /// Times of the whole model's calls.
    WholeModelProfiled(Box<Profiled>),
    /// The result of running calls of models at the same time.
    SideBySide(SideBySideDone),
}

/// A kernel that was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// The kernel.
    pub id: u64,
    /// The schedule that it got.
    pub choice: Choice,
    /// The schedule's trace, which rebuilds it.
    pub trace: serde_json::Value,
    /// Structural hash of the scheduled program.
    pub program_hash: u64,
    /// Time of scheduling.
    pub schedule_ns: u64,
    /// Time of lowering.
    pub lower_ns: u64,
    /// Time of code generation.
    pub codegen_ns: u64,
    /// Time of the JIT, or of the device's own compiler.
    pub jit_ns: u64,
    /// The kernels of a device other than the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_kernels: Vec<DeviceKernel>,
}

/// The result of measuring a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The kernel.
    pub id: u64,
    /// How its output compares with that of the operator in plain loops.
    pub comparison: Comparison,
    /// The samples. `None` if the output is wrong.
    pub taken: Option<Taken>,
    /// The reference kernel's time around the point over its best: 1 on a quiet machine.
    pub slowdown: f64,
    /// Share of the CPU time of all cores that other processes took meanwhile (0 to 1), where the system reports it.
    #[serde(default)]
    pub other_cpu_share: Option<f64>,
    /// The state that the device reported right after the samples, if it reports one.
    #[serde(default)]
    pub state: Option<DeviceState>,
    /// The simulation, if nothing was timed.
    #[serde(default)]
    pub simulated: Option<SimulatedRun>,
    /// The counts, from calls of their own. `None` if none were requested.
    #[serde(default)]
    pub counted: Option<Box<Counted>>,
    /// The server of the measurement, if it is not this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time of the worker by stage.
    #[serde(default)]
    pub spent: Spent,
}

/// Where a worker's time for a point went, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Making arguments and their copies, and bringing the device into its state.
    pub prepare_ns: u64,
    /// Readings of the reference kernel.
    pub reference_kernel_ns: u64,
    /// Waiting for a quiet moment.
    pub wait_ns: u64,
    /// The first run, and comparing its output.
    pub check_ns: u64,
    /// Warming up and taking samples.
    pub samples_ns: u64,
    /// Calls that are counted, and simulators.
    pub counters_ns: u64,
}

/// A whole model that was built and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WholeModelReady {
    /// How its outputs compare with the reference (the worst of them).
    pub comparison: Comparison,
    /// The reference that they were compared with.
    pub checked_against: String,
    /// Wall time of building, in nanoseconds.
    pub build_ns: u64,
    /// Agreement of the device's own arithmetic with the model's. `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

impl WholeModelReady {
    /// One line for a person, if the outputs differ from the reference.
    pub fn complaint(&self) -> Option<String> {
        let complaint = self.comparison.complaint()?;
        Some(format!(
            "output against {}: {complaint}",
            self.checked_against
        ))
    }
}

/// How the outputs of a device with approximate numbers of its own compare with those in floating point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Number of seeded inputs that both were run on; the device's scales were chosen on the first.
    pub inputs: u64,
    /// Number of inputs for which the largest element of the first output is the same. `None` if that is not a vector.
    pub top1: Option<u64>,
    /// Cosine between the outputs, the least over the inputs.
    pub least_cosine: f64,
    /// Largest absolute difference of an output.
    #[serde(default)]
    pub max_abs_error: f64,
    /// Elements of the outputs of all inputs.
    pub elements: u64,
    /// Simulated time of one run on the device, nanoseconds, without the work of its host.
    pub device_ns: f64,
    /// The device's work for each of its operators, in the device's own form.
    pub layers: Vec<serde_json::Value>,
    /// Calls of operators that run partly or wholly off the device.
    pub cpu_side: Vec<String>,
}

/// The samples of a whole model that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// All samples count.
    All,
    /// Samples around which the device was quiet ([`crate::interference::quiet`]).
    Quiet {
        /// Whether there is a result already, as for [`QuietMoment::Required`].
        again: bool,
    },
}

/// Samples of a whole model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WholeModelMeasured {
    /// End-to-end samples that count, without the instrument.
    pub taken: Taken,
    /// Number of samples discarded because of interference around them.
    #[serde(default)]
    pub left_out: u64,
    /// The operators' functions, with their calls in a run and the median time of one call.
    pub operators: Vec<OperatorInModel>,
    /// Median over instrumented runs of the sum of all operators' times.
    pub instrumented_sum_ns: f64,
    /// Median end-to-end time of the instrumented runs.
    pub instrumented_total_ns: f64,
    /// The reference kernel's time over its idle time, the largest around a sample or an instrumented run that counts.
    #[serde(rename = "drift")]
    pub slowdown: f64,
}

/// An operator as seen inside the whole model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorInModel {
    /// Its function.
    pub symbol: String,
    /// Calls in one run.
    pub calls: u64,
    /// Median time of one call, in nanoseconds.
    pub median_ns: f64,
}
