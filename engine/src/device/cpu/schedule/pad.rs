//! Paddings: loops without conditions in place of one that is full of them, where possible close to their use.
//!
//! Poolings and depthwise convolutions read the padded buffer once for every channel. It is filled for one channel, or a
//! few small ones, at a time, so that it stays in the cache ([`near`]). Others are filled whole, before ([`apart`]).

use std::ops::Range;

use opmodels::tile::{VectorUnit, vector_length};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, Result, Schedule};

use super::prepare::Part;
use crate::schedule::unfit;

/// LLVM 22 writes a loop of fewer steps out, and then gathers vectors along the loop around it (`TinyTripCountVectorThreshold`,
/// 2026-11-26).
const SHORT_LOOP: i64 = 16;

/// Fills the whole padded buffer in parallel loops of its own.
pub(super) fn apart(s: &Schedule, padding: &Part, unit: VectorUnit) -> Result<()> {
    let loops = s.loops(&padding.block)?;
    let outermost = loops
        .first()
        .ok_or_else(|| unfit("a padding without loops"))?;
    let fill = s.decompose_padding(&padding.block, outermost)?;
    for block in [&fill, &padding.block] {
        let mut loops = s.loops(block)?;
        let Some(row) = loops.pop() else { continue };
        vectorize_row(s, &row, unit)?;
        // Rows stay loops of their own: fused into one, the index arithmetic would cost more than the copy.
        loops.truncate(loops.len().saturating_sub(1).max(1));
        if !loops.is_empty() {
            s.parallel(&s.fuse(&loops.iter().collect::<Vec<_>>())?)?;
        }
    }
    Ok(())
}

/// Fills what the body of `outermost` needs inside `outermost`, the outermost loop around the reader, in one pass.
///
/// Rows and columns are parted where the image begins and ends, so that the inside is copied without a condition. A fill
/// before the copy takes up to half as long again (depthwise convolutions of mobilenet, Zen 4, 2026-11-26).
///
/// With a `stride` above 1 the innermost axis is stored phase by phase: all columns `0, s, 2s, …`, then `1, s+1, …`. The
/// window's strided reads become contiguous.
pub(super) fn near(s: &Schedule, padding: &Part, outermost: &Loop, stride: i64) -> Result<()> {
    let dims = padding.info.writes.first().map_or(0, |w| w.indices.len());
    if stride > 1 {
        s.transform_layout(
            &padding.block,
            0,
            Access::Write,
            &IndexMap::phases(dims, stride)?,
        )?;
    }
    s.compute_at(&padding.block, outermost)?;
    let mut own = s.loops(&padding.block)?.split_off(1);
    let Some(mut columns) = own.pop() else {
        return Ok(());
    };
    let extent = s.extent(&columns)?;
    let image = image_range(padding, 1).unwrap_or(0..extent);
    let copied = (image.start + stride - 1) / stride..image.end.min(extent) / stride;
    let phase_by_phase = stride > 1 && copied.end - copied.start < SHORT_LOOP;
    if stride > 1 {
        // Neighbours go to different phases; together they are one load and a shuffle for LLVM.
        let split = s.split(&columns, &[None, Some(stride)])?;
        s.unroll(&split[1])?;
        columns = split[0].clone();
        if phase_by_phase {
            s.reorder(&[&split[1], &columns])?;
        }
    }
    let inside = part(s, &columns, copied)?;
    if phase_by_phase {
        s.vectorize(&inside)?;
    }
    if let (Some(image), Some(rows)) = (image_range(padding, 2), own.last()) {
        part(s, rows, image)?;
    }
    Ok(())
}

/// Where the image lies in a padded buffer, along the `from_last`th dimension from the end; nothing where the image's index
/// is of several iterators.
fn image_range(padding: &Part, from_last: usize) -> Option<Range<i64>> {
    let read = padding.info.reads.first()?;
    let place = read.indices.len().checked_sub(from_last)?;
    let index = read.indices.get(place).filter(|i| i.plain().is_some())?;
    Some(-index.offset..read.shape[place] - index.offset)
}

/// Parts a loop in front of the steps `inside` and after them; returns the loop over these.
fn part(s: &Schedule, l: &Loop, inside: Range<i64>) -> Result<Loop> {
    let mut extents = Vec::new();
    if inside.start > 0 {
        extents.push(inside.start);
    }
    if inside.end < s.extent(l)? {
        extents.push(inside.end - inside.start);
    }
    if extents.is_empty() || inside.is_empty() {
        return Ok(l.clone());
    }
    let parts = s.partition(l, &extents)?;
    Ok(parts[usize::from(inside.start > 0)].clone())
}

fn vectorize_row(s: &Schedule, row: &Loop, unit: VectorUnit) -> Result<()> {
    let extent = s.extent(row)?;
    let length = vector_length(extent, unit.lanes());
    if extent > unit.lanes() && length % (unit.lanes() / 2).max(1) != 0 {
        // LLVM's own vectors, with shorter ones for the rest, are better than those of an odd length.
        return Ok(());
    }
    let split = s.split(row, &[None, Some(length)])?;
    if extent % length != 0 {
        s.part_loop(&split[0])?;
    }
    s.vectorize(&split[1])
}

/// A copy of the region that `block` reads from its buffer `operand`, scheduled like a padding.
pub(super) fn copy_of(s: &Schedule, block: &Block, operand: usize) -> Result<Part> {
    let copy = s.cache_read(block, operand, "global")?;
    let info = s.info(&copy)?;
    Ok(Part { block: copy, info })
}
