//! The loop nest of a CPU kernel under its schedule: parallel pieces, register tile, bytes of each level. Numbers are counts,
//! not logarithms. The modules `own`, `sampled`, `default_tile` and `autotvm::cpu` make it.

use crate::features::operator::Operator;
use crate::features::scale::ceil_div;

/// The template that made the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Convolution on blocked channels.
    BlockedConv = 11,
    /// Product with packed weights.
    PackedDense = 12,
    /// Product vectorised along the reduction.
    PlainDense = 13,
    /// Batched product.
    BatchMatmul = 14,
    /// ARM's spatially packed convolution.
    SpatialPack = 15,
    /// Winograd's convolution.
    Winograd = 16,
    /// VTA's convolution.
    Vta = 17,
    /// A tiled reduction of this project.
    Tiled = 18,
    /// A sample of MetaSchedule's space.
    Sampled = 19,
    /// Product that packs its weights at each call.
    PackingDense = 20,
}

/// A kernel's loops under its schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuNest {
    /// The template.
    pub template: Template,
    /// Iterations of the parallel loop.
    pub parallel: f64,
    /// Multiply-adds of one iteration.
    pub task_work: f64,
    /// Channels of a reduction block.
    pub depth_block: f64,
    /// Columns of a block.
    pub columns_block: f64,
    /// Outputs along the width in the register tile.
    pub width_tile: f64,
    /// Rows of outputs in a tile.
    pub height_tile: f64,
    /// 1 if the window is unrolled (or steps of the unrolled inner loop).
    pub unroll: f64,
    /// Lanes of the vectorised loop.
    pub vector: f64,
    /// Sums of the register tile.
    pub register_tile: f64,
    /// The tile without its vector axis.
    pub broadcast_tile: f64,
    /// Outer steps of the reduction.
    pub depth_outer: f64,
    /// Reduction inside.
    pub depth_tile: f64,
    /// Bytes of weights of an iteration.
    pub weight_bytes: f64,
    /// Bytes of input of an iteration.
    pub input_bytes: f64,
    /// Bytes of output of an iteration.
    pub output_bytes: f64,
    /// Tiles of an iteration.
    pub tiles: f64,
    /// Bytes of a tile's input rows.
    pub row_bytes: f64,
    /// Input of the inner loops, bytes.
    pub inner_input_bytes: f64,
    /// Weights of the inner loops, bytes.
    pub inner_weight_bytes: f64,
    /// Outputs in the last, partial tile of a row.
    pub width_remainder: f64,
}

/// The register tile of a reduction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::features) struct RegisterTile {
    /// Values of a vector.
    pub vector: f64,
    /// Vectors side by side.
    pub blocks: f64,
    /// Values along the other axes.
    pub broadcast: f64,
}

impl RegisterTile {
    /// The nest of a kernel that computes an operator by this tile.
    pub fn nest(self, o: &Operator) -> CpuNest {
        let Self {
            vector,
            blocks,
            broadcast,
        } = self;
        let columns_block = vector * blocks;
        let outputs = (o.batch * o.rows * o.columns).max(1.0);
        let tile = columns_block * broadcast;
        let tiles = ceil_div(outputs, tile);
        let element = o.element_bytes;
        CpuNest {
            template: Template::Tiled,
            parallel: tiles,
            task_work: tile * o.depth,
            depth_block: o.depth,
            columns_block,
            width_tile: broadcast,
            height_tile: 1.0,
            unroll: 0.0,
            vector,
            register_tile: tile,
            broadcast_tile: broadcast * blocks,
            depth_outer: 1.0,
            depth_tile: o.depth,
            weight_bytes: columns_block * o.depth * element,
            input_bytes: broadcast * o.depth * element,
            output_bytes: tile * element,
            tiles: 1.0,
            row_bytes: broadcast * element,
            inner_input_bytes: broadcast * o.depth * element,
            inner_weight_bytes: columns_block * o.depth * element,
            width_remainder: o.out_width % broadcast.max(1.0),
        }
    }
}

/// A product tile of `rows` × `columns` (both `[outer, middle, inner]`) over a reduction `[outer, inner]`.
pub(in crate::features) struct Product {
    pub rows: [f64; 3],
    pub columns: [f64; 3],
    pub depth: [f64; 2],
}

impl Product {
    /// The nest of a kernel that computes an operator by this tile.
    pub fn nest(&self, o: &Operator, template: Template) -> CpuNest {
        let task_rows = self.rows[1] * self.rows[2];
        let task_columns = self.columns[1] * self.columns[2];
        let (depth_outer, depth_tile) = (self.depth[0], self.depth[1]);
        CpuNest {
            template,
            parallel: o.batch * self.rows[0] * self.columns[0],
            task_work: task_rows * task_columns * o.depth,
            depth_block: depth_tile,
            columns_block: self.columns[2],
            width_tile: self.rows[2],
            height_tile: self.columns[1],
            unroll: 0.0,
            vector: self.columns[2],
            register_tile: self.rows[2] * self.columns[2],
            broadcast_tile: self.rows[2],
            depth_outer,
            depth_tile,
            weight_bytes: task_columns * o.depth * 4.0,
            input_bytes: task_rows * o.depth * 4.0,
            output_bytes: task_rows * task_columns * 4.0,
            tiles: self.columns[1] * self.rows[1],
            row_bytes: depth_tile * 4.0,
            inner_input_bytes: self.rows[2] * depth_tile * 4.0,
            inner_weight_bytes: depth_tile * self.columns[2] * 4.0,
            width_remainder: 0.0,
        }
    }
}
