//! Faults of a profile, a configuration or a stream of instructions, on one line.

use crate::isa::{MemoryType, Stage, UnknownField};

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error(
        "cannot read the profile {path}: {reason}; give one of {known}, or the path of a TOML file"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
        /// The built-in profiles.
        known: String,
    },
    /// It is not the TOML of a profile.
    #[error("the profile {path} is not valid: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// The parser's message, on one line.
        reason: String,
    },
    /// A value makes no sense.
    #[error("the profile {path} makes no sense: {field} is {value}, {expected}")]
    Nonsense {
        /// The file.
        path: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The expected values.
        expected: &'static str,
    },
}

/// Why a configuration cannot be compiled or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The workload itself.
    #[error("{0}")]
    Workload(&'static str),
    /// A tile does not divide its extent.
    #[error("{knob} is {value}, which does not divide {extent}")]
    Divides {
        /// The knob.
        knob: &'static str,
        /// Its value.
        value: u64,
        /// The extent that it must divide.
        extent: u64,
    },
    /// A number of virtual threads.
    #[error("{0} is neither 1 nor 2")]
    Threads(&'static str),
    /// Two kinds of virtual threads at once: the driver refuses their micro-op kernels.
    #[error("oc_nthread and h_nthread are both 2, which the driver refuses")]
    BothThreads,
    /// Padding is done by loads of one block of channels.
    #[error("a padded input is loaded one block of channels at a time, and tile_ci is {0}")]
    PaddedChannels(u64),
    /// A load or store has more than two dimensions.
    #[error("the {0} tile is no rectangle in memory")]
    NoRectangle(&'static str),
    /// A field of an instruction is too narrow.
    #[error("{what} of {value} does not fit an instruction")]
    Field {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A memory on the chip is too small.
    #[error("the {memory} tile takes {elements} elements of {depth}")]
    Overflow {
        /// The memory.
        memory: &'static str,
        /// Size of the threads' tiles together.
        elements: u64,
        /// The available size.
        depth: u64,
    },
    /// The matrix unit would read an accumulator that is still being written.
    #[error("an accumulator is used again within two micro-ops, which the driver refuses")]
    Dependency,
}

/// Why a stream of instructions cannot be run. Instructions count from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// Bits that no instruction has.
    #[error("instruction {at}: {field}")]
    Unknown {
        /// Index of the instruction.
        at: usize,
        /// The field.
        field: UnknownField,
    },
    /// An instruction that the module cannot do.
    #[error("instruction {at}: {what}")]
    Illegal {
        /// Index of the instruction.
        at: usize,
        /// The reason.
        what: String,
    },
    /// No stage can continue.
    #[error(
        "deadlock: the {stage} stage waits at instruction {at} for a token of the {queue} queue that nothing pushes"
    )]
    Deadlock {
        /// The stage that waits.
        stage: Stage,
        /// The instruction that waits.
        at: usize,
        /// The token queue.
        queue: &'static str,
    },
    /// The stream does not end with FINISH.
    #[error(
        "the stream of {instructions} instructions has no FINISH, so the driver would wait for ever"
    )]
    NoFinish {
        /// Number of instructions.
        instructions: usize,
    },
    /// A place outside a memory on the chip.
    #[error("instruction {at}: {memory} has {size} elements, element {index} is accessed")]
    SramOverflow {
        /// Index of the instruction.
        at: usize,
        /// The memory.
        memory: MemoryType,
        /// Its number of elements.
        size: usize,
        /// The element accessed.
        index: u64,
    },
    /// A place outside a tensor in DRAM.
    #[error(
        "instruction {at}: the {memory} tensor in DRAM has {size} elements, element {index} is accessed"
    )]
    DramOutOfRange {
        /// Index of the instruction.
        at: usize,
        /// The memory accessed.
        memory: MemoryType,
        /// Its number of elements.
        size: usize,
        /// The element accessed.
        index: u64,
    },
    /// An element that nothing wrote.
    #[error("instruction {at}: element {index} of {memory} is read before anything writes it")]
    Undefined {
        /// Index of the instruction.
        at: usize,
        /// The memory.
        memory: MemoryType,
        /// Index of the element.
        index: usize,
    },
    /// More work than a stream may contain.
    #[error("instruction {at}: the stream asks for more than {limit} vector operations")]
    TooLong {
        /// The instruction at which the limit was reached.
        at: usize,
        /// The limit.
        limit: u64,
    },
}
