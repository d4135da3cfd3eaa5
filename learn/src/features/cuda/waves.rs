//! Cycles of a GPU kernel, wave by wave, for the estimate `steps`.
//!
//! A multiprocessor takes as many blocks at once as it has room for. Together they take the time in which it issues the
//! instructions of all their warps. A block takes at least the latency of its instructions one after the other. So few
//! and small blocks leave a multiprocessor idle however much they compute. All reads from global memory go through the
//! second-level cache. The constants are of a nominal device, chosen on `opbench-cuda` (for products) and on a log of
//! ResNet-18. The number of its multiprocessors is the machine's, or fitted (`models::rates`).

use crate::features::cuda::describe::occupancy;
use crate::features::cuda::nest::{GpuNest, Template};
use crate::features::operator::Operator;

/// Instructions for loading an element from global into shared memory: addresses, bounds, the load, the store.
const LOAD_INSTRUCTIONS: f64 = 16.0;
/// Cycles from an instruction to the next one of the same warp.
const LATENCY: f64 = 6.0;
/// Cycles that a multiprocessor takes for an element from the second-level cache.
const ELEMENT_CYCLES: f64 = 1.6;
/// Cycles for such an element in a product, whose tiles hold few neighbours of each row.
const PRODUCT_ELEMENT_CYCLES: f64 = 4.0;

/// A kernel's blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::features) struct Waves {
    /// Number of blocks.
    blocks: f64,
    /// Number of resident blocks of a multiprocessor.
    resident: f64,
    /// Warps of a block.
    warps: f64,
    /// Instructions of a warp.
    instructions: f64,
    /// Cycles that one multiprocessor would take for all reads of the blocks from global memory.
    loading: f64,
}

impl Waves {
    /// The waves of an operator's kernel.
    pub fn of(operator: &Operator, nest: &GpuNest) -> Self {
        let step = nest.step_work()
            + (nest.fragment_rows + nest.fragment_columns) * nest.stage()
            + LOAD_INSTRUCTIONS * nest.loads();
        let element_cycles = match nest.template {
            Template::LargeDense | Template::BatchMatmul => PRODUCT_ELEMENT_CYCLES,
            _ => ELEMENT_CYCLES,
        };
        Self {
            blocks: nest.blocks,
            resident: occupancy(nest),
            warps: nest.warps(),
            instructions: nest.steps * step,
            loading: element_cycles * nest.global_loads(operator),
        }
    }

    /// Cycles on this many multiprocessors: whole waves, then the remaining blocks, spread evenly.
    pub fn cycles(&self, multiprocessors: f64) -> f64 {
        let wave = |blocks: f64| {
            let issued = blocks * self.warps * self.instructions;
            let alone = LATENCY * self.instructions;
            if blocks > 0.0 { issued.max(alone) } else { 0.0 }
        };
        let of_wave = multiprocessors * self.resident;
        let whole = (self.blocks / of_wave).floor();
        let rest = ((self.blocks - whole * of_wave) / multiprocessors).ceil();
        let computed = whole * wave(self.resident) + wave(rest);
        computed.max(self.loading / multiprocessors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Waves = Waves {
        blocks: 64.0,
        resident: 4.0,
        warps: 2.0,
        instructions: 1000.0,
        loading: 0.0,
    };

    #[test]
    fn a_multiprocessor_issues_for_all_its_warps() {
        // 64 blocks on 8 of them: two waves of 4 blocks, 2 warps each.
        assert_eq!(KERNEL.cycles(8.0), 2.0 * 8.0 * 1000.0);
        // The 65th block is a wave of its own: no other block hides its latency.
        let more = Waves {
            blocks: 65.0,
            ..KERNEL
        };
        assert_eq!(more.cycles(8.0), 16_000.0 + LATENCY * 1000.0);
    }

    #[test]
    fn few_blocks_do_not_hide_latency() {
        let few = Waves {
            blocks: 8.0,
            ..KERNEL
        };
        assert_eq!(few.cycles(8.0), LATENCY * 1000.0);
        assert_eq!(
            few.cycles(80.0),
            few.cycles(8.0),
            "no fewer cycles on more of them"
        );
    }

    #[test]
    fn nothing_is_quicker_than_its_loads() {
        let loads = Waves {
            loading: 8e6,
            ..KERNEL
        };
        assert_eq!(loads.cycles(8.0), 1e6);
    }
}
