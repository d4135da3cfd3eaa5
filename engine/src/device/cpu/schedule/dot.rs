//! Products of bytes: unsigned data times signed weights in runs of four, which CPUs add to a lane in one instruction.
//!
//! The importer has packed the weights (`[O/16, I/4, …, 16, 4]`) and made a stage of the data (`[…, 4]`), see
//! `models/python/opbench_import/integer_kernels.py`. A tile of `vectors` times 16 output channels and `rows` values of
//! another axis stays in registers while the reduction runs over it. The tail turns the tile into bytes.

use opmodels::tile::{VectorUnit, divisors};
use tvm_bridge::inspect::{Access, BlockInfo, IterKind};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access as Buffer;
use tvm_bridge::schedule::Loop;
use tvm_bridge::tensorize::DotProduct;
use tvm_bridge::{Block, Result, Schedule};

use super::tail::moved_last;
use super::{DotKnobs, Knobs, spatial};
use crate::schedule::{Part, unfit};

/// Products that are added to a lane at once.
const RUN: i64 = 4;
/// Accumulators that leave registers for the operands.
const ACCUMULATORS: i64 = 24;

/// The template with the tile that the operator's extents suggest.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit, dot: DotProduct) -> Result<DotKnobs> {
    let parts = DotBlocks::of(s)?;
    let knobs = parts.default_knobs();
    parts.apply(s, unit, dot, knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    unit: VectorUnit,
    dot: DotProduct,
    knobs: DotKnobs,
) -> Result<DotKnobs> {
    DotBlocks::of(s)?.apply(s, unit, dot, knobs)
}

/// The blocks of an operator with dot products of bytes.
struct DotBlocks {
    /// Brings the data into runs.
    data: Part,
    product: Part,
    tail: Option<Block>,
    axes: Axes,
}

/// Places of the product's iterators.
struct Axes {
    channel: usize,
    /// The axis besides channels in the register tile.
    row: Option<usize>,
    /// Within a run.
    run: usize,
}

impl DotBlocks {
    /// Identifies the blocks, and inlines all others into their readers.
    fn of(s: &Schedule) -> Result<DotBlocks> {
        let mut blocks = Vec::new();
        for block in s.blocks()? {
            let info = s.info(&block)?;
            blocks.push(Part { block, info });
        }
        let reductions: Vec<&Part> = blocks.iter().filter(|p| p.info.is_reduction()).collect();
        let [product] = reductions[..] else {
            return Err(unfit("not exactly one reduction"));
        };
        let product = product.clone();
        let (axes, operand) =
            axes(&product.info).ok_or_else(|| unfit("no products of bytes in runs of four"))?;
        let (mut data, mut tail) = (None, None);
        for part in blocks.into_iter().filter(|p| !p.info.is_reduction()) {
            if part.info.writes.iter().any(|w| w.buffer == operand) {
                data = Some(part);
            } else if s.consumers(&part.block)?.is_empty() {
                tail = Some(part.block);
            } else {
                s.compute_inline(&part.block)?;
            }
        }
        let data = data.ok_or_else(|| unfit("the data are in no stage of their own"))?;
        let info = s.info(&data.block)?;
        Ok(DotBlocks {
            data: Part { info, ..data },
            product,
            tail,
            axes,
        })
    }

    fn default_knobs(&self) -> DotKnobs {
        let extent = |iter: usize| self.product.info.iters[iter].extent;
        let runs = extent(self.axes.channel) / Knobs::DOT_LANES;
        let most = if self.axes.row.is_some() { 4 } else { 8 };
        let vectors = divisors(runs).filter(|v| *v <= most).last().unwrap_or(1);
        let fits = |rows: &i64| rows * vectors <= ACCUMULATORS;
        let rows = self.axes.row.map_or(1, |row| {
            divisors(extent(row)).filter(fits).last().unwrap_or(1)
        });
        DotKnobs { vectors, rows }
    }

    fn apply(
        &self,
        s: &Schedule,
        unit: VectorUnit,
        dot: DotProduct,
        knobs: DotKnobs,
    ) -> Result<DotKnobs> {
        spatial::nest(s, &self.data, unit)?;
        let product = &self.product.block;
        let copy_out = match &self.tail {
            Some(tail) => {
                s.set_scope(product, 0, "local")?;
                tail.clone()
            }
            None => s.cache_write(product, 0, "local")?,
        };
        self.channels_last(s)?;
        let nest = self.tile(s, knobs)?;
        let place = nest.tile.as_ref().unwrap_or(&nest.parallel);
        s.reverse_compute_at(&copy_out, place)?;
        s.parallel(&nest.parallel)?;
        for l in &nest.unrolled {
            s.unroll(l)?;
        }
        let first = nest
            .reductions
            .first()
            .ok_or_else(|| unfit("no reduction around the runs"))?;
        let zero = s.decompose_reduction(product, first)?;
        if let Some(lanes) = s.loops(&zero)?.last() {
            s.vectorize(lanes)?;
        }
        s.tensorize(&nest.lanes, dot.intrinsic()?)?;
        let around = 1 + usize::from(nest.tile.is_some());
        lanes_of_tail(s, &copy_out, around, knobs)?;
        Ok(knobs)
    }

    /// Accumulators lie side by side by their channels.
    fn channels_last(&self, s: &Schedule) -> Result<()> {
        let Some(write) = self.product.info.writes.first() else {
            return Ok(());
        };
        let dims = write.indices.len();
        let channel = |i: &tvm_bridge::inspect::Index| i.plain() == Some(self.axes.channel);
        match write.indices.iter().position(channel) {
            Some(dim) if dim + 1 < dims => s.transform_layout(
                &self.product.block,
                0,
                Buffer::Write,
                &IndexMap::permutation(&moved_last(dims, dim))?,
            ),
            _ => Ok(()),
        }
    }

    fn tile(&self, s: &Schedule, knobs: DotKnobs) -> Result<Nest> {
        let (info, axes) = (&self.product.info, &self.axes);
        let loops = s.loops(&self.product.block)?;
        if loops.len() != info.iters.len() {
            return Err(unfit("the block has other loops than iterators"));
        }
        let factors = [None, Some(knobs.vectors), Some(Knobs::DOT_LANES)];
        let channel = s.split(&loops[axes.channel], &factors)?;
        let row = match axes.row {
            Some(row) => s.split(&loops[row], &[None, Some(knobs.rows)])?,
            None => Vec::new(),
        };
        let of_kind = |kind: IterKind| info.of_kind(kind).map(|i| (i, loops[i].clone()));
        let mut outer: Vec<Loop> = of_kind(IterKind::Spatial)
            .filter(|(i, _)| *i != axes.channel && Some(*i) != axes.row)
            .map(|(_, l)| l)
            .collect();
        outer.push(channel[0].clone());
        let reductions: Vec<Loop> = of_kind(IterKind::Reduction)
            .filter(|(i, _)| *i != axes.run)
            .map(|(_, l)| l)
            .collect();
        let (tile, rows) = (row.first(), row.get(1));
        let unrolled: Vec<Loop> = rows.into_iter().chain([&channel[1]]).cloned().collect();
        let inner = [&channel[2], &loops[axes.run]];
        let order: Vec<&Loop> = outer
            .iter()
            .chain(tile)
            .chain(&reductions)
            .chain(&unrolled)
            .chain(inner)
            .collect();
        s.reorder(&order)?;
        Ok(Nest {
            parallel: s.fuse(&outer.iter().collect::<Vec<_>>())?,
            tile: tile.cloned(),
            reductions,
            unrolled,
            lanes: channel[2].clone(),
        })
    }
}

/// The loops of the product.
struct Nest {
    parallel: Loop,
    tile: Option<Loop>,
    reductions: Vec<Loop>,
    unrolled: Vec<Loop>,
    lanes: Loop,
}

/// The iterators of a product of bytes in runs, and the buffer of its data. `None` for another reduction.
fn axes(info: &BlockInfo) -> Option<(Axes, String)> {
    let run_of = |access: &Access| {
        let iter = access.indices.last()?.plain()?;
        let reduces = info.iters[iter].kind == IterKind::Reduction;
        (reduces && access.shape.last() == Some(&RUN)).then_some(iter)
    };
    let packed = |access: &Access| {
        let dims = access.indices.len();
        let lanes = access.indices.get(dims.checked_sub(2)?)?;
        let [(channel, None)] = lanes.terms[..] else {
            return None;
        };
        (access.shape[dims - 2] == Knobs::DOT_LANES).then_some(channel)
    };
    let [data, weight] = &info.reads[..] else {
        return None;
    };
    let run = run_of(weight)?;
    if run_of(data)? != run {
        return None;
    }
    let channel = packed(weight)?;
    let row = info
        .of_kind(IterKind::Spatial)
        .filter(|&i| i != channel && info.iters[i].extent > 1)
        .last();
    let axes = Axes { channel, row, run };
    Some((axes, data.buffer.clone()))
}

/// Makes the channels of a tile the lanes of the tail, if the tail uses all of them.
fn lanes_of_tail(s: &Schedule, tail: &Block, around: usize, knobs: DotKnobs) -> Result<()> {
    let width = knobs.vectors * Knobs::DOT_LANES;
    let loops = s.loops(tail)?;
    let own = loops.get(around..).unwrap_or_default();
    // The rows may have the same extent as the channels. If the output has channels outside, the first loop of this
    // extent is the channels'.
    let extents: Vec<i64> = own.iter().map(|l| s.extent(l)).collect::<Result<_>>()?;
    let Some(place) = extents.iter().position(|e| *e == width) else {
        return Ok(());
    };
    let parts = s.split(&own[place], &[None, Some(Knobs::DOT_LANES)])?;
    let rest = own.iter().enumerate().filter(|(i, _)| *i != place);
    let mut order: Vec<&Loop> = rest.map(|(_, l)| l).collect();
    order.extend(&parts);
    s.reorder(&order)?;
    s.vectorize(&parts[1])
}
