//! Theoretical occupancy: how many blocks of a kernel fit on a multiprocessor, and which resource runs out first.
//!
//! Blocks are bound by four things, and the fewest count: warps and blocks that the multiprocessor can hold, registers,
//! and shared memory. Registers are given to warps in units of 256, from one of four files, each with a quarter of
//! them. Shared memory is given to blocks in units of 128 bytes (256 before compute capability 8). From capability 8 on
//! the system keeps 1 KiB more for each block. The formula is that of NVIDIA's `cuda_occupancy.h` with the largest
//! share of the first-level cache for shared memory. A test compares it with that header where it is installed.

use super::arch::{Arch, REGISTERS, WARP};

/// Registers are given to a warp in multiples of this.
const REGISTER_UNIT: u64 = 256;
/// Register files of a multiprocessor.
const REGISTER_FILES: u64 = 4;
/// Maximum number of registers of a thread.
const REGISTERS_PER_THREAD: u64 = 255;

/// The resources of a multiprocessor that a kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    /// Threads of a block.
    pub threads: u64,
    /// Registers of a thread.
    pub registers: u64,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u64,
}

/// Occupancy of a multiprocessor by a kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occupancy {
    /// Blocks that fit; 0 for a kernel that cannot be started.
    pub blocks: u64,
    /// Warps of those blocks over the warps that the multiprocessor can hold: a warp that is not full takes a whole one.
    pub share: f64,
    /// The resources that allow no more blocks.
    pub limiters: Vec<&'static str>,
}

/// The occupancy of a kernel on an architecture.
pub(super) fn of(arch: Arch, demand: Demand) -> Occupancy {
    let limits = [
        ("warps", arch.threads / WARP / warps(demand)),
        ("blocks", arch.blocks),
        ("registers", by_registers(demand)),
        ("shared_memory", by_shared_memory(arch, demand)),
    ];
    let blocks = limits.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
    let binding = limits.iter().filter(|(_, limit)| *limit == blocks);
    Occupancy {
        blocks,
        share: (blocks * warps(demand)) as f64 / (arch.threads / WARP) as f64,
        limiters: binding.map(|(name, _)| *name).collect(),
    }
}

/// Warps of a block.
fn warps(demand: Demand) -> u64 {
    demand.threads.div_ceil(WARP).max(1)
}

fn by_registers(demand: Demand) -> u64 {
    if demand.registers == 0 {
        return u64::MAX;
    }
    let of_warp = (demand.registers * WARP).next_multiple_of(REGISTER_UNIT);
    // A block is started only if its warps would fit spread evenly over the files.
    let of_block = of_warp * warps(demand).next_multiple_of(REGISTER_FILES);
    if demand.registers > REGISTERS_PER_THREAD || of_block > REGISTERS {
        return 0;
    }
    REGISTERS / REGISTER_FILES / of_warp * REGISTER_FILES / warps(demand)
}

fn by_shared_memory(arch: Arch, demand: Demand) -> u64 {
    let (unit, reserved) = match arch.capability {
        ..80 => (256, 0),
        _ => (128, 1 << 10),
    };
    let of_block = (demand.shared_bytes + reserved).next_multiple_of(unit);
    match of_block {
        0 => u64::MAX,
        _ => arch.shared_bytes / of_block,
    }
}

#[cfg(test)]
mod tests;
