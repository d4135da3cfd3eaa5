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
use super::schedule::{PieceSteps, Schedule};

/// Kernels of a board with VTA.
pub(super) struct Vta;

impl DeviceFeatures for Vta {
    fn nest(&self, query: &Query<'_>) -> Option<Box<dyn Nest>> {
        let (operator, knobs) = (query.operator, query.knobs);
        let on_processor = || CpuNest::decode(operator, query.row, knobs);
        let nest = accelerated(operator, knobs).or_else(on_processor)?;
        Some(Box::new(BoardNest(nest)))
    }
}

/// The loops of a kernel of a board.
struct BoardNest(CpuNest);

impl Nest for BoardNest {
    fn describe(&self, values: &mut Values, query: &Query<'_>) {
        self.0.describe(values, query);
    }

    fn pieces(&self, operator: &Operator) -> f64 {
        self.0.pieces(operator)
    }

    fn schedule(&self, query: &Query<'_>, threads: Option<f64>) -> Option<Schedule> {
        let mut schedule = self.0.schedule(query, threads)?;
        schedule.steps = None;
        if let Some(pieces) = &mut schedule.pieces {
            pieces.steps = PieceSteps::Unknown;
        }
        Some(schedule)
    }
}

/// `conv2d_packed.vta`: tiles of 16×16 products; virtual threads take the parallel loop's place.
fn accelerated(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    const BLOCK: f64 = 16.0;
    // AutoTVM's logs have both parts of a split, this project's rows the inner one.
    let split = |name: &str, extent: f64| {
        let inner = || knobs.number(name).filter(|inner| *inner > 0.0);
        let parts = knobs.split::<2>(name, extent);
        parts.or_else(|| inner().map(|inner| [ceil_div(extent, inner), inner]))
    };
    let [_, height_tile] = split("tile_h", o.out_height)?;
    let [_, width_tile] = split("tile_w", o.out_width)?;
    let [depth_outer, in_blocks] = split("tile_ci", o.in_channels / BLOCK)?;
    let [_, out_blocks] = split("tile_co", o.columns / BLOCK)?;
    let parallel =
        knobs.number("oc_nthread").unwrap_or(1.0) * knobs.number("h_nthread").unwrap_or(1.0);
    let window = o.kernel_height * o.kernel_width;
    let span = (width_tile - 1.0) * o.stride + o.kernel_width;
    let height = (height_tile - 1.0) * o.stride + o.kernel_height;
    let task_outputs = height_tile * width_tile * out_blocks * BLOCK;
    Some(CpuNest {
        template: Template::Vta,
        parallel,
        task_work: task_outputs * o.depth,
        depth_block: in_blocks * BLOCK,
        columns_block: out_blocks * BLOCK,
        width_tile,
        height_tile,
        unroll: 0.0,
        vector: BLOCK,
        register_tile: task_outputs,
        broadcast_tile: height_tile * width_tile * out_blocks,
        depth_outer,
        depth_tile: in_blocks * BLOCK * window,
        weight_bytes: o.depth * out_blocks * BLOCK,
        input_bytes: o.in_channels * height * span,
        output_bytes: task_outputs,
        tiles: ceil_div(o.out_height, height_tile)
            * ceil_div(o.out_width, width_tile)
            * ceil_div(o.columns, out_blocks * BLOCK),
        row_bytes: span * BLOCK,
        inner_input_bytes: in_blocks * BLOCK * height * span,
        inner_weight_bytes: in_blocks * BLOCK * window * out_blocks * BLOCK,
        width_remainder: o.out_width % width_tile,
    })
}
