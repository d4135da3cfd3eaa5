//! One dominating reduction: convolutions, dense layers, matrix products, pooling, means.
//!
//! A tile of outputs is kept in vector registers while the reduction runs over it: `vector_blocks` vectors along the
//! axis that is contiguous in memory, times `tile` values of other spatial axes. The element-wise tail runs on the tile
//! before it leaves the cache. Outer loops run in parallel.

use tvm_bridge::inspect::{Access, IterKind};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::schedule::{Access as Buffer, Loop};
use tvm_bridge::{Block, Result, Schedule};

use super::knobs::{ContractionKnobs, default_knobs, vector_axis};
use super::lanes::{efficiency, even_vector_length};
use super::prepare::{Part, prepare};
use super::{Choice, VectorUnit, pad, spatial, unfit};

/// The template: the tail inside the tile, paddings close to their use.
pub(super) fn close(s: &Schedule, unit: VectorUnit) -> Result<Choice> {
    apply(s, unit, Tail::InTile, Paddings::Near)
}

/// The template with paddings in nests of their own.
pub(super) fn fused(s: &Schedule, unit: VectorUnit) -> Result<Choice> {
    apply(s, unit, Tail::InTile, Paddings::Apart)
}

/// The template with the tail in a nest of its own too, for tails that index the result in another way.
pub(super) fn separate(s: &Schedule, unit: VectorUnit) -> Result<Choice> {
    apply(s, unit, Tail::Apart, Paddings::Apart)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    InTile,
    Apart,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Paddings {
    Near,
    Apart,
}

fn apply(s: &Schedule, unit: VectorUnit, tail: Tail, paddings: Paddings) -> Result<Choice> {
    let parts = prepare(s)?;
    let [anchor] = &parts.reductions[..] else {
        return Err(unfit("not exactly one reduction"));
    };
    let anchor = pack_if_nothing_is_contiguous(s, anchor.clone())?;
    let mut knobs = default_knobs(&anchor.info, unit);
    let staged = match paddings {
        Paddings::Near => Some(Staged::find(s, &parts.paddings, &anchor, &knobs)?),
        Paddings::Apart => {
            parts
                .paddings
                .iter()
                .try_for_each(|padding| pad::apart(s, padding, unit))?;
            None
        }
    };
    if let Some(staged) = &staged {
        knobs.fused_outer = staged.outer_axes;
    }
    let copy_out = match (&parts.tail, tail) {
        (Some(last), Tail::InTile) => {
            s.set_scope(&anchor.block, 0, "local")?;
            last.block.clone()
        }
        (Some(last), Tail::Apart) => {
            spatial::nest(s, last, unit)?;
            s.cache_write(&anchor.block, 0, "local")?
        }
        (None, _) => s.cache_write(&anchor.block, 0, "local")?,
    };
    tile(s, &anchor, &copy_out, &knobs, staged.as_ref(), unit)?;
    Ok(Choice::Contraction(knobs))
}

/// A buffer that is filled, piece by piece, close to where the reduction reads it.
struct Staged {
    filling: Part,
    /// How many of the outermost loops index the buffer plainly: one fill for each of their values.
    outer_axes: usize,
    /// Step of the innermost axis between neighbouring outputs.
    stride: i64,
}

/// Fewest fills worth their parallel loop.
const FEWEST_FILLS: i64 = 8;

impl Staged {
    /// The padding of the reduction's operand, or else a copy of an operand that is read with a stride, if a window
    /// slides over it separately for every value of the outermost axes.
    fn find(
        s: &Schedule,
        paddings: &[Part],
        anchor: &Part,
        knobs: &ContractionKnobs,
    ) -> Result<Staged> {
        let info = &anchor.info;
        let windows = |access: &Access| -> Option<(usize, i64)> {
            let plain = access
                .indices
                .iter()
                .take_while(|i| i.terms.is_empty() || i.plain().is_some())
                .count();
            let outer: Vec<usize> = access.indices[..plain]
                .iter()
                .filter_map(|i| i.plain())
                .collect();
            let leading = knobs
                .loop_order
                .iter()
                .take(outer.len())
                .collect::<Vec<_>>();
            let spatial = outer.iter().all(|&i| {
                info.iters[i].kind == IterKind::Spatial && leading.contains(&&info.iters[i].name)
            });
            let fills: i64 = outer.iter().map(|&i| info.iters[i].extent).product();
            let vector = knobs.vector_axis.as_deref();
            let stride = access.indices.last().and_then(|index| {
                let of_vector =
                    |t: &&(usize, Option<i64>)| Some(info.iters[t.0].name.as_str()) == vector;
                index.terms.iter().find(of_vector).and_then(|t| t.1)
            });
            (spatial && fills >= FEWEST_FILLS && plain < access.indices.len())
                .then_some((outer.len(), stride?))
        };
        for (operand, access) in info.reads.iter().enumerate() {
            let Some((outer_axes, stride)) = windows(access) else {
                continue;
            };
            let padding = paddings
                .iter()
                .find(|p| p.info.writes.iter().any(|w| w.buffer == access.buffer));
            let filling = match padding {
                Some(padding) if paddings.len() == 1 => padding.clone(),
                None if stride > 1 && paddings.is_empty() => {
                    pad::copy_of(s, &anchor.block, operand)?
                }
                _ => continue,
            };
            return Ok(Staged {
                filling,
                outer_axes,
                stride,
            });
        }
        Err(unfit("no operand is worth filling close to its use"))
    }
}

/// Where no operand is contiguous along a spatial axis (both walk along the reduction), the operand of the last output
/// axis is copied into the transposed layout first: a pass over it, against one for every row of the other.
fn pack_if_nothing_is_contiguous(s: &Schedule, anchor: Part) -> Result<Part> {
    let info = &anchor.info;
    if info.reads.len() < 2 || vector_axis(info).is_some() {
        return Ok(anchor);
    }
    let Some(axis) = info
        .writes
        .first()
        .and_then(|w| w.indices.last())
        .and_then(|i| i.plain())
    else {
        return Ok(anchor);
    };
    let Some((operand, access)) = info.reads.iter().enumerate().find(|(_, r)| r.uses(axis)) else {
        return Ok(anchor);
    };
    let Some(dim) = access.indices.iter().position(|i| i.plain() == Some(axis)) else {
        return Ok(anchor);
    };
    let copy = s.cache_read(&anchor.block, operand, "global")?;
    s.transform_layout(
        &copy,
        0,
        Buffer::Write,
        &IndexMap::permutation(&moved_last(access.indices.len(), dim))?,
    )?;
    let loops = s.loops(&copy)?;
    s.parallel(&loops[0])?;
    let info = s.info(&anchor.block)?;
    Ok(Part {
        block: anchor.block,
        info,
    })
}

/// All dimensions in order but `dim`, which comes last.
fn moved_last(dims: usize, dim: usize) -> Vec<usize> {
    (0..dims).filter(|&d| d != dim).chain([dim]).collect()
}

/// Applies the knobs.
fn tile(
    s: &Schedule,
    anchor: &Part,
    copy_out: &Block,
    knobs: &ContractionKnobs,
    staged: Option<&Staged>,
    unit: VectorUnit,
) -> Result<()> {
    let info = &anchor.info;
    let place = |name: &String| {
        info.iters
            .iter()
            .position(|i| i.name == *name)
            .ok_or_else(|| unfit("unknown axis"))
    };
    let vector = knobs.vector_axis.as_ref().map(place).transpose()?;
    if let (Some(axis), Some(write)) = (vector, info.writes.first())
        && let Some(dim) = write.indices.iter().position(|i| i.plain() == Some(axis))
        && dim + 1 != write.indices.len()
    {
        let order = moved_last(write.indices.len(), dim);
        s.transform_layout(
            &anchor.block,
            0,
            Buffer::Write,
            &IndexMap::permutation(&order)?,
        )?;
    }
    let loops = s.loops(&anchor.block)?;
    if loops.len() != info.iters.len() {
        return Err(unfit("the block has other loops than iterators"));
    }
    let mut outer: Vec<Loop> = Vec::new();
    let mut inner: Vec<Loop> = Vec::new();
    let mut lanes: Vec<Loop> = Vec::new();
    for name in &knobs.loop_order {
        let iter = place(name)?;
        if Some(iter) == vector {
            let split = s.split(
                &loops[iter],
                &[None, Some(knobs.vector_blocks), Some(knobs.vector_length)],
            )?;
            outer.push(split[0].clone());
            lanes.extend_from_slice(&split[1..]);
        } else {
            let split = s.split(&loops[iter], &[None, Some(knobs.tile_of(name))])?;
            outer.push(split[0].clone());
            inner.push(split[1].clone());
        }
    }
    let reductions: Vec<Loop> = info
        .of_kind(IterKind::Reduction)
        .map(|i| loops[i].clone())
        .collect();
    let first_reduction = reductions
        .first()
        .ok_or_else(|| unfit("no reduction loop"))?;
    s.reorder(
        &outer
            .iter()
            .chain(&reductions)
            .chain(&inner)
            .chain(&lanes)
            .collect::<Vec<_>>(),
    )?;
    let fused = knobs.fused_outer.clamp(1, outer.len());
    for (name, l) in knobs.loop_order.iter().zip(&outer).skip(fused) {
        if info.iters[place(name)?].extent % knobs.tile_of(name) != 0 {
            s.part_loop(l)?;
        }
    }
    let parallel = s.fuse(&outer[..fused].iter().collect::<Vec<_>>())?;
    let innermost_outer = outer[fused..].last().unwrap_or(&parallel);
    s.reverse_compute_at(copy_out, innermost_outer)?;
    s.parallel(&parallel)?;
    if let Some(staged) = staged {
        pad::near(s, &staged.filling, &parallel, staged.stride, unit)?;
    }
    // Unrolled and vectorised before the parting, so that the initialisation inherits both.
    if let Some((vector, blocks)) = lanes.split_last() {
        s.vectorize(vector)?;
        inner.extend_from_slice(blocks);
    }
    for l in &inner {
        s.unroll(l)?;
    }
    s.decompose_reduction(&anchor.block, first_reduction)?;
    vectorize_tail(s, copy_out, knobs, unit)
}

/// Vectorises the tail's innermost loop where that fills a good part of a register.
fn vectorize_tail(
    s: &Schedule,
    tail: &Block,
    knobs: &ContractionKnobs,
    unit: VectorUnit,
) -> Result<()> {
    let info = s.info(tail)?;
    let Some(innermost) = s.loops(tail)?.pop() else {
        return Ok(());
    };
    let extent = s.extent(&innermost)?;
    let written_last = info
        .writes
        .first()
        .and_then(|w| w.indices.last())
        .and_then(|i| i.plain());
    let vectors_are_last =
        written_last.map(|i| Some(&info.iters[i].name)) == Some(knobs.vector_axis.as_ref());
    let length = if vectors_are_last {
        knobs.vector_length
    } else {
        even_vector_length(extent, unit.lanes())
    };
    if extent > 1 && extent % length == 0 && efficiency(length, unit.lanes()) > 0.25 {
        s.vectorize(&s.split(&innermost, &[None, Some(length)])?[1])?;
    }
    Ok(())
}
