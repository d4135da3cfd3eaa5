//! Paddings: a fill and a copy in place of a loop full of conditions, where possible close to their use.
//!
//! A padded buffer that its reader walks through once for every index of some outer axes (the channels of a pooling or
//! a depthwise convolution) is filled for one such index at a time, so that it stays in the cache ([`near`]). Others
//! are filled whole, before ([`apart`]).

use opmodels::tile::{VectorUnit, vector_length};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, Result, Schedule};

use super::prepare::Part;
use crate::schedule::unfit;

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

/// Fills what the body of `outermost` needs inside `outermost`, the outermost loop around the reader.
///
/// With a `stride` above 1 the innermost axis is stored phase by phase (all columns `0, s, 2s, …`, then `1, s+1, …`),
/// which makes the strided reads of the window contiguous.
pub(super) fn near(
    s: &Schedule,
    padding: &Part,
    outermost: &Loop,
    stride: i64,
    unit: VectorUnit,
) -> Result<()> {
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
    let own_loops = |block: &Block| -> Result<Vec<Loop>> { Ok(s.loops(block)?.split_off(1)) };
    let Some(first) = own_loops(&padding.block)?.into_iter().next() else {
        return Ok(());
    };
    if s.can_decompose_padding(&padding.block, &first)? {
        let fill = s.decompose_padding(&padding.block, &first)?;
        if let Some(row) = own_loops(&fill)?.pop().filter(|_| stride > 1)
            && s.extent(&row)? % stride == 0
        {
            // In the order in which the phases lie: LLVM turns a fill of what is contiguous into calls of memset.
            let split = s.split(&row, &[None, Some(stride)])?;
            s.reorder(&[&split[1], &split[0]])?;
        }
    }
    let Some(row) = own_loops(&padding.block)?.pop() else {
        return Ok(());
    };
    if stride > 1 {
        // Neighbours go to different phases; together they are one load and a shuffle for LLVM.
        let extent = s.extent(&row)?;
        let split = s.split(&row, &[None, Some(stride)])?;
        if extent % stride != 0 {
            s.part_loop(&split[0])?;
        }
        s.unroll(&split[1])
    } else {
        vectorize_row(s, &row, unit)
    }
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

/// A copy of what `block` reads from its buffer `operand`, to be treated like a padding.
pub(super) fn copy_of(s: &Schedule, block: &Block, operand: usize) -> Result<Part> {
    let copy = s.cache_read(block, operand, "global")?;
    let info = s.info(&copy)?;
    Ok(Part { block: copy, info })
}
