//! The element-wise tail beside a register tile: whether it can be there, and in which order it goes through the tile.

use opmodels::tile::{VectorUnit, efficiency, even_vector_length};
use tvm_bridge::inspect::{Access, BlockInfo, Index, Iter};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access as Buffer;
use tvm_bridge::{Block, Result, Schedule};

use super::knobs::vector_axis;
use super::prepare::{Part, Parts};
use super::{ContractionKnobs, SUMS_SCOPE};
use crate::schedule::unfit;

/// The axis along which the vectors run, if the tail leaves out its end.
pub(super) fn cropped_axis<'a>(parts: &Parts, info: &'a BlockInfo) -> Option<&'a Iter> {
    let (tail, vector, write) = (
        parts.tail.as_ref()?,
        vector_axis(info)?,
        info.writes.first()?,
    );
    let own = |index: &Index| index.plain() == Some(vector.iter);
    let dim = write.indices.iter().position(own)?;
    let reads = &tail.info.reads;
    let wanted = reads
        .iter()
        .find(|r| r.buffer == write.buffer)
        .and_then(|r| r.indices[dim].plain())
        .map(|i| tail.info.iters[i].extent);
    let axis = &info.iters[vector.iter];
    (vector.packed.is_none() && wanted? < axis.extent).then_some(axis)
}

/// Refuses a tail that reads the sums in another order, such as one that brings phases together. TVM would compute it
/// beside a tile without an error, but for the wrong elements.
pub(super) fn follows(tail: &Part, anchor: &Part) -> Result<()> {
    let sums = anchor.info.writes.first().map(|w| &w.buffer);
    let mut indices = tail.info.reads.iter().filter(|r| Some(&r.buffer) == sums);
    let ordered = indices.all(|r| {
        let mut terms = r.indices.iter().flat_map(|i| &i.terms);
        terms.all(|(_, factor)| factor.is_some())
    });
    match ordered {
        true => Ok(()),
        false => Err(unfit("the tail takes the sums in another order")),
    }
}

/// Makes the tail visit the sums in register order, if that differs from the order of the output. Its vectors then run along
/// the axis of the registers; the result is stored beside the sums and copied to the output afterwards. In the output's
/// order a vector is only as long as the tile is wide, for example 5 columns where a register has 16 lanes. Returns the
/// block that copies. `None` if both orders are equal, or if the tail reads more than one value per channel.
pub(super) fn turn(
    s: &Schedule,
    tail: &Part,
    anchor: &Part,
    knobs: &ContractionKnobs,
) -> Result<Option<Block>> {
    let Some(dim) = turned_axis(&tail.info, &anchor.info, knobs) else {
        return Ok(None);
    };
    let map = IndexMap::permutation(&moved_last(tail.info.iters.len(), dim))?;
    let copy = s.cache_write(&tail.block, 0, SUMS_SCOPE)?;
    s.transform_layout(&tail.block, 0, Buffer::Write, &map)?;
    s.transform_block(&tail.block, &map)?;
    Ok(Some(copy))
}

/// The tail's axis along which the sums are contiguous in registers. `None` unless the output is contiguous along
/// another axis and nothing else that the tail reads runs along this one.
fn turned_axis(tail: &BlockInfo, anchor: &BlockInfo, knobs: &ContractionKnobs) -> Option<usize> {
    let vector = knobs.vector_axis.as_deref()?;
    let sums = anchor.writes.first()?;
    let own = |index: &Index| {
        let iter = index.plain().map(|i| &anchor.iters[i]);
        iter.is_some_and(|i| i.name == vector)
    };
    let dim = sums.indices.iter().position(own)?;
    let last = tail.iters.len().checked_sub(1)?;
    let is_whole = |access: &Access| {
        access.indices.len() == tail.iters.len()
            && (0..)
                .zip(&access.indices)
                .all(|(i, index)| index.plain() == Some(i) || tail.iters[i].extent == 1)
    };
    let same_extent = tail.iters[dim].extent == sums.shape[dim];
    let (of_sums, others): (Vec<_>, Vec<_>) =
        tail.reads.iter().partition(|r| r.buffer == sums.buffer);
    let fits = dim < last
        && knobs.vector_length > 1
        && same_extent
        && of_sums.iter().all(|r| is_whole(r))
        && tail.writes.first().is_some_and(is_whole)
        && others.iter().all(|r| !r.uses(last));
    fits.then_some(dim)
}

/// All dimensions in order but `dim`, which comes last.
pub(super) fn moved_last(dims: usize, dim: usize) -> Vec<usize> {
    (0..dims).filter(|&d| d != dim).chain([dim]).collect()
}

/// Vectorises the innermost loop of a tail that visits the sums in register order.
pub(super) fn vectorize_turned(s: &Schedule, tail: &Block, length: i64) -> Result<()> {
    match s.loops(tail)?.last() {
        Some(innermost) => s.vectorize(&s.split(innermost, &[None, Some(length)])?[1]),
        None => Ok(()),
    }
}

/// Vectorises the tail's innermost loop where that fills a good part of a register; `around` loops it shares with the
/// reduction.
pub(super) fn vectorize(
    s: &Schedule,
    tail: &Block,
    around: usize,
    knobs: &ContractionKnobs,
    unit: VectorUnit,
) -> Result<()> {
    let info = s.info(tail)?;
    // Loops of one iteration are left out, so a tail of a single element has no loop of its own.
    let loops = s.loops(tail)?;
    let Some(innermost) = loops.get(around..).and_then(|own| own.last()) else {
        return Ok(());
    };
    let extent = s.extent(innermost)?;
    let written_last = info
        .writes
        .first()
        .and_then(|w| w.indices.last())
        .and_then(|i| i.plain());
    let vectors_are_last =
        written_last.map(|i| Some(&info.iters[i].name)) == Some(knobs.vector_axis.as_ref());
    let length = if vectors_are_last && extent % knobs.vector_length == 0 {
        knobs.vector_length
    } else {
        even_vector_length(extent, unit.lanes())
    };
    if extent > 1 && extent % length == 0 && efficiency(length, unit.lanes()) > 0.25 {
        s.vectorize(&s.split(innermost, &[None, Some(length)])?[1])?;
    }
    Ok(())
}
