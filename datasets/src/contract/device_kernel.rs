//! A kernel of a device as its compiler describes it: the resources that it needs, known without running it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One kernel; an operator may start several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceKernel {
    /// Its name in the source.
    pub name: String,
    /// Threads of a block.
    pub threads_per_block: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Size of its machine code, in bytes.
    pub code_bytes: Option<u64>,
    /// Registers of a thread.
    pub registers_per_thread: Option<u64>,
    /// Shared memory of a block, in bytes: declared in the kernel and asked for at its start.
    pub shared_bytes_per_block: Option<u64>,
    /// Local memory of a thread, in bytes.
    pub local_bytes_per_thread: Option<u64>,
    /// Bytes that a thread stores to local memory because registers ran out.
    pub spill_store_bytes: Option<u64>,
    /// Bytes that a thread loads from there.
    pub spill_load_bytes: Option<u64>,
    /// Maximum number of resident threads of a multiprocessor, over the number that it can hold (0 to 1).
    pub occupancy: Option<f64>,
    /// The resources that bound the occupancy, joined with `;`.
    pub occupancy_limiter: Option<String>,
    /// Machine instructions in its code by opcode; empty where nothing disassembles it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub instructions: BTreeMap<String, u64>,
}

impl DeviceKernel {
    /// Bytes that a thread stores to local memory and loads from it because registers ran out.
    pub fn spill_bytes(&self) -> Option<u64> {
        Some(self.spill_store_bytes? + self.spill_load_bytes?)
    }
}
