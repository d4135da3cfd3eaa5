//! One reduction, a thread for each result: poolings, depthwise convolutions, short sums.
//!
//! Neighbouring threads compute neighbouring results, so their windows overlap in the caches. The sum stays in a register
//! and the element-wise tail is computed from there.

use tvm_bridge::inspect::{BlockInfo, IterKind};
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Result, Schedule};

use super::contraction::unroll_hint;
use super::parts::{OperatorBlocks, inline_consumers, takes_some};
use super::{WindowKnobs, fallback, limits, reduction};
use crate::schedule::{Part, unfit};

/// The knobs that suit a reduction of this shape.
pub(super) fn default_knobs(info: &BlockInfo) -> WindowKnobs {
    let results: i64 = info
        .of_kind(IterKind::Spatial)
        .map(|i| info.iters[i].extent)
        .product();
    WindowKnobs {
        // Few results are spread over many multiprocessors.
        block_size: if results >= 1 << 16 { 256 } else { 64 },
        thread_tile: 1,
        unroll: 64,
    }
}

/// The template with the knobs that the operator suggests.
pub(super) fn suggested(s: &Schedule) -> Result<WindowKnobs> {
    let parts = OperatorBlocks::inlined(s)?;
    let knobs = default_knobs(&parts.anchor()?.info);
    apply(s, &parts, &knobs)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: &WindowKnobs) -> Result<WindowKnobs> {
    let parts = OperatorBlocks::inlined(s)?;
    apply(s, &parts, knobs)?;
    Ok(*knobs)
}

/// Checks knobs for rows of `row` results.
///
/// # Errors
/// Fails if they are impossible, and says why.
pub(super) fn check(knobs: &WindowKnobs, row: i64) -> std::result::Result<(), String> {
    if knobs.thread_tile < 1 || row % knobs.thread_tile != 0 {
        return Err(format!(
            "{} results of a thread do not divide a row of {row}",
            knobs.thread_tile
        ));
    }
    limits::check_threads(knobs.block_size)
}

fn apply(s: &Schedule, parts: &OperatorBlocks, knobs: &WindowKnobs) -> Result<()> {
    if !parts.between.is_empty() {
        return Err(unfit("something that others read stays a block"));
    }
    nest(s, parts.anchor()?, knobs)
}

/// Schedules one reduction and its consumers.
pub(super) fn nest(s: &Schedule, part: &Part, knobs: &WindowKnobs) -> Result<()> {
    check(knobs, reduction::row(&part.info)).map_err(|reason| unfit(&reason))?;
    let (mut spatial, summed) = spatial_and_summed(s, part)?;
    let tile = of_row(s, &mut spatial, knobs.thread_tile)?;
    let mut order: Vec<&Loop> = spatial.iter().chain(&summed).collect();
    order.push(&tile);
    s.reorder(&order)?;
    let spatial = s.fuse(&spatial.iter().collect::<Vec<_>>())?;
    let total = s.extent(&spatial)?;
    let threads = knobs.block_size.min(total).max(1);
    let split = s.split(&spatial, &[None, Some(threads)])?;
    s.bind(&split[0], "blockIdx.x")?;
    s.bind(&split[1], "threadIdx.x")?;
    match part.info.writes.len() {
        1 => tail(s, part, &split[1])?,
        several => {
            // A reduction of pairs (the largest value and its index): its readers are computed where the pairs are.
            for consumer in s.consumers(&part.block)? {
                s.reverse_compute_at_with_unit_loops(&consumer, &split[1])?;
            }
            (0..several).try_for_each(|i| s.set_scope(&part.block, i, "local"))?;
        }
    }
    unroll_hint(s, &split[1], knobs.unroll)?;
    if let Some(first) = summed.first() {
        s.decompose_reduction(&part.block, first)?;
    }
    Ok(())
}

/// Takes the loop over the results of a thread, neighbours in a row, out of the loops over all results.
fn of_row(s: &Schedule, spatial: &mut [Loop], tile: i64) -> Result<Loop> {
    let extents = spatial.iter().map(|l| s.extent(l));
    let extents = extents.collect::<Result<Vec<_>>>()?;
    // Split from the row before it is fused with others, so that TVM sees how few results a thread keeps.
    let row = extents.iter().rposition(|extent| *extent > 1).unwrap_or(0);
    let [outer, inner]: [Loop; 2] = s
        .split(&spatial[row], &[None, Some(tile)])?
        .try_into()
        .map_err(|_| unfit("a row that is not split in two"))?;
    spatial[row] = outer;
    Ok(inner)
}

/// Computes what is after a reduction where its results are.
fn tail(s: &Schedule, part: &Part, thread: &Loop) -> Result<()> {
    if let [consumer] = &s.consumers(&part.block)?[..]
        && s.is_guarded(&part.block)?
        && takes_some(&part.info, &s.info(consumer)?)
        && s.reverse_compute_at_with_unit_loops(consumer, thread)
            .is_ok()
    {
        // It is not inlined into a copy of the results, because the copy cannot have the bounds of both.
        return s.set_scope(&part.block, 0, "local");
    }
    let copy_out = s.cache_write(&part.block, 0, "local")?;
    s.reverse_compute_at_with_unit_loops(&copy_out, thread)?;
    if inline_consumers(s, &copy_out).is_err() {
        fallback::rest(s, &copy_out)?;
    }
    Ok(())
}

/// A reduction's spatial loops, moved outside, and the loops of its sum.
pub(super) fn spatial_and_summed(s: &Schedule, part: &Part) -> Result<(Vec<Loop>, Vec<Loop>)> {
    let loops = s.loops(&part.block)?;
    if loops.len() != part.info.iters.len() {
        return Err(unfit("the block has other loops than iterators"));
    }
    let of = |kind| {
        part.info
            .of_kind(kind)
            .map(|i| loops[i].clone())
            .collect::<Vec<_>>()
    };
    let (mut spatial, summed) = (of(IterKind::Spatial), of(IterKind::Reduction));
    if spatial.len() + summed.len() != loops.len() {
        return Err(unfit(
            "a block that is neither element-wise nor a reduction",
        ));
    }
    s.reorder(&spatial.iter().chain(&summed).collect::<Vec<_>>())?;
    if spatial.is_empty() {
        let outermost = summed.first().ok_or_else(|| unfit("no loops"))?;
        spatial.push(s.add_unit_loop_around(outermost)?);
    }
    Ok((spatial, summed))
}
