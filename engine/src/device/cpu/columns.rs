//! A schedule's knobs as columns of their own, beside their JSON.
//!
//! Tiles stand for every loop of the operator's nest (`loop_nest`), in its order, so that rows of one operator can be
//! compared column by column.

use opdata::{Decisions, LoopKind, Row};

use super::schedule::{Algorithm, ContractionKnobs, Knobs};
use crate::schedule::Choice;

/// Fills the knob columns of a row whose `loop_nest` is there already.
pub(super) fn fill(row: &mut Row, choice: &Choice) {
    row.knob_cache_write = Some("none".to_owned());
    match Knobs::of(choice) {
        Ok(Knobs::Contraction(knobs)) => contraction(row, &knobs),
        Ok(Knobs::Rows(knobs)) => {
            row.knob_vector_length = u64::try_from(knobs.vector_length).ok();
            row.knob_parallel_extent = extent(knobs.parallel_extent);
            row.knob_compute_at = Some("tile".to_owned());
        }
        Ok(Knobs::Partial(knobs)) => {
            row.knob_vector_length = u64::try_from(knobs.vector_length).ok();
            row.knob_parallel_extent = extent(Some(knobs.parallel_extent));
        }
        Ok(Knobs::Spatial(knobs)) => {
            row.knob_vector_length = u64::try_from(knobs.vector_length).ok();
            row.knob_unroll = u64::try_from(knobs.unroll).ok();
            row.knob_parallel_extent = extent(knobs.parallel_extent);
        }
        Ok(Knobs::Dot(knobs)) => {
            row.knob_tile_spatial = joined([knobs.rows, knobs.vectors].into_iter());
            row.knob_vector_length = u64::try_from(Knobs::DOT_LANES).ok();
            row.knob_cache_write = Some("local".to_owned());
            row.knob_compute_at = Some("tile".to_owned());
        }
        Ok(Knobs::Convolution(knobs)) => {
            row.knob_algorithm = Some(knobs.algorithm.word().to_owned());
            row.knob_tile_spatial = joined([knobs.columns, knobs.vector_blocks].into_iter());
            row.knob_cache_write = Some("local".to_owned());
            row.knob_compute_at = Some("root".to_owned());
        }
        Err(_) if choice.template == Choice::SAMPLED => {
            if let Ok(decisions) = choice.knobs() {
                sampled(row, &decisions);
            }
        }
        Err(_) => {}
    }
}

fn extent(pieces: Option<i64>) -> Option<u64> {
    pieces.and_then(|p| u64::try_from(p).ok())
}

fn contraction(row: &mut Row, knobs: &ContractionKnobs) {
    let axes = |kind: LoopKind| -> Vec<(String, i64)> {
        let nest = row.loop_nest.iter().flat_map(|nest| nest.0.iter());
        nest.filter(|l| l.kind == kind)
            .map(|l| (l.name().to_owned(), l.extent as i64))
            .collect()
    };
    let (spatial, reduction) = (axes(LoopKind::Spatial), axes(LoopKind::Reduction));
    if row.op_kind == "conv2d" {
        row.knob_algorithm = Some(Algorithm::Direct.word().to_owned());
    }
    row.knob_tile_spatial = joined(spatial.iter().map(|(name, _)| knobs.tile_of(name)));
    row.knob_tile_cache = joined(spatial.iter().map(|(name, _)| knobs.cache_tile_of(name)));
    let inner = |(name, extent): &(String, i64)| knobs.reduction_tile_of(name, *extent);
    row.knob_tile_reduction = joined(reduction.iter().map(inner));
    row.knob_vector_axis = knobs.vector_axis.clone();
    row.knob_vector_length = u64::try_from(knobs.vector_length).ok();
    row.knob_unroll = u64::try_from(knobs.unroll).ok();
    let fused = &knobs.loop_order[..knobs.fused_outer.min(knobs.loop_order.len())];
    let iterations = |name: &String| {
        let tile = knobs.tile_of(name) * knobs.cache_tile_of(name);
        let extent = spatial.iter().find(|(n, _)| n == name).map_or(1, |a| a.1);
        (extent + tile - 1) / tile.max(1)
    };
    let pieces = knobs
        .parallel_extent
        .unwrap_or_else(|| fused.iter().map(iterations).product());
    row.knob_parallel_extent = u64::try_from(pieces).ok();
    row.knob_loop_order = Some(knobs.loop_order.join(","));
    row.knob_level_order = Some(knobs.level_order.word().to_owned());
    row.knob_fuse_outer = Some(knobs.fused_outer as u64);
    row.knob_cache_write = Some(knobs.cache_write.word().to_owned());
    row.knob_compute_at = Some(knobs.epilogue.word().to_owned());
    row.knob_padding = Some(knobs.padding.word().to_owned());
}

/// Loops of MetaSchedule's structure `SSRSRS`: four parts of a spatial loop, two of a reduction.
fn sampled(row: &mut Row, decisions: &Decisions) {
    let of_level = |parts: usize, level: usize| {
        let tiles = decisions.tiles.iter().filter(move |t| t.len() == parts);
        joined(tiles.filter_map(|t| t.get(level).copied()))
    };
    row.knob_tile_spatial = of_level(4, 3);
    row.knob_tile_cache = of_level(4, 2);
    row.knob_tile_reduction = of_level(2, 1);
    row.knob_level_order = (!decisions.tiles.is_empty()).then(|| "SSRSRS".to_owned());
    row.knob_compute_at = joined(decisions.compute_locations.iter().copied());
    row.knob_cache_write = None;
}

fn joined(values: impl Iterator<Item = i64>) -> Option<String> {
    let texts: Vec<String> = values.map(|v| v.to_string()).collect();
    (!texts.is_empty()).then(|| texts.join("x"))
}
