//! Operators without a reduction: element-wise chains, copies, transposes, concatenations.
//!
//! The innermost loops that all accesses traverse alike are fused and vectorised; the loops outside run in parallel.
//! Transposes go block by block, paddings fill and copy, and resized or concatenated images are stored interleaved.

use opdata::contract::knobs::SpatialKnobs;
use opmodels::tile::{VectorUnit, divisors, even_vector_length, vector_length};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{BlockInfo, Result, Schedule};

use super::pad;
use super::prepare::{Part, is_padding, prepare};
use crate::schedule::unfit;

/// The template with the knobs that the operator's structure suggests.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<SpatialKnobs> {
    let tail = prepared(s, unit)?;
    match padded(s, &tail, unit)? {
        Some(knobs) => Ok(knobs),
        None => nest(s, &tail, unit),
    }
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    unit: VectorUnit,
    knobs: SpatialKnobs,
) -> Result<SpatialKnobs> {
    let tail = prepared(s, unit)?;
    if let Some(knobs) = padded(s, &tail, unit)? {
        return Ok(knobs);
    }
    let step = |_| knobs.vector_length * knobs.unroll;
    let flat = Flat::of(s, &tail, step)?;
    let flat = flat.ok_or_else(|| unfit("a single element has no loops"))?;
    flat.schedule(s, &tail, knobs)?;
    Ok(knobs)
}

/// Extent of the loop that is vectorised, and of all loops that can run in parallel together. Nothing for a single
/// element, or for a padding, in which nothing varies.
pub(super) fn extents(s: &Schedule, unit: VectorUnit) -> Result<Option<(i64, i64)>> {
    let tail = prepared(s, unit)?;
    if is_padding(s, &tail.block)? {
        return Ok(None);
    }
    let total: i64 = tail.info.iters.iter().map(|i| i.extent).product();
    let Some(flat) = Flat::of(s, &tail, |extent| even_vector_length(extent, unit.lanes()))? else {
        return Ok(None);
    };
    let kept = flat.across.as_ref().map_or(Ok(1), |l| s.extent(l))?;
    Ok(Some((s.extent(&flat.inner)?, total / kept)))
}

fn prepared(s: &Schedule, unit: VectorUnit) -> Result<Part> {
    let parts = prepare(s)?;
    let tail = match parts.tail {
        Some(tail) if parts.reductions.is_empty() => tail,
        _ => return Err(unfit("the operator reduces something")),
    };
    for padding in &parts.paddings {
        pad::apart(s, padding, unit)?;
    }
    Ok(tail)
}

/// Schedules an operator that only pads: it fills and copies. Returns its knobs; `None` for other operators.
fn padded(s: &Schedule, tail: &Part, unit: VectorUnit) -> Result<Option<SpatialKnobs>> {
    if !is_padding(s, &tail.block)? {
        return Ok(None);
    }
    pad::apart(s, tail, unit)?;
    let row = tail.info.iters.last().map_or(1, |i| i.extent);
    Ok(Some(SpatialKnobs {
        vector_length: vector_length(row, unit.lanes()),
        unroll: 1,
        parallel_extent: None,
    }))
}

/// Schedules one spatial block by its structure; returns what was chosen.
pub(super) fn nest(s: &Schedule, part: &Part, unit: VectorUnit) -> Result<SpatialKnobs> {
    let mut knobs = SpatialKnobs {
        vector_length: 1,
        unroll: 1,
        parallel_extent: None,
    };
    let length = |extent| even_vector_length(extent, unit.lanes());
    if let Some(flat) = Flat::of(s, part, length)? {
        match flat.interleaved {
            Some(values) => knobs.unroll = values,
            None => {
                knobs.vector_length = length(s.extent(&flat.inner)?);
            }
        }
        flat.schedule(s, part, knobs)?;
    }
    Ok(knobs)
}

/// A block's loops. The innermost ones, if all accesses go through them alike, are fused.
struct Flat {
    outer: Vec<Loop>,
    inner: Loop,
    /// A piece of the axis along which a transposed operand is contiguous. It lies inside the parallel loop, so
    /// what a vector gathers from a cache line is used before the line is evicted.
    across: Option<Loop>,
    /// Neighbours along the inner loop that read one place (an enlarged image), or take turns between several (the
    /// phases of a transposed convolution).
    interleaved: Option<i64>,
}

impl Flat {
    /// Fuses the loops. `None` for a block without loops. `step` gives the step size of a loop by its extent.
    ///
    /// No more loops are fused than a step needs. TVM simplifies `f / 56 * 56 + f % 56` to `f`, but not if the step
    /// divides several loops together (the vectors would be gathered).
    fn of(s: &Schedule, part: &Part, step: impl Fn(i64) -> i64) -> Result<Option<Flat>> {
        let mut loops = s.loops(&part.block)?;
        if loops.len() != part.info.iters.len() {
            return Err(unfit("the block has other loops than iterators"));
        }
        if loops.is_empty() {
            return Ok(None);
        }
        let across = match transposed_axis(&part.info) {
            Some(axis) => {
                let piece = piece(part.info.iters[axis].extent);
                let split = s.split(&loops[axis], &[None, Some(piece)])?;
                loops[axis] = split[0].clone();
                Some(split[1].clone())
            }
            None => None,
        };
        // At least one: the innermost loop is always the one to be vectorised.
        let most = part.info.contiguous_suffix().max(1);
        let extents: Vec<i64> = part.info.iters.iter().rev().map(|i| i.extent).collect();
        let together = |count: usize| extents[..count].iter().product::<i64>();
        let step = step(together(most));
        let fused = (1..most).find(|&count| together(count) % step == 0);
        let kept = loops.len() - fused.unwrap_or(most);
        let suffix = loops.split_off(kept);
        let inner = if suffix.len() > 1 {
            s.fuse(&suffix.iter().collect::<Vec<_>>())?
        } else {
            suffix[0].clone()
        };
        Ok(Some(Flat {
            outer: loops,
            inner,
            across,
            interleaved: interleaved(&part.info),
        }))
    }

    fn schedule(&self, s: &Schedule, part: &Part, knobs: SpatialKnobs) -> Result<()> {
        let unroll = (knobs.unroll > 1).then_some(Some(knobs.unroll));
        let factors: Vec<_> = std::iter::once(None)
            .chain(unroll)
            .chain([Some(knobs.vector_length)])
            .collect();
        let split = s.split(&self.inner, &factors)?;
        let mut outer: Vec<_> = self.outer.iter().collect();
        // Without vectors, a row of them stays a loop: LLVM makes vectors of it, which are stored interleaved.
        let row_is_a_loop =
            self.interleaved.is_some() && knobs.vector_length == 1 && !outer.is_empty();
        if !row_is_a_loop {
            outer.push(&split[0]);
        }
        if let Some(across) = &self.across {
            let order = outer.iter().copied().chain([across]);
            s.reorder(&order.chain(&split[1..]).collect::<Vec<_>>())?;
        }
        let outer = s.fuse(&outer)?;
        match knobs.parallel_extent {
            Some(extent) => s.parallel(&s.split(&outer, &[Some(extent), None])?[0])?,
            None => s.parallel(&outer)?,
        }
        let Some((lanes, steps)) = split[1..].split_last() else {
            return Ok(());
        };
        for step in steps {
            s.unroll(step)?;
        }
        if part.info.iters.iter().all(|i| i.kind == IterKind::Spatial) {
            s.vectorize(lanes)?;
        }
        Ok(())
    }
}

/// An axis along which an operand is contiguous, but which is not the innermost loop. The innermost loop walks
/// through that operand with a stride.
fn transposed_axis(info: &BlockInfo) -> Option<usize> {
    /// In shorter rows, no cache line is used twice.
    const SHORTEST: i64 = 8;
    let last = info.iters.len().checked_sub(1)?;
    info.reads.iter().find_map(|read| {
        let (contiguous, others) = read.indices.split_last()?;
        let axis = contiguous.plain().filter(|&axis| axis != last)?;
        let strided = others.iter().any(|i| i.plain() == Some(last));
        let long = |iter: usize| info.iters[iter].extent >= SHORTEST;
        (strided && long(axis) && long(last)).then_some(axis)
    })
}

/// Values of a transposed axis in a piece: a cache line or two, or all of them where neither size divides the axis.
fn piece(extent: i64) -> i64 {
    const FEWEST: i64 = 4;
    const MOST: i64 = 32;
    let divisor = divisors(extent).take_while(|&d| d <= MOST).last();
    divisor.filter(|&d| d >= FEWEST).unwrap_or(extent)
}

/// Number of neighbours along the innermost axis that come from different sources in turn, or from one. `None` if their
/// runs do not divide the axis, or are too few to fill vectors.
fn interleaved(info: &BlockInfo) -> Option<i64> {
    /// Fewest runs of an axis: with fewer, vectors would be too short to pay.
    const FEWEST: i64 = 16;
    let last = info.iters.len().checked_sub(1)?;
    let extent = info.iters[last].extent;
    let (_, values) = info
        .reads
        .iter()
        .filter_map(|read| read.indices.last()?.quotient)
        .find(|&(iter, _)| iter == last)?;
    (values > 1 && extent % values == 0 && extent / values >= FEWEST).then_some(values)
}
