//! Operators without a reduction: element-wise chains, copies, transposes, concatenations.
//!
//! The innermost loops that all accesses walk through alike are fused, vectorised and what is outside runs in parallel.

use opdata::contract::knobs::SpatialKnobs;
use opmodels::tile::{VectorUnit, even_vector_length};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Result, Schedule};

use super::pad;
use super::prepare::{Part, prepare};
use crate::schedule::unfit;

/// The template with the knobs that the operator's structure suggests.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<SpatialKnobs> {
    let tail = prepared(s, unit)?;
    nest(s, &tail, unit)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    unit: VectorUnit,
    knobs: SpatialKnobs,
) -> Result<SpatialKnobs> {
    let tail = prepared(s, unit)?;
    let flat = Flat::of(s, &tail)?.ok_or_else(|| unfit("a single element has no loops"))?;
    flat.schedule(s, &tail, knobs)?;
    Ok(knobs)
}

/// Extent of the loop that is vectorised, and of all loops together; nothing for a single element.
pub(super) fn extents(s: &Schedule, unit: VectorUnit) -> Result<Option<(i64, i64)>> {
    let tail = prepared(s, unit)?;
    let total = tail.info.iters.iter().map(|i| i.extent).product();
    match Flat::of(s, &tail)? {
        Some(flat) => Ok(Some((s.extent(&flat.inner)?, total))),
        None => Ok(None),
    }
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

/// Schedules one spatial block by its structure; returns what was chosen.
pub(super) fn nest(s: &Schedule, part: &Part, unit: VectorUnit) -> Result<SpatialKnobs> {
    let mut knobs = SpatialKnobs {
        vector_length: 1,
        unroll: 1,
        parallel_extent: None,
    };
    if let Some(flat) = Flat::of(s, part)? {
        knobs.vector_length = even_vector_length(s.extent(&flat.inner)?, unit.lanes());
        flat.schedule(s, part, knobs)?;
    }
    Ok(knobs)
}

/// A block's loops with the innermost ones that all accesses walk through alike fused.
struct Flat {
    outer: Vec<Loop>,
    inner: Loop,
}

impl Flat {
    /// Fuses; nothing for a block without loops.
    fn of(s: &Schedule, part: &Part) -> Result<Option<Flat>> {
        let mut loops = s.loops(&part.block)?;
        if loops.len() != part.info.iters.len() {
            return Err(unfit("the block has other loops than iterators"));
        }
        if loops.is_empty() {
            return Ok(None);
        }
        // At least one: the innermost loop is always the one to be vectorised.
        let kept = loops.len() - part.info.contiguous_suffix().max(1);
        let suffix = loops.split_off(kept);
        let inner = if suffix.len() > 1 {
            s.fuse(&suffix.iter().collect::<Vec<_>>())?
        } else {
            suffix[0].clone()
        };
        Ok(Some(Flat {
            outer: loops,
            inner,
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
        outer.push(&split[0]);
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
