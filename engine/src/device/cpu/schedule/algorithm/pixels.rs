//! A convolution of 1×1 windows with vectors along the pixels instead of the output channels. Rows of the image are
//! fused into one axis, so a tile's sums leave the registers in the output's order.

use opdata::contract::knobs::{ContractionKnobs, ConvolutionKnobs};
use opmodels::tile::{VectorUnit, greatest_divisor};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access as Buffer;
use tvm_bridge::{BlockInfo, Result, Schedule};

use super::Convolution;
use crate::device::cpu::schedule::knobs::PARALLEL_PIECES;
use crate::device::cpu::schedule::prepare::{Part, Parts, prepare};
use crate::device::cpu::schedule::{SUMS_SCOPE, contraction};
use crate::schedule::unfit;

/// The axes of image, output channel and pixel in a block whose rows are fused.
const BATCH: usize = 0;
const CHANNEL: usize = 1;
const PIXEL: usize = 2;

/// Largest part of an image that is read for all output channels before the next pixels. It fits into a second-level
/// cache, and each channel's output is written in long stretches.
const STRETCH_BYTES: i64 = 128 << 10;

/// The schedule: a tile of output channels times vectors of pixels. Returns the knobs, which `choose` takes for the
/// convolution.
///
/// # Errors
/// Fails if the convolution is not one of 1×1 windows over all pixels, if `choose` refuses it, or if TVM fails.
pub(super) fn schedule(
    s: &Schedule,
    unit: VectorUnit,
    choose: impl FnOnce(&Convolution) -> Result<ConvolutionKnobs>,
) -> Result<ConvolutionKnobs> {
    let mut parts = prepare(s)?;
    let of = match &parts.reductions[..] {
        [anchor] => Convolution::of(&anchor.info).filter(Convolution::is_pointwise),
        _ => None,
    };
    let of = of.filter(|_| parts.paddings.is_empty());
    let of = of.ok_or_else(|| unfit("no convolution of 1×1 windows over all pixels"))?;
    let chosen = choose(&of)?;
    let anchor = flattened(s, &mut parts)?;
    let [outputs, pixels] = [CHANNEL, PIXEL].map(|axis| anchor.info.iters[axis].extent);
    let name = |axis: usize| anchor.info.iters[axis].name.clone();
    // As many lanes as a register has, or the most that divide the pixels.
    let length = greatest_divisor(pixels, unit.lanes());
    let tile = length * chosen.vector_blocks;
    if chosen.columns < 1 || tile < 1 || outputs % chosen.columns != 0 || pixels % tile != 0 {
        return Err(unfit("a tile that does not divide channels or pixels"));
    }
    let (tiles, groups) = (pixels / tile, outputs / chosen.columns);
    let most = (STRETCH_BYTES / (4 * of.channels * tile)).min(tiles * groups / PARALLEL_PIECES);
    let order = [BATCH, PIXEL, CHANNEL];
    let knobs = ContractionKnobs {
        vector_axis: Some(name(PIXEL)),
        vector_length: length,
        vector_blocks: chosen.vector_blocks,
        tile: vec![(name(CHANNEL), chosen.columns)],
        cache_tile: vec![(name(PIXEL), greatest_divisor(tiles, most))],
        reduction_tile: Vec::new(),
        loop_order: order.map(name).to_vec(),
        level_order: Default::default(),
        fused_outer: order.len(),
        parallel_extent: None,
        unroll: 0,
        epilogue: Default::default(),
        padding: Default::default(),
        cache_write: Default::default(),
    };
    contraction::apply(s, &parts, &anchor, knobs, unit)?;
    Ok(chosen)
}

/// Fuses the rows of the image in the reduction, in its sums and in their consumers. Returns the reduction.
fn flattened(s: &Schedule, parts: &mut Parts) -> Result<Part> {
    let [anchor] = &parts.reductions[..] else {
        return Err(unfit("not exactly one reduction"));
    };
    let block = anchor.block.clone();
    let tail = match parts.tail.take() {
        Some(tail) => tail.block,
        None => s.cache_write(&block, 0, SUMS_SCOPE)?,
    };
    let sums = &anchor.info.writes[0].shape;
    // Height and width are the third and the fourth axis of all of them.
    let fused = |extents: &[i64]| {
        let others = (4..extents.len()).map(|axis| vec![axis]);
        let groups = [vec![0], vec![1], vec![2, 3]].into_iter().chain(others);
        IndexMap::fused(extents, &groups.collect::<Vec<_>>())
    };
    s.transform_layout(&block, 0, Buffer::Write, &fused(sums)?)?;
    for (block, axes) in [(&block, 7), (&tail, 4)] {
        let info = s.info(block)?;
        let extents: Vec<i64> = info.iters.iter().map(|i| i.extent).collect();
        if extents.len() != axes {
            return Err(unfit("a tail of other axes than the convolution's"));
        }
        s.transform_block(block, &fused(&extents)?)?;
    }
    let part = |block| -> Result<Part> {
        let info: BlockInfo = s.info(&block)?;
        Ok(Part { block, info })
    };
    parts.tail = Some(part(tail)?);
    part(block)
}
