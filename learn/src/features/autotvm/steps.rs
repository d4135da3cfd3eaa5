//! Instructions of one piece of the parallel loop of AutoTVM's CPU kernels, counted along their loop nest, for the
//! estimate `steps`.
//!
//! A nominal core with vectors of 4 lanes, 16 registers, no fused multiply-add, as TVM generates code for `llvm` without a
//! processor. What counts is how schedules of one computation compare; the models correct the rest. Of this project's own
//! kernels cycles are estimated instead ([`crate::features::cpu::cycles`]).

use crate::features::cpu::nest::{CpuNest, Template};
use crate::features::operator::{Class, Operator};

/// Lanes of a vector.
const LANES: f64 = 4.0;
/// Vector registers.
const REGISTERS: f64 = 16.0;
/// Instructions that close an iteration: count, compare, jump.
const LOOP_INSTRUCTIONS: f64 = 3.0;

impl CpuNest {
    /// Instructions of one iteration of the parallel loop. None for this project's tiled kernels, and for samples of
    /// MetaSchedule, whose loops are not known well enough.
    pub(in crate::features) fn task_instructions(&self, operator: &Operator) -> Option<f64> {
        if matches!(self.template, Template::Sampled | Template::Tiled) {
            return None;
        }
        let steps = self.task_work * self.whole_tiles() / self.register_tile;
        // A tile's sums are set to zero, read and written; where lanes run along the reduction, they are added up.
        let along_depth = self.template == Template::PlainDense;
        let (depth, finish) = if along_depth {
            (
                self.depth_outer * self.depth_tile / self.vector,
                self.register_tile,
            )
        } else {
            (
                self.depth_outer * self.depth_tile,
                3.0 * self.vectors() * self.broadcast_tile,
            )
        };
        Some(steps * (self.step_instructions(operator) + finish / depth.max(1.0)))
    }

    /// Vector instructions for one value of the vectorised axis: LLVM widens a length that is no power of two.
    fn vectors(&self) -> f64 {
        (self.vector.log2().ceil().exp2() / LANES).ceil()
    }

    /// Instructions of one step of the reduction in one register tile.
    fn step_instructions(&self, operator: &Operator) -> f64 {
        let vectors = self.vectors();
        let sums = vectors * self.broadcast_tile;
        let loads = match (self.template, operator.class) {
            (Template::PlainDense, _) => vectors * (self.width_tile + self.columns_block),
            // Each output of a depthwise convolution has an input of its own.
            (_, Class::Depthwise) => vectors + sums,
            // A value of the other operand is loaded and spread over the lanes.
            _ => vectors + 2.0 * self.broadcast_tile,
        };
        // Beside the sums, a vector of each operand is held; what is more is written and read again.
        let spilled = (sums + vectors.min(2.0) + 1.0 - REGISTERS).max(0.0);
        2.0 * sums + loads + 2.0 * spilled + LOOP_INSTRUCTIONS / self.unrolled(operator)
    }

    /// Steps of the reduction in one iteration of its innermost loop.
    fn unrolled(&self, operator: &Operator) -> f64 {
        match self.template {
            Template::BlockedConv if self.unroll > 0.0 => operator.kernel_width,
            Template::PackedDense => self.depth_tile.max(1.0),
            _ => 1.0,
        }
    }

    /// Outputs of the tiles along a row over those that are wanted: a partial tile takes as long as a whole one.
    fn whole_tiles(&self) -> f64 {
        if self.width_remainder > 0.0 {
            let whole = self.tiles * self.width_tile;
            whole / (whole - self.width_tile + self.width_remainder)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::autotvm::Decode;
    use crate::features::knobs::Knobs;
    use crate::testing::{conv_row, dense_row};

    fn instructions(row: &opdata::Row) -> f64 {
        let operator = Operator::of_row(row);
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        CpuNest::decode(&operator, row, &knobs)
            .unwrap()
            .task_instructions(&operator)
            .unwrap()
    }

    #[test]
    fn a_convolution_that_fits_the_registers() {
        // 2 vectors × 4 outputs: 8 sums. A step: 16 to multiply and add, 2 vectors of weights, 4 inputs loaded and
        // spread, a third of 3 for the loop. 7 tiles × 16 × 9 steps; 24 more for each tile.
        let row = |unroll: bool| {
            conv_row(
                [1, 16, 28, 28],
                [16, 3, 1],
                &format!(
                    r#"{{"tile_ic":[-1,16],"tile_oc":[-1,8],"tile_ow":[-1,4],"unroll_kw":{unroll}}}"#
                ),
            )
        };
        let expected = 7.0 * (144.0 * (16.0 + 2.0 + 8.0 + 1.0) + 24.0);
        assert!((instructions(&row(true)) - expected).abs() < 1e-6);
        let rolled = 7.0 * (144.0 * (16.0 + 2.0 + 8.0 + 3.0) + 24.0);
        assert!((instructions(&row(false)) - rolled).abs() < 1e-6);
    }

    #[test]
    fn spills_odd_lanes_and_partial_tiles_cost() {
        let of = |columns: u64, width: u64| {
            let row = conv_row(
                [1, 16, 28, 28],
                [48, 1, 1],
                &format!(
                    r#"{{"tile_ic":[-1,16],"tile_oc":[-1,{columns}],"tile_ow":[-1,{width}],"tile_oh":1}}"#
                ),
            );
            instructions(&row) / columns as f64
        };
        // 4 vectors × 7 outputs: 28 sums, 15 more values than registers. A step: 56 + 4 + 14 + 30 + 3; 4 tiles of 16
        // steps, and 84 to finish each. With 2 outputs nothing is spilled: 16 + 4 + 4 + 3, 14 tiles, 24 each.
        assert!((of(16, 7) - 4.0 * (16.0 * 107.0 + 84.0) / 16.0).abs() < 1e-6);
        assert!((of(16, 2) - 14.0 * (16.0 * 27.0 + 24.0) / 16.0).abs() < 1e-6);
        // 12 lanes take 16.
        assert!((of(12, 2) / of(16, 2) - 16.0 / 12.0).abs() < 1e-9);
        // 4 tiles of 8 for 28 outputs, as for 32; 4 tiles of 7.
        assert!((of(4, 8) - 4.0 * (16.0 * 36.0 + 24.0) / 4.0).abs() < 1e-6);
        assert!((of(4, 7) - 4.0 * (16.0 * 32.0 + 21.0) / 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_product_along_the_reduction_adds_up_its_lanes() {
        // 4 vectors of 4 lanes; 1 × 2 outputs: 8 sums, 12 loads, 16 to multiply and add, 3 for the loop; 64 ÷ 16 steps,
        // then 2 × 16 lanes.
        let row = dense_row(
            1,
            10,
            64,
            r#"{"tile_y":[-1,1],"tile_x":[-1,2],"tile_k":[-1,16]}"#,
        );
        assert!((instructions(&row) - (4.0 * (16.0 + 12.0 + 3.0) + 32.0)).abs() < 1e-6);
    }
}
