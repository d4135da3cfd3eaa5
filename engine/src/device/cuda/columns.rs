//! A schedule's knobs as columns of their own, beside their JSON.
//!
//! Tiles of a product are `rows x columns`: the tile of a thread (or of a warp, on tensor cores), and how many of them
//! make the block's tile. Then the steps of the sum that are in shared memory at once.

use opdata::{Decisions, Row};

use super::templates::Knobs;
use crate::schedule::Choice;

/// Fills the knob columns of a row.
pub(super) fn fill(row: &mut Row, choice: &Choice) {
    match Knobs::of(choice) {
        Ok(Knobs::Contraction(k)) => {
            product(
                row,
                [k.block_m, k.block_n],
                [k.thread_m, k.thread_n],
                k.block_k,
            );
            common(row, Some(k.vector), Some(k.unroll));
            row.knob_parallel_extent = count(k.threads());
        }
        Ok(Knobs::TensorCore(k)) => {
            product(row, [k.block_m, k.block_n], [k.warp_m, k.warp_n], k.block_k);
            common(row, Some(k.vector), Some(k.unroll));
            row.knob_parallel_extent = count(k.warps());
        }
        Ok(Knobs::Reduction(k)) => {
            common(row, Some(k.vector), Some(k.unroll));
            row.knob_parallel_extent = count(k.block_size);
        }
        Ok(Knobs::Rows(k)) => {
            common(row, None, Some(k.unroll));
            row.knob_parallel_extent = count(k.block_size);
        }
        Ok(Knobs::Window(k)) => {
            common(row, None, Some(k.unroll));
            row.knob_tile_spatial = Some(k.thread_tile.to_string());
            row.knob_parallel_extent = count(k.block_size);
        }
        Ok(Knobs::Fallback(k)) => {
            common(row, Some(k.vector), None);
            row.knob_parallel_extent = count(k.block_size);
        }
        Err(_) if choice.template == Choice::SAMPLED => {
            if let Ok(decisions) = choice.knobs::<Decisions>() {
                row.knob_level_order = (!decisions.tiles.is_empty()).then(|| "SSSRRSRS".to_owned());
            }
        }
        Err(_) => {}
    }
}

fn product(row: &mut Row, block: [i64; 2], inner: [i64; 2], steps: i64) {
    let outer = [0, 1].map(|axis| block[axis] / inner[axis].max(1));
    row.knob_tile_spatial = Some(format!("{}x{}", inner[0], inner[1]));
    row.knob_tile_cache = Some(format!("{}x{}", outer[0], outer[1]));
    row.knob_tile_reduction = Some(steps.to_string());
}

fn common(row: &mut Row, vector: Option<i64>, unroll: Option<i64>) {
    row.knob_vector_length = vector.and_then(count);
    row.knob_unroll = unroll.and_then(count);
}

fn count(value: i64) -> Option<u64> {
    u64::try_from(value).ok()
}
