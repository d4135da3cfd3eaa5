//! Cycles that a core takes for one piece of the parallel loop of this project's own tiled kernels, for the estimate
//! `steps`.
//!
//! Costs that a core overlaps do not add up: a reduction step in one register tile takes as long as its busiest part.
//! Parts are the arithmetic, the loads (with values spilled from registers), and the decoding of instructions. The last
//! part is the latency of the previous step's sums: a kernel with few sums waits for them. Figures of cores are
//! nominal, common to x86 cores of the last ten years (Agner Fog, "Instruction tables", 2025). The attainable rates
//! come from the machine's calibration.

use crate::features::cpu::nest::CpuNest;
use crate::features::machine::Core;
use crate::features::operator::{Class, Operator};

/// Latency of a multiply-add, cycles.
const LATENCY: f64 = 4.0;
/// Instructions that are decoded in a cycle.
const DECODED: f64 = 5.0;
/// The shortest time for an instruction of arithmetic or a load: there are two units of each.
const SHORTEST: f64 = 0.5;
/// Widest load, in lanes, that takes no longer than [`SHORTEST`].
const NARROW_LANES: f64 = 8.0;
/// Cycles for a load of more.
const WIDE_LOAD: f64 = 0.75;
/// Cycles for a value that is written to the stack and read again.
const SPILL: f64 = 1.5;
/// Instructions that close an iteration: count, compare, jump.
const LOOP_INSTRUCTIONS: f64 = 3.0;
/// Cycles for a tile beside its steps: its loops, and for each of its vectors.
pub(in crate::features) const TILE: f64 = 10.0;
/// See [`TILE`].
pub(in crate::features) const FINISH: f64 = 2.0;

/// Cycles of one reduction step in a register tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::features) struct StepCycles {
    /// Cycles of the whole step.
    pub all: f64,
    /// Its arithmetic alone.
    pub arithmetic: f64,
}

/// Work of a core in one step.
pub(in crate::features) struct Step {
    /// Vectors of sums.
    pub sums: f64,
    /// Values of a vector.
    pub lanes: f64,
    /// Instructions that multiply and add.
    pub operations: f64,
    /// Instructions that load.
    pub loads: f64,
    /// Cycles that these take.
    pub loading: f64,
    /// Vectors of one operand side by side.
    pub side_by_side: f64,
    /// Steps of one iteration of the innermost loop.
    pub unrolled: f64,
}

impl Step {
    /// Its cycles: those of its busiest part.
    pub(in crate::features) fn cycles(&self, core: Core) -> StepCycles {
        // Registers also hold one vector of each operand.
        let held = self.sums + self.side_by_side.min(2.0) + 1.0;
        let spilled = (held - f64::from(core.unit.registers)).max(0.0);
        let arithmetic = self.sums * (self.lanes / core.multiply_adds).max(SHORTEST);
        let instructions =
            self.operations + self.loads + 2.0 * spilled + LOOP_INSTRUCTIONS / self.unrolled;
        let all = [
            arithmetic,
            self.loading + SPILL * spilled,
            instructions / DECODED,
            LATENCY,
        ];
        StepCycles {
            all: all.into_iter().fold(0.0, f64::max),
            arithmetic,
        }
    }
}

/// Cycles for loading a vector of some values.
pub(in crate::features) fn load_cycles(lanes: f64) -> f64 {
    if lanes > NARROW_LANES {
        WIDE_LOAD
    } else {
        SHORTEST
    }
}

/// Vectors of a register tile as LLVM makes them.
struct Vectors {
    /// Values in the lanes of one.
    lanes: f64,
    /// Side by side, for one value of the other axes.
    side_by_side: f64,
}

impl Vectors {
    /// The step of a nest. A length that is no power of two is widened. Adjacent values that the schedule does not
    /// vectorise become a vector.
    fn of(nest: &CpuNest, core: Core) -> Self {
        let length = if nest.vector > 1.0 {
            nest.vector
        } else {
            nest.columns_block
        };
        let blocks = nest.columns_block / length;
        let most = core.unit.lanes() as f64;
        Self {
            lanes: length.min(most).log2().ceil().exp2(),
            side_by_side: (length / most).ceil() * blocks,
        }
    }
}

impl CpuNest {
    /// Cycles of a piece of the parallel loop. `None` for operators whose windows slide over each channel on its own.
    pub(super) fn task_cycles(&self, operator: &Operator, core: Core) -> Option<f64> {
        let vectors = Vectors::of(self, core).side_by_side * self.width_tile;
        let steps = self.depth_outer * self.depth_tile * self.step(operator, core)?.all;
        Some(self.tiles * (steps + FINISH * vectors + TILE))
    }

    /// One step of the reduction. `None` as for [`CpuNest::task_cycles`].
    pub(super) fn step(&self, operator: &Operator, core: Core) -> Option<StepCycles> {
        if matches!(operator.class, Class::Pool | Class::Depthwise) {
            return None;
        }
        let Vectors {
            lanes,
            side_by_side,
        } = Vectors::of(self, core);
        let sums = side_by_side * self.width_tile;
        let loads = side_by_side + self.width_tile;
        let step = Step {
            sums,
            lanes,
            operations: sums,
            loads,
            loading: loads * load_cycles(lanes),
            side_by_side,
            unrolled: self.unroll.max(1.0),
        };
        Some(step.cycles(core))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::cpu::own;
    use crate::features::knobs::Knobs;
    use crate::testing::conv_row;
    use opmodels::tile::VectorUnit;

    /// A core that does two multiply-adds of half its widest vectors in a cycle.
    const CORE: Core = Core {
        unit: VectorUnit {
            bits: 512,
            registers: 32,
        },
        multiply_adds: 16.0,
    };

    /// The step of a convolution's tile, and the cycles of a multiply-add of a vector of its lanes.
    fn step(vector: u64, blocks: u64, broadcast: u64) -> StepCycles {
        nest(vector, blocks, broadcast).0
    }

    fn nest(vector: u64, blocks: u64, broadcast: u64) -> (StepCycles, CpuNest, Operator) {
        let row = conv_row(
            [1, 64, 56, 56],
            [64, 1, 1],
            &format!(
                r#"{{"template":"contraction","vector_axis":"ff","vector_length":{vector},"vector_blocks":{blocks},"tile":[["xx",{broadcast}]],"loop_order":["xx"],"fused_outer":1,"parallel_extent":1}}"#
            ),
        );
        let operator = Operator::of_row(&row);
        let nest = own::tiled(&operator, &row, &Knobs::read(row.schedule_knobs.as_ref())).unwrap();
        (nest.step(&operator, CORE).unwrap(), nest, operator)
    }

    #[test]
    fn few_sums_wait_and_many_keep_the_core_busy() {
        // One sum, or four: no more is done in the four cycles that a sum takes.
        assert_eq!((step(16, 1, 1).all, step(16, 1, 4).all), (4.0, 4.0));
        // 2 × 7 sums, a cycle each.
        assert_eq!(
            (step(16, 2, 7).all, step(16, 2, 7).arithmetic),
            (14.0, 14.0)
        );
        // Narrower vectors take half a cycle, not less.
        assert_eq!(
            (step(8, 2, 8).arithmetic, step(4, 2, 8).arithmetic),
            (8.0, 8.0)
        );
        // A vector of four registers' length takes as long as four vectors.
        assert_eq!(step(64, 1, 7).all, step(16, 4, 7).all);
    }

    #[test]
    fn windows_of_single_channels_have_no_estimate() {
        let (_, nest, operator) = nest(16, 1, 7);
        for class in [Class::Pool, Class::Depthwise] {
            let windows = Operator {
                class,
                ..operator.clone()
            };
            assert_eq!(nest.task_cycles(&windows, CORE), None);
        }
    }

    #[test]
    fn values_side_by_side_become_a_vector() {
        assert_eq!(step(1, 8, 16).all, step(8, 1, 16).all);
        // 12 lanes take as long as 16.
        assert_eq!(step(12, 1, 14).all, step(16, 1, 14).all);
    }

    #[test]
    fn what_does_not_fit_the_registers_costs() {
        assert_eq!(step(16, 4, 6).all, 24.0);
        // 8 × 8 sums and 3 operands are 35 more than there are: with 16 loads longer than the arithmetic.
        let over = step(16, 8, 8);
        assert_eq!((over.all, over.arithmetic), (12.0 + 1.5 * 35.0, 64.0));
    }

    #[test]
    fn a_task_is_its_tiles_with_what_is_left_over_of_an_axis() {
        let (step, nest, operator) = nest(16, 2, 7);
        assert_eq!((nest.parallel, nest.tiles), (1.0, 2.0 * 56.0 * 8.0));
        let tile = 64.0 * step.all + FINISH * 14.0 + TILE;
        assert!((nest.task_cycles(&operator, CORE).unwrap() - nest.tiles * tile).abs() < 1e-6);
        // 56 outputs in a row are seven tiles of 9, as 63 would be.
        let (_, partial, _) = self::nest(16, 2, 9);
        assert_eq!(partial.tiles, 2.0 * 56.0 * 7.0);
    }
}
