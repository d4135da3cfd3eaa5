//! The knobs of a register-tiled reduction, and the ones that an operator's structure suggests.
//!
//! Plain arithmetic on iterators and accesses; the tile is chosen by [`opmodels::tile`], and the loops are transformed in
//! [`super::contraction`].

use opdata::contract::knobs::{CacheWrite, ContractionKnobs, Epilogue, LevelOrder, Padding};
use opmodels::tile::{Tile, VectorExtent, VectorUnit};
use tvm_bridge::inspect::{Access, BlockInfo, Index, Iter, IterKind};

/// Smallest number of parallel pieces wanted: enough to share out evenly over a few tens of threads.
pub(super) const PARALLEL_PIECES: i64 = 64;
/// An operand up to this size is read again and again from the second-level cache without harm, in bytes.
const CACHED_OPERAND_BYTES: i64 = 1 << 20;

/// Longest window that is fully unrolled if the rows of a tile share loads of the image only.
const UNROLLED_WINDOW: i64 = 49;

/// How an axis is vectorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VectorAxis {
    pub iter: usize,
    /// Length that the operand's layout demands (packed weights), if it does.
    pub packed: Option<i64>,
}

/// The spatial axis along which an operand is contiguous: packed operands first, then the output's own last axis.
pub(super) fn vector_axis(info: &BlockInfo) -> Option<VectorAxis> {
    let spatial: Vec<usize> = info
        .of_kind(IterKind::Spatial)
        .filter(|&i| info.iters[i].extent > 1)
        .collect();
    let last = |access: &Access| access.indices.last().cloned().unwrap_or_default();
    let packed = spatial.iter().find_map(|&iter| {
        let read = info
            .reads
            .iter()
            .find(|r| last(r).terms == [(iter, None)])?;
        Some(VectorAxis {
            iter,
            packed: read.shape.last().copied(),
        })
    });
    packed.or_else(|| {
        let written = info.writes.first().and_then(|w| last(w).plain());
        let contiguous = |iter: usize| {
            info.reads
                .iter()
                .any(|r| last(r).terms.iter().any(|&(i, f)| i == iter && f.is_some()))
        };
        let iter = written
            .filter(|&i| spatial.contains(&i) && contiguous(i))
            .or_else(|| spatial.iter().rev().copied().find(|&i| contiguous(i)))?;
        Some(VectorAxis { iter, packed: None })
    })
}

/// The knobs that the operator's structure suggests.
pub(super) fn default_knobs(info: &BlockInfo, unit: VectorUnit) -> ContractionKnobs {
    let spatial: Vec<usize> = info.of_kind(IterKind::Spatial).collect();
    let axis = vector_axis(info);
    let reusing = tiled_axes(info, &spatial, axis);
    let extent_of = |place: usize| reusing.get(place).map_or(1, |&i| info.iters[i].extent);
    let window = sliding_window(info, &reusing, axis);
    let vector = axis.map(|a| match info.iters[a.iter].extent {
        // The rows of a tile share more of the loaded image than the vectors of one row do.
        extent if window.is_some() && extent % unit.lanes() == 0 => VectorExtent {
            extent: unit.lanes(),
            packed: Some(unit.lanes()),
        },
        extent => VectorExtent {
            extent,
            packed: a.packed,
        },
    });
    let unit = match window {
        Some(_) => unit.for_windows(),
        None => unit,
    };
    let suits = Tile::choose(vector, [extent_of(0), extent_of(1)], unit);
    let tile: Vec<(String, i64)> = suits
        .reusing
        .iter()
        .zip(&reusing)
        .filter(|(t, _)| **t > 1)
        .map(|(t, &i)| (info.iters[i].name.clone(), *t))
        .collect();
    let order = loop_order(info, &spatial, axis);
    let mut knobs = ContractionKnobs {
        vector_axis: axis.map(|a| info.iters[a.iter].name.clone()),
        vector_length: suits.vector_length,
        vector_blocks: suits.vector_blocks,
        tile,
        cache_tile: Vec::new(),
        reduction_tile: Vec::new(),
        loop_order: order.iter().map(|&i| info.iters[i].name.clone()).collect(),
        level_order: LevelOrder::default(),
        fused_outer: 1,
        parallel_extent: None,
        unroll: window.filter(|taps| *taps <= UNROLLED_WINDOW).unwrap_or(0),
        epilogue: Epilogue::default(),
        padding: Padding::default(),
        cache_write: CacheWrite::default(),
    };
    knobs.fused_outer = fused_outer(info, &order, &knobs);
    knobs
}

/// The axes for the register tile, innermost first: those along which the loaded vector is reused. Where there is none
/// (depthwise convolutions, pooling), it is the innermost other axis, for independent sums.
fn tiled_axes(info: &BlockInfo, spatial: &[usize], axis: Option<VectorAxis>) -> Vec<usize> {
    let others: Vec<usize> = spatial
        .iter()
        .rev()
        .copied()
        .filter(|&i| info.iters[i].extent > 1 && Some(i) != axis.map(|a| a.iter))
        .collect();
    let Some(axis) = axis else { return others };
    let reuses = |i: &usize| info.reads.iter().any(|r| r.uses(axis.iter) && !r.uses(*i));
    let reusing: Vec<usize> = others.iter().copied().filter(reuses).collect();
    if reusing.is_empty() {
        others.into_iter().take(1).collect()
    } else {
        reusing
    }
}

/// Values of a window that slides over each channel on its own, along the vector axis and the tiled ones; nothing for other
/// reductions. If the window's steps are unrolled, the tile loads each row of the image once for all steps that need it.
/// Windows of 25 and 49 take three quarters of the time.
fn sliding_window(info: &BlockInfo, tiled: &[usize], axis: Option<VectorAxis>) -> Option<i64> {
    let axis = axis.filter(|a| a.packed.is_none())?;
    let slides = info.reads.iter().any(|r| {
        // Sums of an axis and a step of the window; groups of channels are quotients.
        let window = |index: &&Index| {
            index.terms.len() > 1 && index.terms.iter().all(|(_, factor)| factor.is_some())
        };
        let own = |i: usize| r.indices.iter().filter(window).any(|index| index.uses(i));
        own(axis.iter) && !tiled.is_empty() && tiled.iter().all(|&i| own(i))
    });
    let taps = info
        .of_kind(IterKind::Reduction)
        .map(|i| info.iters[i].extent)
        .product();
    slides.then_some(taps)
}

/// Outer loop order. The vector axis is outside all others if the operand that it indexes is too large to be read again for
/// every row. Else it is inside the first axes, and the other operand is read once.
fn loop_order(info: &BlockInfo, spatial: &[usize], axis: Option<VectorAxis>) -> Vec<usize> {
    let Some(axis) = axis else {
        return spatial.to_vec();
    };
    let operand_bytes = |access: &Access| 4 * access.shape.iter().product::<i64>();
    let own: i64 = info
        .reads
        .iter()
        .filter(|r| r.uses(axis.iter))
        .map(operand_bytes)
        .max()
        .unwrap_or(0);
    let others: Vec<usize> = spatial
        .iter()
        .copied()
        .filter(|&i| i != axis.iter)
        .collect();
    // Axes that index the same operand as the vector axis (batch of a batched product) stay outside it in any case.
    let shared = |i: &usize| info.reads.iter().any(|r| r.uses(axis.iter) && r.uses(*i));
    let (shared_axes, free): (Vec<usize>, Vec<usize>) = others.into_iter().partition(shared);
    let mut order = shared_axes;
    if own > CACHED_OPERAND_BYTES || free.len() < 2 {
        order.push(axis.iter);
        order.extend(free);
    } else {
        let (innermost, outer) = (free[free.len() - 1], &free[..free.len() - 1]);
        order.extend(outer);
        order.extend([axis.iter, innermost]);
    }
    order
}

/// Number of leading loops to fuse so that there are enough parallel pieces. Loops that the tile does not divide evenly
/// stay outside, because they have to be partitioned.
fn fused_outer(info: &BlockInfo, order: &[usize], knobs: &ContractionKnobs) -> usize {
    let mut count = 1;
    for (place, &iter) in order.iter().enumerate() {
        let Iter { name, extent, .. } = &info.iters[iter];
        if extent % knobs.tile_of(name) != 0 {
            break;
        }
        count = place + 1;
        let done: i64 = order[..count]
            .iter()
            .map(|&i| info.iters[i].extent / knobs.tile_of(&info.iters[i].name))
            .product();
        if done >= PARALLEL_PIECES {
            break;
        }
    }
    count
}
