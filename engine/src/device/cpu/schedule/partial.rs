//! Reductions of a whole tensor to one value: sums, means, largest values, ranges of a dynamic quantisation.
//!
//! There is no spatial loop to run in parallel or to vectorise, so the reduction is factored. Each piece of the tensor
//! is reduced separately, in parallel, to a few vector registers. These are reduced to one value at the end.

use opdata::contract::knobs::PartialKnobs;
use opmodels::tile::{VectorUnit, even_vector_length};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::{Result, Schedule};

use super::prepare::{Part, Parts, prepare};
use super::spatial;
use crate::schedule::unfit;

/// Shortest reduction worth two stages.
const SHORTEST: i64 = 1024;
/// Elements of a piece at least: less is not worth another thread's start.
const PIECE_ELEMENTS: i64 = 16 * 1024;
/// Maximum number of pieces, more than most machines have threads.
const MOST_PIECES: i64 = 256;
/// Registers of independent results, which hide the latency of an addition.
const REGISTERS: i64 = 4;

/// The template with the knobs that the operator's extents suggest.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<PartialKnobs> {
    let parts = parts(s)?;
    let total = length(&parts.reductions[0]);
    if total < SHORTEST {
        return Err(unfit("the reduction is too short for two stages"));
    }
    let lanes = even_vector_length(total, REGISTERS * unit.lanes());
    let pieces = (1..=MOST_PIECES.min(total / PIECE_ELEMENTS))
        .rev()
        .find(|pieces| total / lanes % pieces == 0)
        .unwrap_or(1);
    let knobs = PartialKnobs {
        vector_length: lanes,
        parallel_extent: pieces,
    };
    apply(s, &parts, knobs, unit)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    unit: VectorUnit,
    knobs: PartialKnobs,
) -> Result<PartialKnobs> {
    apply(s, &parts(s)?, knobs, unit)
}

/// Elements that the operator reduces.
pub(super) fn elements(s: &Schedule) -> Result<i64> {
    Ok(length(&parts(s)?.reductions[0]))
}

/// The parts of an operator that reduces to single values only, all of one length.
fn parts(s: &Schedule) -> Result<Parts> {
    let parts = prepare(s)?;
    let is_single = |part: &Part| {
        let mut spatial = part.info.of_kind(IterKind::Spatial);
        spatial.all(|i| part.info.iters[i].extent == 1)
    };
    let Some(first) = parts.reductions.first() else {
        return Err(unfit("the operator reduces nothing"));
    };
    let total = length(first);
    if !parts.paddings.is_empty()
        || !parts
            .reductions
            .iter()
            .all(|r| is_single(r) && length(r) == total)
    {
        return Err(unfit("not reductions of whole tensors to one value"));
    }
    Ok(parts)
}

/// Elements that are reduced.
fn length(part: &Part) -> i64 {
    let reduced = part.info.of_kind(IterKind::Reduction);
    reduced.map(|i| part.info.iters[i].extent).product()
}

fn apply(
    s: &Schedule,
    parts: &Parts,
    knobs: PartialKnobs,
    unit: VectorUnit,
) -> Result<PartialKnobs> {
    let step = knobs.vector_length * knobs.parallel_extent;
    let total = length(&parts.reductions[0]);
    if knobs.vector_length < 2 || knobs.parallel_extent < 1 || total % step != 0 {
        return Err(unfit("the pieces do not divide the reduction"));
    }
    // A tail of a single value has no loop to arrange.
    if let Some(tail) = &parts.tail
        && !s.loops(&tail.block)?.is_empty()
    {
        spatial::nest(s, tail, unit)?;
    }
    // TVM cannot factor a reduction beside a block without a loop.
    for block in s.blocks()? {
        if s.loops(&block)?.is_empty() {
            s.add_unit_loop(&block)?;
        }
    }
    for part in &parts.reductions {
        let spatial = part.info.of_kind(IterKind::Spatial).count();
        let loops = s.loops(&part.block)?;
        let reduced: Vec<_> = loops.iter().skip(spatial).collect();
        let all = s.fuse(&reduced)?;
        let lanes = &s.split(&all, &[None, Some(knobs.vector_length)])?[1];
        // One result a lane, then one a piece and lane.
        let by_lane = s.rfactor(lanes, 0)?;
        let loops = s.loops(&by_lane)?;
        let inner = loops.len() - 2;
        let pieces = s.split(&loops[inner], &[Some(knobs.parallel_extent), None])?;
        let by_piece = s.rfactor(&pieces[0], 0)?;
        let loops = s.loops(&by_piece)?;
        let inner = loops.len() - 3;
        s.parallel(&loops[inner])?;
        s.vectorize(&loops[inner + 2])?;
        s.decompose_reduction(&by_piece, &loops[inner + 1])?;
    }
    Ok(knobs)
}
