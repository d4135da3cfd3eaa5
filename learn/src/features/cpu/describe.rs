//! The features of a CPU kernel's loop nest: registers, bytes of each level, imbalance.
//!
//! Workers are not in an imported log, so what depends on them is given for several counts.

use crate::features::autotvm::processor::core_of;
use crate::features::cpu::nest::{CpuNest, Template};
use crate::features::device::Query;
use crate::features::knobs::Flat;
use crate::features::list::Values;
use crate::features::scale::{fill, log, log1};
use opmodels::tile::VectorUnit;

pub(super) fn describe(v: &mut Values, query: &Query<'_>, n: &CpuNest) {
    v.template = n.template as u8 as f32;
    v.parallel = log(n.parallel);
    v.task_work = log(n.task_work);
    v.task_weight_bytes = log(n.weight_bytes);
    v.task_input_bytes = log(n.input_bytes);
    v.task_output_bytes = log(n.output_bytes);
    v.task_bytes = log(n.weight_bytes + n.input_bytes + n.output_bytes);
    v.weight_traffic = log(n.weight_bytes * n.parallel);
    v.input_traffic = log(n.input_bytes * n.parallel);
    v.depth_outer = log(n.depth_outer);
    v.tiles = log(n.tiles);
    v.unroll_limit = n.unroll as f32;
    v.depth_block = log(n.depth_block);
    v.columns_block = log(n.columns_block);
    v.width_tile = log(n.width_tile);
    v.height_tile = log(n.height_tile);
    v.vector = log(n.vector);
    v.register_tile = log(n.register_tile);
    v.broadcast_tile = log(n.broadcast_tile);
    v.depth_tile = log(n.depth_tile);
    v.row_bytes = log(n.row_bytes);
    v.inner_input_bytes = log(n.inner_input_bytes);
    v.inner_weight_bytes = log(n.inner_weight_bytes);
    v.inner_bytes = log(n.inner_input_bytes + n.inner_weight_bytes);
    v.traffic_per_flop = log((n.weight_bytes + n.input_bytes) / (2.0 * n.task_work));
    v.weight_per_work = log(n.weight_bytes / n.task_work);
    v.input_per_work = log(n.input_bytes / n.task_work);
    let width = n.width_tile * n.tiles;
    v.width_remainder = (n.width_remainder / width.max(1.0)) as f32;
    v.width_share = (n.width_tile / width.max(1.0)) as f32;
    let lanes = n.vector.max(1.0) as u64;
    v.vector_power_of_two = f32::from(u8::from(lanes.is_power_of_two()));
    let block = n.depth_block.max(1.0) as u64;
    v.depth_block_alignment = log1((1u64 << block.trailing_zeros().min(63)) as f64);
    let unit = query.machine.vector;
    registers(v, n, unit.unwrap_or_else(|| core_of(query.row).unit));
    imbalance(v, n);
}

/// The cost of a step: of this project's own kernels on the machine's core if that is known, of AutoTVM's on the core
/// that the log's target names.
pub(super) fn describe_step(v: &mut Values, query: &Query<'_>, n: &CpuNest) {
    let operator = query.operator;
    let step = match n.template {
        Template::Tiled => query.machine.core().and_then(|core| n.step(operator, core)),
        _ => n.autotvm_step(operator, core_of(query.row)),
    };
    let Some(step) = step else {
        return;
    };
    v.step_cycles = log(step.all);
    v.step_stall = log(step.all / step.arithmetic);
}

/// The features of a schedule without a register tile.
pub(in crate::features) fn describe_flat(v: &mut Values, flat: Flat) {
    v.template = flat.template as u8 as f32;
    v.vector = log(flat.vector);
    v.unroll_limit = flat.unroll.map_or(f32::NAN, |n| n as f32);
    v.parallel = flat.pieces.map_or(f32::NAN, log);
}

/// How the register tile lies in the registers of a vector unit.
fn registers(v: &mut Values, n: &CpuNest, unit: VectorUnit) {
    let lanes = unit.lanes() as f64;
    let vectors = (n.vector / lanes).ceil();
    let tile = vectors * n.broadcast_tile;
    v.vector_fill = fill(n.vector, lanes);
    v.tile_registers = log(tile);
    v.tile_spilled = (tile - f64::from(unit.registers) + 2.0).max(0.0) as f32;
    v.tile_loads = log((vectors + n.broadcast_tile) / tile);
}

fn imbalance(v: &mut Values, n: &CpuNest) {
    let of = |workers: f64| ((n.parallel / workers).ceil() * workers / n.parallel) as f32;
    v.imbalance_4 = of(4.0);
    v.imbalance_8 = of(8.0);
    v.imbalance_16 = of(16.0);
    v.imbalance_32 = of(32.0);
}
