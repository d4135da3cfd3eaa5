//! Instructions of one piece of a CPU kernel's parallel loop, counted along its loop nest, for the estimate `steps`.
//!
//! Templates of AutoTVM: a nominal core with vectors of 4 lanes, 16 registers, no fused multiply-add, as TVM generates
//! code for `llvm` without a processor. This project's own: the machine's vectors. What counts is how schedules of one
//! computation compare; the models correct the rest.

use opmodels::tile::VectorUnit;

use super::cpu::{CpuNest, Template};
use super::operator::{Class, Operator};

/// The nominal core of other tools' templates.
const NOMINAL: VectorUnit = VectorUnit {
    bits: 128,
    registers: 16,
};
/// Instructions that close an iteration: count, compare, jump.
const LOOP_INSTRUCTIONS: f64 = 3.0;

impl CpuNest {
    /// Instructions of one iteration of the parallel loop on a machine with this vector unit. Templates of AutoTVM are
    /// counted on the nominal core. None for this project's own where the machine's unit is not known, and for samples of
    /// MetaSchedule, whose loops are not known well enough.
    pub(super) fn task_instructions(
        &self,
        operator: &Operator,
        unit: Option<VectorUnit>,
    ) -> Option<f64> {
        let unit = match self.template {
            Template::Sampled => return None,
            Template::Tiled => unit?,
            _ => NOMINAL,
        };
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
                3.0 * self.vectors(unit) * self.broadcast_tile,
            )
        };
        Some(steps * (self.step_instructions(operator, unit) + finish / depth.max(1.0)))
    }

    /// Vector instructions for one value of the vectorised axis: LLVM widens a length that is no power of two.
    fn vectors(&self, unit: VectorUnit) -> f64 {
        (self.vector.log2().ceil().exp2() / unit.lanes() as f64).ceil()
    }

    /// Instructions of one step of the reduction in one register tile.
    fn step_instructions(&self, operator: &Operator, unit: VectorUnit) -> f64 {
        let vectors = self.vectors(unit);
        let sums = vectors * self.broadcast_tile;
        let loads = match (self.template, operator.class) {
            (Template::PlainDense, _) => vectors * (self.width_tile + self.columns_block),
            // Each output of a depthwise convolution has an input of its own.
            (_, Class::Depthwise) => vectors + sums,
            // The vectors of weights, side by side, and values of the input, each spread over the lanes by its load.
            (Template::Tiled, _) => vectors * self.columns_block / self.vector + self.width_tile,
            // A value of the other operand is loaded and spread over the lanes.
            _ => vectors + 2.0 * self.broadcast_tile,
        };
        // Beside the sums, a vector of each operand is held; what is more is written and read again.
        let registers = f64::from(unit.registers);
        let spilled = (sums + vectors.min(2.0) + 1.0 - registers).max(0.0);
        // This project compiles for the machine at hand, which multiplies and adds in one.
        let arithmetic = match self.template {
            Template::Tiled => sums,
            _ => 2.0 * sums,
        };
        arithmetic + loads + 2.0 * spilled + LOOP_INSTRUCTIONS / self.unrolled(operator)
    }

    /// Steps of the reduction in one iteration of its innermost loop.
    fn unrolled(&self, operator: &Operator) -> f64 {
        match self.template {
            Template::BlockedConv if self.unroll > 0.0 => operator.kernel_width,
            Template::PackedDense => self.depth_tile.max(1.0),
            Template::Tiled => self.unroll.max(1.0),
            _ => 1.0,
        }
    }

    /// Outputs of the tiles along a row over those that are wanted: a partial tile takes as long as a whole one. Tiles of
    /// this project's are counted as whole ones from the start.
    fn whole_tiles(&self) -> f64 {
        if self.width_remainder > 0.0 && self.template != Template::Tiled {
            let whole = self.tiles * self.width_tile;
            whole / (whole - self.width_tile + self.width_remainder)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::knobs::Knobs;
    use super::*;
    use crate::testing::{conv_row, dense_row};

    fn instructions(row: &opdata::Row) -> f64 {
        let operator = Operator::of_row(row);
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        CpuNest::of(&operator, &row.op_name, &knobs)
            .unwrap()
            .task_instructions(&operator, None)
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
    fn a_tile_of_this_project_counts_the_machines_vectors() {
        let of = |vector: u64, blocks: u64, broadcast: u64| {
            let row = conv_row(
                [1, 64, 56, 56],
                [64, 1, 1],
                &format!(
                    r#"{{"template":"contraction","vector_length":{vector},"vector_blocks":{blocks},"tile":[["xx",{broadcast}]],"loop_order":["xx"],"fused_outer":1,"parallel_extent":1}}"#
                ),
            );
            let operator = Operator::of_row(&row);
            let knobs = Knobs::read(row.schedule_knobs.as_ref());
            let nest = CpuNest::of(&operator, &row.op_name, &knobs).unwrap();
            assert_eq!(
                (nest.parallel, nest.task_work),
                (1.0, 56.0 * 56.0 * 64.0 * 64.0)
            );
            assert_eq!(nest.task_instructions(&operator, None), None);
            let unit = VectorUnit::of_width(512, true);
            nest.task_instructions(&operator, Some(unit)).unwrap() / (56.0 * 56.0)
        };
        // 2 × 7 sums: 14 to multiply and add, 2 + 7 loads, 3 for the loop; 64 steps, then 3 × 14. 2 × 7 tiles.
        assert!((of(16, 2, 7) - (64.0 * 26.0 + 42.0) * 2.0 / 7.0).abs() < 1e-6);
        // 4 lanes of 16 are no faster than 16.
        assert!((of(4, 2, 7) / of(16, 2, 7) - 4.0).abs() < 1e-9);
        // 4 × 8 sums and 2 operands are 2 more than 32 registers hold: written and read at each step.
        assert!((of(16, 4, 8) - (64.0 * (32.0 + 12.0 + 4.0 + 3.0) + 96.0) / 8.0).abs() < 1e-6);
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
