//! Several reductions over the same rows: softmax, layer norm, group norm.
//!
//! A block of threads takes a row. Its threads share every reduction over the row, whose results stay in shared memory,
//! and then the elements of the output.

use tvm_bridge::inspect::IterKind;
use tvm_bridge::{BlockInfo, Result, Schedule};

use super::contraction::unroll_hint;
use super::parts::OperatorBlocks;
use super::{RowsKnobs, limits};
use crate::schedule::{Part, unfit};

/// The template with the knobs that the operator suggests.
pub(super) fn suggested(s: &Schedule) -> Result<RowsKnobs> {
    let parts = OperatorBlocks::inlined(s)?;
    let (_, length) = extents(&parts)?;
    let threads = length.max(1).unsigned_abs().next_power_of_two() as i64;
    let knobs = RowsKnobs {
        block_size: (threads / 4).clamp(limits::WARP, 512),
        unroll: 16,
    };
    apply(s, &parts, &knobs)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: &RowsKnobs) -> Result<RowsKnobs> {
    apply(s, &OperatorBlocks::inlined(s)?, knobs)?;
    Ok(*knobs)
}

/// Number of rows, and the longest sum over one.
pub(super) fn extents(parts: &OperatorBlocks) -> Result<(i64, i64)> {
    let rows = rows_of(parts)?;
    let output = &parts.outputs[0].info;
    let length = |info: &BlockInfo| {
        let summed = info.of_kind(IterKind::Reduction);
        summed.map(|i| info.iters[i].extent).product::<i64>()
    };
    let longest = parts.reductions.iter().map(|p| length(&p.info)).max();
    let count = output.iters[..rows].iter().map(|i| i.extent).product();
    Ok((count, longest.unwrap_or(1)))
}

/// Number of leading axes that are rows: what all reductions keep apart.
fn rows_of(parts: &OperatorBlocks) -> Result<usize> {
    let [output] = &parts.outputs[..] else {
        return Err(unfit("not exactly one output"));
    };
    let kept = |p: &Part| p.info.of_kind(IterKind::Spatial).count();
    let rows = parts.reductions.iter().map(kept).min().unwrap_or(0);
    if parts.reductions.is_empty() || rows >= output.info.iters.len() {
        return Err(unfit("no reduction over rows of the output"));
    }
    Ok(rows)
}

fn apply(s: &Schedule, parts: &OperatorBlocks, knobs: &RowsKnobs) -> Result<()> {
    limits::check_threads(knobs.block_size).map_err(|reason| unfit(&reason))?;
    let rows = rows_of(parts)?;
    let output = &parts.outputs[0];
    let loops = s.loops(&output.block)?;
    if loops.len() <= rows {
        return Err(unfit("rows of nothing"));
    }
    let row = match rows {
        0 => s.add_unit_loop_around(&loops[0])?,
        _ => s.fuse(&loops[..rows].iter().collect::<Vec<_>>())?,
    };
    s.bind(&row, "blockIdx.x")?;
    let inner = s.fuse(&loops[rows..].iter().collect::<Vec<_>>())?;
    let split = s.split(&inner, &[None, Some(knobs.block_size)])?;
    s.bind(&split[1], "threadIdx.x")?;
    // From the output backwards: each block is computed where its reader is.
    let mut producers: Vec<&Part> = parts.reductions.iter().chain(&parts.between).collect();
    let place = |p: &&Part| place_of(s, p).unwrap_or(usize::MAX);
    producers.sort_by_key(place);
    for producer in producers.into_iter().rev() {
        s.set_scope(&producer.block, 0, "shared")?;
        s.compute_at_with_unit_loops(&producer.block, &row)?;
        share(s, producer, knobs.block_size)?;
    }
    unroll_hint(s, &row, knobs.unroll)?;
    Ok(())
}

/// Place of a block in the program.
fn place_of(s: &Schedule, part: &Part) -> Result<usize> {
    for (place, block) in s.blocks()?.iter().enumerate() {
        if s.info(block)?.name == part.info.name {
            return Ok(place);
        }
    }
    Err(unfit("a block that is not in the program"))
}

/// Shares what a block computes of a row out over the threads: its terms, or else its elements.
fn share(s: &Schedule, part: &Part, threads: i64) -> Result<()> {
    let loops = s.loops(&part.block)?;
    let own = &loops[1..];
    if own.is_empty() {
        return Ok(());
    }
    let summed = part.info.of_kind(IterKind::Reduction).count();
    let kind = if summed > 0 { summed } else { own.len() };
    let fused = s.fuse(&own[own.len() - kind..].iter().collect::<Vec<_>>())?;
    let split = s.split(&fused, &[None, Some(threads)])?;
    s.bind(&split[1], "threadIdx.x")
}
