//! Cycles of one piece of the parallel loop of AutoTVM's CPU kernels, estimated along their loop nest, for the estimate
//! `steps`.
//!
//! The cost of a reduction step in one register tile is estimated as for OpBench's own kernels
//! ([`crate::features::cpu::cycles`]). The core is a nominal one of the processor that the code is for. Only the
//! comparison of one computation's schedules matters; the models correct the rest.

use crate::features::cpu::cycles::{FINISH, Step, StepCycles, TILE, load_cycles};
use crate::features::cpu::nest::{CpuNest, Template};
use crate::features::machine::Core;
use crate::features::operator::{Class, Operator};

/// Cycles for a value of a sum that is read and written by itself. LLVM splits a vector whose length is no power of two
/// and exceeds a register: 26 cycles for 16 lanes. Found by the inner depth of `dense_pack` (log of a Xeon 8124M,
/// January 2021).
const APART: f64 = 1.65;
/// Cycles for a lane of a vector along the reduction, which `dense_nopack` adds up at the end (the same log).
const LANE: f64 = 1.0;
/// Cycles for a lane of `batch_matmul`, whose lanes are scattered over a buffer of the whole tile first.
const SCATTERED_LANE: f64 = 2.0;
/// Cycles to pack a weight: 0.55 to 0.73 ns in products with one row (`opbench-llvm`, August 2022). Of 1.7, 2.5 and 3.5
/// this is best on that log (2026-11-29).
const PACKING: f64 = 2.5;

impl CpuNest {
    /// Cycles of one iteration of the parallel loop. None for this project's tiled kernels, and for samples of
    /// MetaSchedule, whose loops are not known well enough.
    pub(in crate::features) fn autotvm_cycles(
        &self,
        operator: &Operator,
        core: Core,
    ) -> Option<f64> {
        let step = self.autotvm_step(operator, core)?;
        let steps = self.task_work * self.whole_tiles() / (self.vector * self.broadcast_tile);
        let depth = self.depth_outer * self.depth_tile;
        let (depth, finish) = match self.template {
            Template::PlainDense => (depth / self.vector, LANE * self.vector),
            Template::BatchMatmul => (depth / self.vector, SCATTERED_LANE * self.vector),
            _ => (depth, FINISH * self.vectors(core)),
        };
        let tile = finish * self.broadcast_tile + TILE;
        Some(steps * (step.all + tile / depth.max(1.0)))
    }

    /// Cycles before the parallel loop.
    pub(in crate::features) fn autotvm_preparation(&self, operator: &Operator) -> f64 {
        match self.template {
            Template::PackingDense => PACKING * operator.columns * operator.depth,
            _ => 0.0,
        }
    }

    /// One step of the reduction in one register tile.
    pub(in crate::features) fn autotvm_step(
        &self,
        operator: &Operator,
        core: Core,
    ) -> Option<StepCycles> {
        let vectors = self.vectors(core);
        let sums = vectors * self.broadcast_tile;
        let loads = match (self.template, operator.class) {
            (Template::Sampled | Template::Tiled, _) => return None,
            (Template::PlainDense, _) => vectors * (self.width_tile + self.columns_block),
            (Template::BatchMatmul, _) => 2.0 * vectors,
            // Each output of a depthwise convolution has an input of its own.
            (_, Class::Depthwise) => vectors + sums,
            // A value of the other operand is loaded and spread over the lanes.
            _ => vectors + self.broadcast_tile,
        };
        let (widest, unrolled) = (core.unit.lanes() as f64, self.unrolled(operator));
        let lanes = self.vector.min(widest).log2().ceil().exp2();
        let is_fused = core.multiply_adds > widest;
        let step = Step {
            sums,
            lanes,
            operations: if is_fused { sums } else { 2.0 * sums },
            loads,
            loading: loads * load_cycles(lanes),
            side_by_side: vectors,
            unrolled,
        };
        let mut cycles = step.cycles(core);
        if self.vector > widest && !(self.vector as u64).is_power_of_two() {
            cycles.all += APART * self.vector * self.broadcast_tile / unrolled;
        }
        Some(cycles)
    }

    /// Vector instructions for one value of the other axes: LLVM widens a length that is no power of two.
    fn vectors(&self, core: Core) -> f64 {
        (self.vector.log2().ceil().exp2() / core.unit.lanes() as f64).ceil()
    }

    /// Steps of the reduction in one iteration of its innermost loop.
    fn unrolled(&self, operator: &Operator) -> f64 {
        match self.template {
            Template::BlockedConv if self.unroll > 0.0 => operator.kernel_width,
            Template::PackedDense | Template::PackingDense => self.depth_tile.max(1.0),
            _ => 1.0,
        }
    }

    /// Outputs that the tiles along a row compute over the row's outputs: a partial tile takes as long as a whole one.
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
    use crate::features::autotvm::processor::core_of;
    use crate::features::knobs::Knobs;
    use crate::testing::{conv_row, dense_row};

    /// Cycles of a piece of a row's kernel, compiled for a processor.
    fn cycles(mut row: opdata::Row, processor: &str) -> f64 {
        row.target_cpu = Some(processor.to_owned());
        let operator = Operator::of_row(&row);
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        let nest = CpuNest::decode(&operator, &row, &knobs).unwrap();
        nest.autotvm_cycles(&operator, core_of(&row)).unwrap()
    }

    /// A convolution of 1x1 for one row of 28 outputs, `columns` channels and `width` outputs at a time.
    fn conv(columns: u64, width: u64, processor: &str) -> f64 {
        let knobs = format!(
            r#"{{"tile_ic":[-1,16],"tile_oc":[-1,{columns}],"tile_ow":[-1,{width}],"tile_oh":1}}"#
        );
        cycles(conv_row([1, 16, 28, 28], [48, 1, 1], &knobs), processor)
    }

    #[test]
    fn a_convolution_takes_what_its_processor_has() {
        // 16 channels × 4 outputs, 7 tiles of 16 steps. SSE: 16 sums in 16 registers, 3 spilled, multiplied and added one after
        // the other. AVX2: 8 fused sums and 6 loads. AVX-512: 4 sums wait for each other.
        let tile = |step: f64, vectors: f64| 7.0 * (16.0 * step + FINISH * 4.0 * vectors + TILE);
        for (processor, step, vectors) in [
            ("generic", 16.0, 4.0),
            ("core-avx2", 4.0, 2.0),
            ("skylake-avx512", 4.0, 1.0),
        ] {
            let found = conv(16, 4, processor);
            assert!(
                (found - tile(step, vectors)).abs() < 1e-6,
                "{processor}: {found}"
            );
        }
        // 28 outputs take 4 tiles of 8, as 32 outputs do: 9 loads.
        let partial = 4.0 * (16.0 * 4.5 + FINISH * 8.0 + TILE);
        assert!((conv(8, 8, "haswell") - partial).abs() < 1e-6);
    }

    #[test]
    fn vectors_of_an_odd_length_are_taken_apart() {
        // 12 lanes take as long as 16, and 48 as long as 64 that are moved one by one.
        assert_eq!(conv(12, 8, "znver4"), conv(16, 8, "znver4"));
        let apart = conv(48, 4, "znver4") - conv(64, 4, "znver4");
        assert!(
            (apart - 7.0 * 16.0 * APART * 48.0 * 4.0).abs() < 1e-6,
            "{apart}"
        );
    }

    #[test]
    fn weights_are_packed_at_each_call_by_one_release_alone() {
        let knobs = r#"{"tile_y":[-1,1,1],"tile_x":[-1,5,8],"tile_k":[-1,16],"tile_inner":[-1,1]}"#;
        let mut row = dense_row(1, 1000, 512, knobs);
        let mut before = |release: &str| {
            row.tvm_version = Some(release.to_owned());
            let operator = Operator::of_row(&row);
            let knobs = Knobs::read(row.schedule_knobs.as_ref());
            let nest = CpuNest::decode(&operator, &row, &knobs).unwrap();
            nest.autotvm_preparation(&operator)
        };
        assert_eq!(before("0.8.0"), PACKING * 512_000.0);
        assert_eq!(before("0.9.dev0"), 0.0);
    }

    #[test]
    fn lanes_along_the_reduction_are_brought_together() {
        // 64 ÷ 16 steps of 2 sums that wait, then 2 × 16 lanes.
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,2],"tile_k":[-1,16]}"#;
        let row = dense_row(1, 10, 64, knobs);
        assert!((cycles(row.clone(), "icelake-server") - (4.0 * 4.0 + 32.0 + TILE)).abs() < 1e-6);
        // Batched, each output takes its steps alone.
        let mut batched = row;
        batched.op_name = "batch_matmul.x86".to_owned();
        let found = cycles(batched, "icelake-server");
        assert!(
            (found - 2.0 * (4.0 * 4.0 + 32.0 + TILE)).abs() < 1e-6,
            "{found}"
        );
    }
}
