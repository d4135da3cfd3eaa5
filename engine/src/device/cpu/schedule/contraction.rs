//! One dominating reduction: convolutions, dense layers, matrix products, pooling, means.
//!
//! A tile of outputs is kept in vector registers while the reduction runs over it: `vector_blocks` vectors along the
//! axis that is contiguous in memory, times `tile` values of other spatial axes. The element-wise tail runs on the tile
//! before it leaves the cache. Outer loops run in parallel.

use opmodels::tile::VectorUnit;
use tvm_bridge::inspect::{Iter, IterKind};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access as Buffer;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, Result, Schedule};

use super::knobs::{default_knobs, vector_axis};
use super::prepare::{Part, Parts, prepare};
use super::staged::{Staged, channels_at_once};
use super::{
    CacheWrite, ContractionKnobs, Epilogue, LevelOrder, Padding, SUMS_SCOPE, pad, spatial, tail,
};
use crate::schedule::unfit;

/// The template with the knobs that the operator's structure suggests. The caller chooses where epilogue and paddings are
/// computed.
pub(super) fn suggested(
    s: &Schedule,
    unit: VectorUnit,
    epilogue: Epilogue,
    padding: Padding,
) -> Result<ContractionKnobs> {
    let (parts, anchor) = anchored(s)?;
    let mut knobs = ContractionKnobs {
        epilogue,
        padding,
        ..default_knobs(&anchor.info, unit)
    };
    if padding == Padding::Near
        && let Some(channels) = channels_at_once(&anchor.info, &knobs)
    {
        knobs.cache_tile.push(channels);
    } else if epilogue == Epilogue::Tile
        && let Some(axis) = tail::cropped_axis(&parts, &anchor.info)
        && axis.extent <= knobs.tile_of(&axis.name)
    {
        // With one tile a row, every iteration of the epilogue would test where the cropped axis ends.
        knobs.epilogue = Epilogue::Outer;
    }
    apply(s, &parts, &anchor, knobs, unit)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    unit: VectorUnit,
    knobs: &ContractionKnobs,
) -> Result<ContractionKnobs> {
    let (parts, anchor) = anchored(s)?;
    apply(s, &parts, &anchor, knobs.clone(), unit)
}

/// The operator's parts, and its one reduction as the template tiles it.
pub(super) fn anchored(s: &Schedule) -> Result<(Parts, Part)> {
    let parts = prepare(s)?;
    let [anchor] = &parts.reductions[..] else {
        return Err(unfit("not exactly one reduction"));
    };
    let anchor = pack_if_nothing_is_contiguous(s, anchor.clone())?;
    Ok((parts, anchor))
}

/// Builds the loops of an operator that was taken apart.
pub(super) fn apply(
    s: &Schedule,
    parts: &Parts,
    anchor: &Part,
    mut knobs: ContractionKnobs,
    unit: VectorUnit,
) -> Result<ContractionKnobs> {
    let staged = match knobs.padding {
        Padding::Near => Some(Staged::find(s, &parts.paddings, anchor, &knobs)?),
        Padding::Root => {
            for padding in &parts.paddings {
                pad::apart(s, padding, unit)?;
            }
            None
        }
        Padding::Inline => {
            for padding in &parts.paddings {
                s.compute_inline(&padding.block)?;
            }
            None
        }
    };
    if let Some(staged) = &staged {
        knobs.fused_outer = staged.outer_axes;
    }
    let local = knobs.cache_write == CacheWrite::Local;
    let mut turned = None;
    let copy_out = match (&parts.tail, knobs.epilogue) {
        (Some(last), Epilogue::Root) => {
            spatial::nest(s, last, unit)?;
            local
                .then(|| s.cache_write(&anchor.block, 0, SUMS_SCOPE))
                .transpose()?
        }
        (Some(last), Epilogue::Tile | Epilogue::Outer) => {
            tail::follows(last, anchor)?;
            let copy = match local && knobs.epilogue == Epilogue::Tile {
                true => tail::turn(s, last, anchor, &knobs)?,
                false => None,
            };
            turned = copy.is_some().then_some(&last.block);
            Some(copy.unwrap_or_else(|| last.block.clone()))
        }
        (None, _) => local
            .then(|| s.cache_write(&anchor.block, 0, SUMS_SCOPE))
            .transpose()?,
    };
    let nest = Nest {
        s,
        anchor,
        turned,
        copy_out: copy_out.as_ref(),
        cropped: tail::cropped_axis(parts, &anchor.info),
        owns_output: parts.tail.is_none() && !local,
        knobs: &knobs,
        unit,
    };
    nest.build(staged.as_ref())?;
    Ok(knobs)
}

/// Where both operands walk along the reduction, none is contiguous along a spatial axis. The operand of the last
/// output axis is copied into the transposed layout first. That is one pass over it, against one for every row of
/// the other.
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
        &IndexMap::permutation(&tail::moved_last(access.indices.len(), dim))?,
    )?;
    let loops = s.loops(&copy)?;
    s.parallel(&loops[0])?;
    let info = s.info(&anchor.block)?;
    Ok(Part {
        block: anchor.block,
        info,
    })
}

/// The loop nest that the knobs describe.
struct Nest<'a> {
    s: &'a Schedule,
    anchor: &'a Part,
    /// The tail, if it takes the accumulators in their own order.
    turned: Option<&'a Block>,
    /// The tail otherwise, or the copy out of the accumulators, if there is one.
    copy_out: Option<&'a Block>,
    /// The axis whose end the tail leaves out.
    cropped: Option<&'a Iter>,
    /// Whether the reduction writes the operator's output, whose layout is not ours to change.
    owns_output: bool,
    knobs: &'a ContractionKnobs,
    unit: VectorUnit,
}

/// The loops of the nest by level; each level from the outermost to the innermost.
#[derive(Default)]
struct Levels {
    outer: Vec<Loop>,
    cache_tile: Vec<Loop>,
    outer_reduction: Vec<Loop>,
    inner_reduction: Vec<Loop>,
    register_tile: Vec<Loop>,
    /// Vectors of the vector axis, then their lanes.
    lanes: Vec<Loop>,
}

impl Nest<'_> {
    fn build(&self, staged: Option<&Staged>) -> Result<()> {
        let (s, knobs) = (self.s, self.knobs);
        self.make_vector_axis_contiguous()?;
        let levels = self.split()?;
        self.reorder(&levels)?;
        if levels.outer.is_empty() {
            return Err(unfit("a single result has no loop to run in parallel"));
        }
        let fused = knobs.fused_outer.clamp(1, levels.outer.len());
        for (name, l) in knobs.loop_order.iter().zip(&levels.outer).skip(fused) {
            self.part_uneven(name, l)?;
        }
        let pieces = s.fuse(&levels.outer[..fused].iter().collect::<Vec<_>>())?;
        if fused == 1 && knobs.parallel_extent.is_none() {
            // No other loop is divided by the tile, so the last piece is separated from the others.
            self.part_uneven(&knobs.loop_order[0], &pieces)?;
        }
        let (parallel, of_piece) = match knobs.parallel_extent {
            Some(extent) => {
                let split = s.split(&pieces, &[Some(extent), None])?;
                (split[0].clone(), split[1].clone())
            }
            None => (pieces.clone(), pieces),
        };
        let of_tile = match knobs.level_order {
            LevelOrder::TilesOutside => levels.cache_tile.last(),
            LevelOrder::ReductionBetween => None,
        };
        let of_tile = of_tile
            .or(levels.outer[fused..].last())
            .unwrap_or(&of_piece);
        let around_piece = if knobs.parallel_extent.is_some() {
            2
        } else {
            1
        };
        let around_tile = match knobs.level_order {
            LevelOrder::TilesOutside => levels.cache_tile.len(),
            LevelOrder::ReductionBetween => 0,
        } + levels.outer[fused..].len();
        let (place, around) = match knobs.epilogue {
            // A copy out of the accumulators stays with them, wherever the tail is.
            Epilogue::Tile | Epilogue::Root => (of_tile, around_piece + around_tile),
            Epilogue::Outer => (&of_piece, around_piece),
        };
        for block in self.turned.iter().chain(&self.copy_out) {
            s.reverse_compute_at(block, place)?;
        }
        s.parallel(&parallel)?;
        if let Some(staged) = staged {
            pad::near(s, &staged.filling, &parallel, staged.stride)?;
        }
        self.unroll_and_vectorize(&levels)?;
        let first_reduction = levels
            .outer_reduction
            .first()
            .or(levels.inner_reduction.first())
            .ok_or_else(|| unfit("no reduction loop"))?;
        s.decompose_reduction(&self.anchor.block, first_reduction)?;
        if let Some(turned) = self.turned {
            tail::vectorize_turned(s, turned, knobs.vector_length)?;
        }
        match self.copy_out {
            Some(copy_out) => tail::vectorize(s, copy_out, around, knobs, self.unit),
            None => Ok(()),
        }
    }

    /// Separates the last iteration of an axis's outer loop from the others. That is needed if the tile does not divide
    /// the axis, or the tail at the tile leaves out the axis's end.
    fn part_uneven(&self, axis: &str, outer: &Loop) -> Result<()> {
        let tile = self.knobs.tile_of(axis) * self.knobs.cache_tile_of(axis);
        let is_cropped = self.knobs.epilogue == Epilogue::Tile
            && self.cropped.is_some_and(|cropped| cropped.name == axis);
        if is_cropped || self.extent_of(axis)? % tile != 0 {
            self.s.part_loop(outer)?;
        }
        Ok(())
    }

    fn place(&self, axis: &str) -> Result<usize> {
        let iters = &self.anchor.info.iters;
        let found = iters.iter().position(|i| i.name == axis);
        found.ok_or_else(|| unfit("unknown axis"))
    }

    fn extent_of(&self, axis: &str) -> Result<i64> {
        Ok(self.anchor.info.iters[self.place(axis)?].extent)
    }

    fn make_vector_axis_contiguous(&self) -> Result<()> {
        let Some(axis) = &self.knobs.vector_axis else {
            return Ok(());
        };
        let axis = self.place(axis)?;
        let info = &self.anchor.info;
        if let Some(write) = info.writes.first()
            && let Some(dim) = write.indices.iter().position(|i| i.plain() == Some(axis))
            && dim + 1 != write.indices.len()
            && !self.owns_output
        {
            let order = tail::moved_last(write.indices.len(), dim);
            self.s.transform_layout(
                &self.anchor.block,
                0,
                Buffer::Write,
                &IndexMap::permutation(&order)?,
            )?;
        }
        Ok(())
    }

    fn split(&self) -> Result<Levels> {
        let (s, knobs, info) = (self.s, self.knobs, &self.anchor.info);
        let loops = s.loops(&self.anchor.block)?;
        if loops.len() != info.iters.len() {
            return Err(unfit("the block has other loops than iterators"));
        }
        let mut levels = Levels::default();
        // Without a cache tile there is no loop for it, not even one with a single iteration.
        let cache_level = !knobs.cache_tile.is_empty();
        for name in &knobs.loop_order {
            let own = &loops[self.place(name)?];
            let is_vector_axis = Some(name) == knobs.vector_axis.as_ref();
            let mut factors = vec![None];
            factors.extend(cache_level.then_some(Some(knobs.cache_tile_of(name))));
            if is_vector_axis {
                factors.extend([Some(knobs.vector_blocks), Some(knobs.vector_length)]);
            } else {
                factors.push(Some(knobs.tile_of(name)));
            }
            let mut parts = s.split(own, &factors)?.into_iter();
            levels.outer.extend(parts.next());
            if cache_level {
                levels.cache_tile.extend(parts.next());
            }
            if is_vector_axis {
                levels.lanes.extend(parts);
            } else {
                levels.register_tile.extend(parts);
            }
        }
        for iter in info.of_kind(IterKind::Reduction) {
            let axis = &info.iters[iter];
            let tile = knobs.reduction_tile_of(&axis.name, axis.extent);
            if tile == axis.extent {
                levels.inner_reduction.push(loops[iter].clone());
            } else {
                let mut parts = s.split(&loops[iter], &[None, Some(tile)])?.into_iter();
                levels.outer_reduction.extend(parts.next());
                levels.inner_reduction.extend(parts);
            }
        }
        Ok(levels)
    }

    fn reorder(&self, levels: &Levels) -> Result<()> {
        let between = match self.knobs.level_order {
            LevelOrder::TilesOutside => [&levels.cache_tile, &levels.outer_reduction],
            LevelOrder::ReductionBetween => [&levels.outer_reduction, &levels.cache_tile],
        };
        let all = levels
            .outer
            .iter()
            .chain(between.into_iter().flatten())
            .chain(&levels.inner_reduction)
            .chain(&levels.register_tile)
            .chain(&levels.lanes);
        self.s.reorder(&all.collect::<Vec<_>>())
    }

    /// Unrolls and vectorises before the initialisation is split from the update, so that it inherits both.
    fn unroll_and_vectorize(&self, levels: &Levels) -> Result<()> {
        let s = self.s;
        // A vector of one lane is a scalar to TVM.
        let vectors = usize::from(self.knobs.vector_length > 1);
        let (blocks, vectors) = levels
            .lanes
            .split_at(levels.lanes.len().saturating_sub(vectors));
        for vector in vectors {
            s.vectorize(vector)?;
        }
        for l in levels.register_tile.iter().chain(blocks) {
            s.unroll(l)?;
        }
        let mut steps = 1;
        for l in levels.inner_reduction.iter().rev() {
            steps *= s.extent(l)?;
            if steps > self.knobs.unroll {
                break;
            }
            s.unroll(l)?;
        }
        Ok(())
    }
}
