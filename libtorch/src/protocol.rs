//! Messages between parent and program: one line of JSON an [`Order`], one an [`Answer`]. Times are in nanoseconds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of this protocol; a program of another one is refused.
pub const PROTOCOL: u32 = 2;

/// An order to the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Load a model, run it once and compare its outputs.
    Load(Load),
    /// Run it this many times, unwatched.
    Run {
        /// Number of runs.
        runs: u32,
    },
    /// Run it and record its operators.
    Record(RecordSpec),
    /// Run it without and with the profiler by turns, to see what that costs.
    Pairs {
        /// Time to spend.
        budget_ns: u64,
    },
}

/// A model to load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The TorchScript file.
    pub model: PathBuf,
    /// File of the tensors' values, raw and little-endian.
    pub tensors: PathBuf,
    /// Inputs in the order of the arguments.
    pub inputs: Vec<StoredTensor>,
    /// Outputs to expect.
    pub outputs: Vec<StoredTensor>,
    /// Number of threads.
    pub threads: u32,
    /// The device to run on.
    pub device: Device,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first GPU of NVIDIA.
    Cuda,
}

/// A tensor in the file of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTensor {
    /// Its extents.
    pub shape: Vec<i64>,
    /// Element type, as NumPy names it.
    pub dtype: String,
    /// Offset of the tensor in the file.
    pub offset: u64,
    /// Its length in the file.
    pub bytes: u64,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSpec {
    /// Runs that are watched and dropped.
    pub warmup: u32,
    /// Runs that are recorded.
    pub active: u32,
    /// Number of the first recorded run in the job, from 0.
    pub first_step: u64,
    /// Properties of each operator to record besides its time.
    pub detail: Detail,
    /// File of Kineto's own trace, in Chrome's format.
    pub trace: Option<PathBuf>,
}

/// Properties of each operator to record besides its time; each costs time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Shapes of its inputs.
    pub shapes: bool,
    /// Memory that it takes and gives back.
    pub memory: bool,
    /// The modules that it is called in.
    pub modules: bool,
}

/// An answer of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The model is loaded.
    Loaded {
        /// Version of the protocol.
        protocol: u32,
        /// Largest difference of an output to the expected one, over the largest expected value.
        error: f64,
        /// Version of the framework.
        #[serde(default)]
        version: String,
    },
    /// It has run; the time of each run.
    Ran {
        /// Times of the runs, nanoseconds.
        ns: Vec<u64>,
    },
    /// The cycle was recorded.
    Recorded(Cycle),
    /// Times without and with the profiler.
    Pairs {
        /// Pairs of times without and with the profiler, nanoseconds.
        pairs: Vec<(f64, f64)>,
    },
    /// The request cannot be done.
    Failed {
        /// The failed action, and why.
        message: String,
    },
}

/// Recorded runs that follow each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Number of the first run, from 0.
    pub first_step: u64,
    /// Time of each run.
    pub steps_ns: Vec<u64>,
    /// Everything that Kineto saw in them.
    pub events: Vec<Event>,
}

/// Something that Kineto saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The operator's name, `aten::…`, or the function's.
    pub name: String,
    /// The kind of event.
    pub what: What,
    /// When it began.
    pub start_ns: u64,
    /// Its duration.
    pub duration_ns: u64,
    /// Its thread.
    pub thread: u64,
    /// Shapes of its inputs; empty for inputs that are not tensors.
    pub shapes: Vec<Vec<i64>>,
    /// The modules that it is called in, the innermost last.
    pub modules: Vec<String>,
    /// Bytes taken (or given back, below 0), for [`What::Memory`].
    pub bytes: i64,
    /// A call's number. For [`What::Kernel`], that of the call that launched it, or 0.
    #[serde(default)]
    pub correlation: u64,
    /// Floating-point operations, a multiply-add being two, of convolutions, products and sums whose shapes were recorded; 0 for
    /// other operators.
    #[serde(default)]
    pub flops: u64,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A call of an operator.
    #[default]
    Operator,
    /// A function of TorchScript, or a run.
    Function,
    /// Memory taken or given back.
    Memory,
    /// Work of a GPU, by the GPU's clock: a kernel, or a copy.
    Kernel,
}
