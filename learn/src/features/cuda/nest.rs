//! The loop nest of a GPU kernel under its schedule: grid, threads, staged tiles, loads. All counts are plain (not
//! logarithms) and at least 1 unless said otherwise. It comes from `own` and `autotvm::gpu`.

use crate::features::operator::Operator;

/// Threads that execute together.
const WARP: f64 = 32.0;
/// Multiprocessors of the nominal device.
pub(in crate::features) const SMS: f64 = 40.0;

/// The template that made the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// One block an output, reduction across threads.
    SmallDense = 1,
    /// Tiled matrix product with virtual threads.
    LargeDense = 2,
    /// Tiled batched product.
    BatchMatmul = 3,
    /// Winograd's convolution; the nest is of its product.
    Winograd = 4,
    /// Direct convolution.
    Direct = 5,
    /// Direct depthwise convolution.
    Depthwise = 6,
    /// This project's product tiled in shared memory and registers.
    Tiled = 7,
    /// This project's product on tensor cores.
    Fragments = 8,
}

/// How a block loads one staged tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loading {
    /// Load slots of a thread, a staged step.
    pub slots: f64,
    /// Number of threads whose reads of the tile hit the same bank.
    pub conflict: f64,
    /// Contiguous elements in global memory.
    pub run: f64,
}

/// A kernel's loops under its schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuNest {
    /// The template.
    pub template: Template,
    /// Blocks of the grid.
    pub blocks: f64,
    /// Threads of a block.
    pub threads: f64,
    /// Threads along the fastest index.
    pub threads_x: f64,
    /// Virtual threads of a thread.
    pub virtual_threads: f64,
    /// Fragment of the first operand that a thread holds.
    pub fragment_rows: f64,
    /// Fragment of the second operand.
    pub fragment_columns: f64,
    /// Sums that a thread holds.
    pub accumulators: f64,
    /// Innermost tile.
    pub inner_tile: f64,
    /// Staged elements of both operands, 0 if nothing is staged.
    pub staged: f64,
    /// Staged steps.
    pub steps: f64,
    /// Reduction inside a staged step, middle factor (unrolled).
    pub depth_middle: f64,
    /// Reduction inside a staged step, innermost factor.
    pub depth_inner: f64,
    /// Multiply-adds of a thread.
    pub thread_work: f64,
    /// Multiply-adds of the whole kernel.
    pub kernel_work: f64,
    /// Limit of automatic unrolling.
    pub unroll_limit: f64,
    /// 1 if the unrolling is explicit.
    pub unroll_explicit: f64,
    /// Rows of a block's tile.
    pub block_rows: f64,
    /// Columns of a block's tile.
    pub block_columns: f64,
    /// Computed over wanted.
    pub padding_ratio: f64,
    /// Loading of the first operand.
    pub first: Loading,
    /// Loading of the second operand.
    pub second: Loading,
}

impl GpuNest {
    /// Length of a staged step.
    pub fn stage(&self) -> f64 {
        self.depth_middle * self.depth_inner
    }

    /// Warps of a block.
    pub fn warps(&self) -> f64 {
        (self.threads / WARP).ceil()
    }

    /// Share of a block's lanes in use.
    pub fn warp_fill(&self) -> f64 {
        self.threads / (self.warps() * WARP)
    }

    /// Shared memory of a block with one copy of the tiles, bytes.
    pub fn shared_bytes(&self) -> f64 {
        4.0 * self.staged
    }

    /// Registers of a thread, estimated: sums, fragments, addresses. `dense_large_batch.gpu` reads its fragments for the whole innermost
    /// reduction before it multiplies.
    pub fn registers(&self) -> f64 {
        let held = match self.template {
            Template::LargeDense => self.depth_inner,
            _ => 1.0,
        };
        self.accumulators + (self.fragment_rows + self.fragment_columns) * held + 16.0
    }

    /// Load slots of a thread in one step.
    pub fn loads(&self) -> f64 {
        self.first.slots + self.second.slots
    }

    /// Multiply-adds of a thread in one step.
    pub fn step_work(&self) -> f64 {
        self.accumulators * self.stage()
    }

    /// Reads of shared memory of a thread in one step, conflicts counted.
    pub fn shared_reads(&self) -> f64 {
        (self.fragment_rows * self.first.conflict + self.fragment_columns * self.second.conflict)
            * self.stage()
    }

    /// Elements that all blocks read from global memory. Without staging every block reads both operands along the whole
    /// reduction.
    pub fn global_loads(&self, operator: &Operator) -> f64 {
        if self.staged > 0.0 {
            self.blocks * self.steps * self.staged
        } else {
            self.blocks * 2.0 * operator.depth
        }
    }

    /// Estimated instructions of a thread in one step: arithmetic, shared reads, loads with their addresses,
    /// synchronisation.
    pub fn step_instructions(&self) -> f64 {
        self.step_work() + self.shared_reads() + 4.0 * self.loads() + 20.0
    }
}
