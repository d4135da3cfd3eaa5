//! The knobs of the templates.

use serde::{Deserialize, Serialize};

/// Knobs of [`super::contraction`]: a product whose tile is kept in shared memory and registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileKnobs {
    /// Rows of the output that a block of threads computes.
    pub block_m: i64,
    /// Columns of the output that a block of threads computes.
    pub block_n: i64,
    /// Steps of the sum whose operands are in shared memory at once.
    pub block_k: i64,
    /// Rows that a thread computes.
    pub thread_m: i64,
    /// Columns that a thread computes.
    pub thread_n: i64,
    /// Maximum number of elements per load or store.
    pub vector: i64,
    /// Largest loop that gets an unroll pragma, in steps; 0 leaves it to the compiler.
    pub unroll: i64,
    /// Tiles in memory at once. With 1, a tile is loaded, then computed. With 2, the next tile is loaded into registers
    /// while this one is computed. With more, all but one are on their way by asynchronous copies.
    pub stages: i64,
    /// Blocks of threads that share each sum; a kernel of its own adds their parts.
    #[serde(default = "whole")]
    pub split: i64,
}

/// The default: a sum that is not shared. Rows of earlier versions lack this knob.
fn whole() -> i64 {
    1
}

impl TileKnobs {
    /// Threads of a block.
    pub fn threads(&self) -> i64 {
        (self.block_m / self.thread_m.max(1)) * (self.block_n / self.thread_n.max(1))
    }
}

/// Knobs of [`super::tensor_core`]: a product of matrix fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentKnobs {
    /// Rows of the output that a block of threads computes.
    pub block_m: i64,
    /// Columns of the output that a block of threads computes.
    pub block_n: i64,
    /// Steps of the sum whose operands are in shared memory at once.
    pub block_k: i64,
    /// Rows that a warp computes.
    pub warp_m: i64,
    /// Columns that a warp computes.
    pub warp_n: i64,
    /// Maximum number of elements per load or store.
    pub vector: i64,
    /// Largest loop that gets an unroll pragma, in steps; 0 leaves it to the compiler.
    pub unroll: i64,
    /// The same as [`TileKnobs::stages`].
    pub stages: i64,
    /// The same as [`TileKnobs::split`].
    #[serde(default = "whole")]
    pub split: i64,
}

impl FragmentKnobs {
    /// Warps of a block.
    pub fn warps(&self) -> i64 {
        (self.block_m / self.warp_m.max(1)) * (self.block_n / self.warp_n.max(1))
    }
}

/// Knobs of [`super::reduction`]: each result is summed by several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionKnobs {
    /// Threads of a block.
    pub block_size: i64,
    /// Results that a block computes side by side; the other threads share each sum.
    pub results: i64,
    /// Maximum number of elements per load.
    pub vector: i64,
    /// Largest loop that gets an unroll pragma, in steps; 0 leaves it to the compiler.
    pub unroll: i64,
}

/// Knobs of [`super::rows`]: a block of threads for each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsKnobs {
    /// Threads of a block.
    pub block_size: i64,
    /// Largest loop that gets an unroll pragma, in steps; 0 leaves it to the compiler.
    pub unroll: i64,
}

/// Knobs of [`super::window`]: a thread for each result, or a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowKnobs {
    /// Threads of a block.
    pub block_size: i64,
    /// Results of a thread.
    pub thread_tile: i64,
    /// Largest loop that gets an unroll pragma, in steps; 0 leaves it to the compiler.
    pub unroll: i64,
}

/// Knobs of [`super::fallback`]: every block of the operator is a kernel, its elements shared out over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementKnobs {
    /// Threads of a block.
    pub block_size: i64,
    /// Maximum number of elements per load or store.
    pub vector: i64,
}

/// The knobs of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "template", rename_all = "snake_case")]
pub enum Knobs {
    /// A product tiled in shared memory and registers.
    Contraction(TileKnobs),
    /// A product on tensor cores.
    TensorCore(FragmentKnobs),
    /// One reduction by several threads each.
    Reduction(ReductionKnobs),
    /// Several reductions over the same rows.
    Rows(RowsKnobs),
    /// One reduction by a thread each.
    Window(WindowKnobs),
    /// Whatever is left.
    Fallback(ElementKnobs),
}
