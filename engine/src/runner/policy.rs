//! What a worker may use: time and memory.

use serde::{Deserialize, Serialize};

/// What a worker process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPolicy {
    /// Longest time one operator may take to compile, in nanoseconds.
    pub compile_timeout_ns: u64,
    /// Longest time one point may take to run, check and measure, in nanoseconds.
    pub measure_timeout_ns: u64,
    /// Most statements of a lowered kernel that are worth compiling.
    pub max_statements: u64,
    /// Most memory, in MiB.
    pub memory_limit_mib: u64,
}
