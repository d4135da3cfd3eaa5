//! Features of kernels of a PYNQ board: the tiles of its accelerator VTA (simulated or not), and the loops of layers
//! that run on its processor.
//!
//! Instructions are not counted. The counters would be the host processor's, beside kernels of the accelerator.

use super::autotvm::Decode;
use super::cpu::nest::{CpuNest, Template};
use super::device::{DeviceFeatures, Nest, Query};
use super::knobs::Knobs;
use super::list::Values;
use super::operator::Operator;
use super::scale::ceil_div;
use super::schedule::Schedule;

/// Kernels of a board with VTA.
pub(super) struct Vta;

impl DeviceFeatures for Vta {
    fn nest(&self, query: &Query<'_>) -> Option<Box<dyn Nest>> {
        let (operator, knobs) = (query.operator, query.knobs);
        let on_processor = || CpuNest::decode(operator, query.row, knobs);
        let tiles = Tiles::read(operator, knobs);
        let nest = match &tiles {
            Some(tiles) => tiles.nest(operator),
            None => on_processor()?,
        };
        let cycles = tiles.map(|tiles| tiles.cycles(operator));
        Some(Box::new(BoardNest { nest, cycles }))
    }
}

/// The loops of a kernel of a board.
struct BoardNest {
    nest: CpuNest,
    /// Cycles of VTA; `None` for the board's processor.
    cycles: Option<f64>,
}

impl Nest for BoardNest {
    fn describe(&self, values: &mut Values, query: &Query<'_>) {
        self.nest.describe(values, query);
    }

    fn pieces(&self, operator: &Operator) -> f64 {
        self.nest.pieces(operator)
    }

    fn schedule(&self, _: &Query<'_>, _: Option<f64>) -> Option<Schedule> {
        // A log has few kernels of the board's processor: their nests are for the trees alone.
        let cycles = self.cycles?;
        Some(Schedule {
            // One accelerator computes all tiles; virtual threads only hide its loads.
            serial: cycles,
            steps: Some(cycles),
            in_cycles: true,
            pieces: None,
        })
    }
}

/// Rows, columns and channels of a block of VTA's products.
const BLOCK: f64 = 16.0;
/// Bytes that the bus moves at once.
const BEAT: f64 = 8.0;
/// Cycles of a row that is loaded, besides its beats (`vta/profiles/pynq-1x16.toml`, fitted on 24 November 2026).
const ROW: f64 = 49.5;
/// Cycles of a beat of weights: two ports share the bus (same source).
const WEIGHT_BEAT: f64 = 2.0;
/// Cycles of the instructions of a step of the reduction (same source).
const STEP: f64 = 75.0;
/// Cycles to requantise a vector of sums: six instructions of two cycles (same source).
const VECTOR: f64 = 6.0 * 2.0;

/// The tiles of `conv2d_packed.vta`, in products of 16×16.
struct Tiles {
    height: f64,
    width: f64,
    in_blocks: f64,
    out_blocks: f64,
    /// Steps of the reduction in a tile.
    depth_outer: f64,
    /// Virtual threads.
    threads: f64,
}

impl Tiles {
    fn read(o: &Operator, knobs: &Knobs) -> Option<Self> {
        // AutoTVM's logs have both parts of a split, this project's rows the inner one.
        let split = |name: &str, extent: f64| {
            let inner = || knobs.number(name).filter(|inner| *inner > 0.0);
            let parts = knobs.split::<2>(name, extent);
            parts.or_else(|| inner().map(|inner| [ceil_div(extent, inner), inner]))
        };
        let [depth_outer, in_blocks] = split("tile_ci", o.in_channels / BLOCK)?;
        Some(Self {
            height: split("tile_h", o.out_height)?[1],
            width: split("tile_w", o.out_width)?[1],
            in_blocks,
            out_blocks: split("tile_co", o.columns / BLOCK)?[1],
            depth_outer,
            threads: knobs.number("oc_nthread").unwrap_or(1.0)
                * knobs.number("h_nthread").unwrap_or(1.0),
        })
    }

    /// Number of tiles.
    fn count(&self, o: &Operator) -> f64 {
        ceil_div(o.out_height, self.height)
            * ceil_div(o.out_width, self.width)
            * ceil_div(o.columns, self.out_blocks * BLOCK)
    }

    /// Rows and columns of a tile's input.
    fn input(&self, o: &Operator) -> [f64; 2] {
        [
            (self.height - 1.0) * o.stride + o.kernel_height,
            (self.width - 1.0) * o.stride + o.kernel_width,
        ]
    }

    /// Cycles of VTA on the bitstream `pynq-1x16`, 10 % off OpBench's log by themselves. With one virtual thread, loads
    /// and products wait for each other.
    fn cycles(&self, o: &Operator) -> f64 {
        let [height, width] = self.input(o);
        let window = o.kernel_height * o.kernel_width;
        let width = width.min(o.in_width);
        // Whole rows without overlap lie behind each other, and are loaded as one.
        let is_whole = window == 1.0 && o.stride == 1.0 && self.width >= o.out_width;
        let rows = if is_whole { 1.0 } else { height };
        let input = self.in_blocks * (rows * ROW + height * width * BLOCK / BEAT);
        let weights = self.in_blocks * window * BLOCK * BLOCK / BEAT * WEIGHT_BEAT + ROW;
        let outputs = self.height * self.width * self.out_blocks;
        let products = outputs * self.in_blocks * window;
        let tiles = self.count(o);
        let load = tiles * self.depth_outer * (input + self.out_blocks * weights + STEP);
        let compute = tiles * (self.depth_outer * products + VECTOR * outputs);
        let beats = outputs * BLOCK / BEAT;
        let store = tiles * (self.height * self.out_blocks * ROW + beats);
        if self.threads > 1.0 {
            compute.max(load)
        } else {
            compute + load + store
        }
    }

    /// The tiles as a nest; virtual threads take the parallel loop's place.
    fn nest(&self, o: &Operator) -> CpuNest {
        let [height, span] = self.input(o);
        let window = o.kernel_height * o.kernel_width;
        let task_outputs = self.height * self.width * self.out_blocks * BLOCK;
        CpuNest {
            template: Template::Vta,
            parallel: self.threads,
            task_work: task_outputs * o.depth,
            depth_block: self.in_blocks * BLOCK,
            columns_block: self.out_blocks * BLOCK,
            width_tile: self.width,
            height_tile: self.height,
            unroll: 0.0,
            vector: BLOCK,
            register_tile: task_outputs,
            broadcast_tile: self.height * self.width * self.out_blocks,
            depth_outer: self.depth_outer,
            depth_tile: self.in_blocks * BLOCK * window,
            weight_bytes: o.depth * self.out_blocks * BLOCK,
            input_bytes: o.in_channels * height * span,
            output_bytes: task_outputs,
            tiles: self.count(o),
            row_bytes: span * BLOCK,
            inner_input_bytes: self.in_blocks * BLOCK * height * span,
            inner_weight_bytes: self.in_blocks * BLOCK * window * self.out_blocks * BLOCK,
            width_remainder: o.out_width % self.width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conv_row;

    #[test]
    fn cycles_are_those_of_loads_and_products() {
        // Four tiles of 14×14 outputs and 4 blocks, 4 steps each. A step loads 4 whole images of a block (1,766 cycles)
        // and 16 blocks of weights (1,222), and takes 3,136 products. 784 vectors are requantised and stored.
        let cycles = |threads: u64| {
            let knobs = format!(
                r#"{{"tile_h":[-1,14],"tile_w":[-1,14],"tile_ci":[-1,4],"tile_co":[-1,4],"oc_nthread":{threads}}}"#
            );
            let row = conv_row([1, 256, 14, 14], [256, 1, 1], &knobs);
            let operator = Operator::of_row(&row);
            let knobs = Knobs::read(row.schedule_knobs.as_ref());
            Tiles::read(&operator, &knobs).unwrap().cycles(&operator)
        };
        let (load, compute, store) = (49_008.0, 87_808.0, 17_360.0);
        assert_eq!(cycles(1), load + compute + store);
        assert_eq!(cycles(2), compute);
    }
}
