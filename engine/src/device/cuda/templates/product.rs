//! Products of two operands, recognised by how they are indexed: matrix products, convolutions of any rank and
//! layout, grouped and transposed ones.
//!
//! An axis that indexes one operand and the output is a row (`m`) or a column (`n`). One that indexes both operands
//! belongs to the batch. An axis that is summed over is the depth (`k`). The columns include the output's last axis, so
//! that adjacent results are stored together. The product is brought into the form `C[b, m, n] += A[b, k, m] * B[b, k,
//! n]`. The copies between it and the operands become the loads into shared memory.

use tvm_bridge::inspect::{Access, BlockInfo, Index, IterKind};
use tvm_bridge::ir::IndexMap;
use tvm_bridge::layout::Access as Side;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, DType, Result, Schedule};

use super::contraction::ceil;
use super::limits::Limits;
use super::parts::OperatorBlocks;
use crate::schedule::unfit;

/// A product of two operands.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub block: Block,
    info: BlockInfo,
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
    depth: Vec<usize>,
    /// The indices of the block's reads with the rows and with the columns.
    pub operands: [usize; 2],
    /// Whether something computes an operand before it is read (a padding).
    computed: [bool; 2],
}

/// The loops of a product in its form: batch, rows, columns, depth.
pub(super) fn loops_of(s: &Schedule, block: &Block) -> Result<[Loop; 4]> {
    let loops = s.loops(block)?;
    <[Loop; 4]>::try_from(loops).map_err(|_| unfit("a product that has not four loops"))
}

/// Gives each tile of a product, counted by these loops, a block of threads.
pub(super) fn bind_blocks(s: &Schedule, batch: &Loop, rows: &Loop, columns: &Loop) -> Result<()> {
    s.bind(batch, "blockIdx.z")?;
    s.bind(rows, "blockIdx.y")?;
    s.bind(columns, "blockIdx.x")
}

/// Extents of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Extents {
    pub batch: i64,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    /// Steps of the sum's outermost axis.
    pub steps: i64,
}

impl Extents {
    /// Number of parts that share each sum, so that all multiprocessors have work. `tile` has the rows and columns of a
    /// tile.
    pub fn split(self, limits: &Limits, tile: [i64; 2]) -> i64 {
        /// Minimum steps of a part. Shorter parts cost more to write and add up than they save.
        const FEWEST_STEPS: i64 = 128;
        let tiles = self.batch * ceil(self.m, tile[0]) * ceil(self.n, tile[1]);
        let helps = |parts: &i64| {
            tiles * parts <= limits.multiprocessors
                && self.k / parts >= FEWEST_STEPS
                && check_split(*parts, self.steps).is_ok()
        };
        SPLITS.into_iter().rev().find(helps).unwrap_or(1)
    }
}

/// Numbers of parts that a sum may be split into.
pub(super) const SPLITS: [i64; 5] = [1, 2, 4, 8, 16];

/// Checks that `parts` blocks of threads can share a sum over an outermost axis of `steps` steps.
///
/// # Errors
/// Fails if they cannot.
pub(super) fn check_split(parts: i64, steps: i64) -> std::result::Result<(), String> {
    match parts >= 1 && steps % parts == 0 {
        true => Ok(()),
        false => Err(format!(
            "{parts} parts do not divide a sum of {steps} steps"
        )),
    }
}

/// How the axes of an operand's copy follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyLayout {
    /// Depth outside: rows or columns lie side by side.
    DepthOutside,
    /// Depth inside.
    DepthInside,
}

impl Product {
    /// Reads the matrix product that the operator's only reduction computes.
    ///
    /// # Errors
    /// Fails if the block is not a product.
    pub fn find(s: &Schedule) -> Result<Product> {
        let parts = OperatorBlocks::of(s)?;
        let anchor = parts.anchor()?;
        let mut info = anchor.info.clone();
        if let Some(map) = groups(&info)? {
            s.transform_block(&anchor.block, &map)?;
            info = s.info(&anchor.block)?;
        }
        let mut product = Product::of(anchor.block.clone(), info)?;
        for (side, &read) in product.operands.iter().enumerate() {
            let buffer = &product.info.reads[read].buffer;
            let mut writers = parts.between.iter().flat_map(|p| &p.info.writes);
            product.computed[side] = writers.any(|w| w.buffer == *buffer);
        }
        Ok(product)
    }

    /// Steps of the sum's outermost axis.
    pub fn steps(&self) -> i64 {
        self.depth.first().map_or(1, |&i| self.info.iters[i].extent)
    }

    /// The product with each sum shared out in this many parts, which are another axis of the batch. Something after it adds
    /// them up.
    ///
    /// # Errors
    /// Fails if the parts do not divide the sum, or if TVM does.
    pub fn shared(self, s: &Schedule, parts: i64) -> Result<Product> {
        if parts == 1 {
            return Ok(self);
        }
        check_split(parts, self.steps()).map_err(|reason| unfit(&reason))?;
        let no_loop = || unfit("a sum without a loop");
        let place = *self.depth.first().ok_or_else(no_loop)?;
        let loops = s.loops(&self.block)?;
        let summed = loops.get(place).ok_or_else(no_loop)?;
        let split = s.split(summed, &[Some(parts), None])?;
        let block = s.rfactor(&split[0], 0)?;
        // The parts are the first iterator of both blocks, and loops have to follow each other as iterators do.
        for block in s.consumers(&block)?.iter().chain([&block]) {
            let mut loops = s.loops(block)?;
            let of_parts = loops.remove(place);
            loops.insert(0, of_parts);
            s.reorder(&loops.iter().collect::<Vec<_>>())?;
        }
        let info = s.info(&block)?;
        Ok(Product {
            computed: self.computed,
            ..Product::of(block, info)?
        })
    }

    fn of(block: Block, info: BlockInfo) -> Result<Product> {
        let ([left, right], [output]) = (&info.reads[..], &info.writes[..]) else {
            return Err(unfit("not a product of two operands"));
        };
        let (mut batch, mut of_left, mut of_right) = (Vec::new(), Vec::new(), Vec::new());
        for iter in info.of_kind(IterKind::Spatial) {
            if output
                .indices
                .iter()
                .filter(|i| i.plain() == Some(iter))
                .count()
                != 1
            {
                return Err(unfit("an output that is not indexed plainly"));
            }
            match (left.uses(iter), right.uses(iter)) {
                (true, false) => of_left.push(iter),
                (false, true) => of_right.push(iter),
                _ => batch.push(iter),
            }
        }
        let depth: Vec<usize> = info.of_kind(IterKind::Reduction).collect();
        let summed = |access: &Access| depth.iter().all(|&k| access.uses(k));
        if depth.is_empty() || !summed(left) || !summed(right) {
            return Err(unfit("an operand that the sum does not run over"));
        }
        let last = output.indices.iter().rev().find_map(|i| i.plain());
        let left_has_columns = last.is_some_and(|last| of_left.contains(&last));
        let (rows, columns, operands) = if left_has_columns {
            (of_right, of_left, [1, 0])
        } else {
            (of_left, of_right, [0, 1])
        };
        Ok(Product {
            block,
            batch,
            rows,
            columns,
            depth,
            operands,
            computed: [false; 2],
            info,
        })
    }

    pub fn extents(&self) -> Extents {
        let of = |iters: &[usize]| iters.iter().map(|&i| self.info.iters[i].extent).product();
        Extents {
            batch: of(&self.batch),
            m: of(&self.rows),
            n: of(&self.columns),
            k: of(&self.depth),
            steps: self.steps(),
        }
    }

    /// Type of the operands. `None` if they differ or if tensors cannot have it.
    pub fn operand_type(&self) -> Option<DType> {
        let [a, b] = self.operands.map(|i| self.info.reads[i].dtype);
        a.filter(|_| a == b)
    }

    /// Type of the output.
    pub fn output_type(&self) -> Option<DType> {
        self.info.writes[0].dtype
    }

    /// Whether the operand with the rows is the second factor.
    pub fn is_swapped(&self) -> bool {
        self.operands == [1, 0]
    }

    /// Number of elements of an operand (0: the one with the rows) per load, at most `most`, and the layout of the copy
    /// in which they are adjacent.
    pub fn vector(&self, side: usize, most: i64) -> (CopyLayout, i64) {
        let own = if side == 0 { &self.rows } else { &self.columns };
        let access = &self.info.reads[self.operands[side]];
        let deep = self.run(access, &self.depth);
        let wide = self.run(access, own);
        let (layout, run) = if deep > wide {
            (CopyLayout::DepthInside, deep)
        } else {
            (CopyLayout::DepthOutside, wide)
        };
        let run = if self.computed[side] { 1 } else { run };
        let vector = [8, 4, 2].into_iter().find(|v| *v <= most && run % v == 0);
        (layout, vector.unwrap_or(1))
    }

    /// Number of results per store, at most `most`.
    pub fn output_vector(&self, most: i64) -> i64 {
        let run = self.run(&self.info.writes[0], &self.columns);
        let vector = [8, 4, 2].into_iter().find(|v| *v <= most && run % v == 0);
        vector.unwrap_or(1)
    }

    /// Number of consecutive values of the fused axes that are adjacent in the buffer.
    fn run(&self, access: &Access, fused: &[usize]) -> i64 {
        let mut run = 1;
        if let (Some(index), Some(&packed), Some(&iter)) =
            (access.indices.last(), access.shape.last(), fused.last())
            && index.terms == [(iter, None)]
            && self.info.iters[iter].extent % packed.max(1) == 0
        {
            // An axis packed in pieces: `[f div 16, …, f mod 16]`.
            return packed;
        }
        let places = access.indices.iter().zip(&access.shape).rev();
        for ((index, &extent), &iter) in places.zip(fused.iter().rev()) {
            if self.is_part(index, iter) {
                return run * self.info.iters[iter].extent;
            }
            if index.plain() != Some(iter) {
                break;
            }
            run *= self.info.iters[iter].extent;
            if extent != self.info.iters[iter].extent {
                break;
            }
        }
        run
    }

    /// Whether an index takes only part of its range by `iter`, and the parts by another iterator.
    fn is_part(&self, index: &Index, iter: usize) -> bool {
        let step = (iter, Some(1));
        let whole = Some(self.info.iters[iter].extent);
        matches!(index.terms[..], [a, b] if (a == step && b.1 == whole) || (b == step && a.1 == whole))
            && index.extent == 1
    }

    /// Brings the product into the form with four axes `b, m, n, k`, its operands copied in these layouts.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn normalise(&self, s: &Schedule, layouts: [CopyLayout; 2]) -> Result<()> {
        let sides = [&self.rows, &self.columns];
        for ((&read, own), layout) in self.operands.iter().zip(sides).zip(layouts) {
            s.reindex(&self.block, read, Side::Read)?;
            let copied = match layout {
                CopyLayout::DepthOutside => [&self.batch, &self.depth, own],
                CopyLayout::DepthInside => [&self.batch, own, &self.depth],
            };
            let iters = copied_axes(&s.info(&self.block)?.reads[read])?;
            let map = self.fused(&iters, &copied)?;
            s.transform_layout(&self.block, read, Side::Read, &map)?;
        }
        s.reindex(&self.block, 0, Side::Write)?;
        let written = copied_axes(&s.info(&self.block)?.writes[0])?;
        let map = self.fused(&written, &[&self.batch, &self.rows, &self.columns])?;
        s.transform_layout(&self.block, 0, Side::Write, &map)?;
        let all: Vec<usize> = (0..self.info.iters.len()).collect();
        let axes = [&self.batch, &self.rows, &self.columns, &self.depth];
        s.transform_block(&self.block, &self.fused(&all, &axes)?)
    }

    /// The map that fuses `iters`, which are the source's axes, into groups.
    fn fused(&self, iters: &[usize], groups: &[&Vec<usize>]) -> Result<IndexMap> {
        let extents: Vec<i64> = iters.iter().map(|&i| self.info.iters[i].extent).collect();
        let places = |group: &&Vec<usize>| {
            let place = |i: &usize| iters.iter().position(|j| j == i);
            group.iter().filter_map(place).collect::<Vec<_>>()
        };
        IndexMap::fused(&extents, &groups.iter().map(places).collect::<Vec<_>>())
    }
}

/// The iterators that index a block's copy of a buffer. Those with one value are missing if they were added to others.
fn copied_axes(access: &Access) -> Result<Vec<usize>> {
    let plain = access.indices.iter().map(|index| index.plain());
    plain
        .collect::<Option<_>>()
        .ok_or_else(|| unfit("a copy that is not indexed plainly"))
}

/// Where an output axis walks through groups and one operand is indexed by the group (`[f div 6 * 4 + c]`): the map
/// that splits the axis into the group and the index in it.
fn groups(info: &BlockInfo) -> Result<Option<IndexMap>> {
    let [left, right] = &info.reads[..] else {
        return Ok(None);
    };
    for iter in info.of_kind(IterKind::Spatial) {
        if !(left.uses(iter) && right.uses(iter)) {
            continue;
        }
        for access in [left, right] {
            for (index, &extent) in access.indices.iter().zip(&access.shape) {
                let [one, two] = &index.terms[..] else {
                    continue;
                };
                let (divided, summed) = if one.0 == iter {
                    (one, two)
                } else {
                    (two, one)
                };
                let depth = &info.iters[summed.0];
                if divided.0 != iter || depth.kind != IterKind::Reduction || summed.1 != Some(1) {
                    continue;
                }
                let groups = extent / depth.extent.max(1);
                let channels = info.iters[iter].extent;
                if groups > 1 && channels % groups == 0 && channels > groups {
                    let map = IndexMap::split(info.iters.len(), iter, channels / groups)?;
                    return Ok(Some(map));
                }
            }
        }
    }
    Ok(None)
}
