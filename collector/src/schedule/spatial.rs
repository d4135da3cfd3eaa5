//! Operators without a reduction: element-wise chains, copies, transposes, concatenations.
//!
//! The innermost loops that all accesses walk through alike are fused, vectorised and what is outside runs in parallel.

use tvm_bridge::inspect::{BlockInfo, IterKind};
use tvm_bridge::{Result, Schedule};

use super::lanes::even_vector_length;
use super::prepare::{Part, prepare};
use super::{Choice, VectorUnit, pad, unfit};

/// The template.
pub(super) fn apply(s: &Schedule, unit: VectorUnit) -> Result<Choice> {
    let parts = prepare(s)?;
    let tail = match parts.tail {
        Some(tail) if parts.reductions.is_empty() => tail,
        _ => return Err(unfit("the operator reduces something")),
    };
    for padding in &parts.paddings {
        pad::apart(s, padding, unit)?;
    }
    Ok(Choice::Spatial {
        vector_length: nest(s, &tail, unit)?,
    })
}

/// Schedules one spatial block; returns the length of its vectors.
pub(super) fn nest(s: &Schedule, part: &Part, unit: VectorUnit) -> Result<i64> {
    let loops = s.loops(&part.block)?;
    if loops.len() != part.info.iters.len() {
        return Err(unfit("the block has other loops than iterators"));
    }
    if loops.is_empty() {
        return Ok(1);
    }
    let kept = loops.len() - contiguous_suffix(&part.info);
    let suffix = loops[kept..].iter().collect::<Vec<_>>();
    let inner = if suffix.len() > 1 {
        s.fuse(&suffix)?
    } else {
        suffix[0].clone()
    };
    let length = even_vector_length(s.extent(&inner)?, unit.lanes());
    let split = s.split(&inner, &[None, Some(length)])?;
    let mut outer: Vec<_> = loops[..kept].iter().collect();
    outer.push(&split[0]);
    let outer = s.fuse(&outer)?;
    s.parallel(&outer)?;
    if part.info.iters.iter().all(|i| i.kind == IterKind::Spatial) {
        s.vectorize(&split[1])?;
    }
    Ok(length)
}

/// How many innermost iterators every access either walks through contiguously, in order, or does not use at all.
///
/// At least one: the innermost loop is always the one to be vectorised.
fn contiguous_suffix(info: &BlockInfo) -> usize {
    let n = info.iters.len();
    let fits = |suffix: usize| {
        let iters: Vec<usize> = (n - suffix..n).collect();
        info.reads.iter().chain(&info.writes).all(|access| {
            if !iters.iter().any(|&i| access.uses(i)) {
                return true;
            }
            let dims = access.indices.len();
            dims >= suffix
                && iters
                    .iter()
                    .zip(&access.indices[dims - suffix..])
                    .zip(&access.shape[dims - suffix..])
                    .all(|((&iter, index), &extent)| {
                        index.plain() == Some(iter) && extent == info.iters[iter].extent
                    })
        })
    };
    (2..=n).rev().find(|&suffix| fits(suffix)).unwrap_or(1)
}
