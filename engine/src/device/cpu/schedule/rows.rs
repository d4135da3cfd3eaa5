//! Operators that reduce rows and go over them again: softmax, layer norm, group norm, RMS norm, means of rows.
//!
//! Each row is finished before the next begins, so that it stays in the first-level cache; rows run in parallel. A
//! reduction along memory is factored. Its lanes sum (or compare) side by side in a vector register, and are brought
//! together at the row's end. Rows whose length the vectors do not divide have their last elements done one by one.
//! [`columns`](super::columns) is for reductions over an axis that is not the innermost one.

use opdata::contract::knobs::RowsKnobs;
use opmodels::tile::{VectorUnit, even_vector_length, vector_length};
use tvm_bridge::inspect::{Access, IterKind};
use tvm_bridge::schedule::Loop;
use tvm_bridge::{BlockInfo, DType, Result, Schedule};

use super::columns::Columns;
use super::prepare::Part;
use crate::schedule::unfit;

/// The template with default knobs for such an operator.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<RowsKnobs> {
    let knobs = RowsKnobs {
        vector_length: unit.lanes(),
        parallel_extent: None,
    };
    with_knobs(s, unit, knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, unit: VectorUnit, knobs: RowsKnobs) -> Result<RowsKnobs> {
    let operator = Rows::of(s)?;
    let lanes = knobs.vector_length.min(unit.lanes());
    let row = if operator.share_rows() {
        operator.merge(s, lanes)?
    } else if let Some(columns) = Columns::of(&operator.parts) {
        columns.schedule(s, &operator.parts, lanes)?
    } else {
        operator.nest(s, lanes)?
    };
    match knobs.parallel_extent {
        Some(extent) => s.parallel(&s.split(&row, &[Some(extent), None])?[0])?,
        None => s.parallel(&row)?,
    }
    Ok(knobs)
}

/// Number of rows that run in parallel, with vectors of `lanes`.
pub(super) fn count(s: &Schedule, lanes: i64) -> Result<i64> {
    let operator = Rows::of(s)?;
    if let Some(columns) = Columns::of(&operator.parts) {
        return Ok(columns.rows(lanes));
    }
    let output = &operator.output().info;
    Ok(output.iters[..operator.rows]
        .iter()
        .map(|i| i.extent)
        .product())
}

/// The blocks of an operator that works row by row, in program order.
struct Rows {
    parts: Vec<Part>,
    /// Number of leading iterators that are rows: what all reductions keep apart.
    rows: usize,
}

impl Rows {
    fn of(s: &Schedule) -> Result<Rows> {
        let mut parts = Vec::new();
        for block in s.blocks()? {
            let info = s.info(&block)?;
            parts.push(Part { block, info });
        }
        let Some(output) = parts.last() else {
            return Err(unfit("no block"));
        };
        let reductions: Vec<&BlockInfo> = parts
            .iter()
            .map(|p| &p.info)
            .filter(|i| i.is_reduction())
            .collect();
        let rows = reductions.iter().map(|r| rows_of(r)).min().unwrap_or(0);
        if rows == 0 || rows > output.info.iters.len() {
            return Err(unfit("no rows around the reductions"));
        }
        let fits = match &reductions[..] {
            // A single reduction is left to the contraction template, unless it reduces contiguous rows.
            [only] => sums_up_rows(only),
            _ => !output.info.is_reduction(),
        };
        if !fits {
            return Err(unfit("not reductions of rows"));
        }
        Ok(Rows { parts, rows })
    }

    /// The block that writes the operator's output.
    fn output(&self) -> &Part {
        &self.parts[self.parts.len() - 1]
    }

    /// Whether a reduction has one result for each row.
    fn is_one_a_row(&self, info: &BlockInfo) -> bool {
        let mut inside = info.of_kind(IterKind::Spatial).skip(self.rows);
        inside.all(|i| info.iters[i].extent == 1)
    }

    /// Whether the outermost loops of all blocks are the same rows.
    fn share_rows(&self) -> bool {
        let rows = &self.output().info.iters[..self.rows];
        self.parts.iter().all(|part| {
            let own = part.info.iters.get(..self.rows).unwrap_or_default();
            own.len() == rows.len()
                && own
                    .iter()
                    .zip(rows)
                    .all(|(own, row)| own.kind == IterKind::Spatial && own.extent == row.extent)
        })
    }

    /// All blocks under one loop over the rows, their own loops vectorised; returns that loop.
    fn merge(&self, s: &Schedule, lanes: i64) -> Result<Loop> {
        let mut rows = Vec::new();
        for Part { block, info } in &self.parts {
            let mut own = s.loops(block)?;
            if own.len() != info.iters.len() {
                return Err(unfit("a block has other loops than iterators"));
            }
            let inside = own.split_off(self.rows);
            let row = s.fuse(&own.iter().collect::<Vec<_>>())?;
            if writes_truth(info) {
                // LLVM vectorises such a loop itself. TVM has two types of truth values, and mixes them up in vectors.
            } else if !info.is_reduction() {
                vectorize(s, &fused_suffix(s, info, inside)?, lanes)?;
            } else if self.is_one_a_row(info)
                && reduces_along_memory(info)
                && let Some(factored) = factor(s, &fused_suffix(s, info, inside)?, lanes)?
            {
                rows.push(factored);
            }
            rows.push(row);
        }
        match &rows[..] {
            [row] => Ok(row.clone()),
            rows => s.merge(&rows.iter().collect::<Vec<_>>()),
        }
    }

    /// Blocks with loops of their own kind under one loop over the rows: each is computed where the output's rows need it.
    fn nest(&self, s: &Schedule, lanes: i64) -> Result<Loop> {
        let Part { block: output, .. } = self.output();
        let loops = s.loops(output)?;
        let row = s.fuse(&loops[..self.rows].iter().collect::<Vec<_>>())?;
        let around = s.loops(output)?.len() - loops[self.rows..].len();
        for producer in self.parts.iter().rev().skip(1) {
            s.compute_at(&producer.block, &row)?;
        }
        for part in self.parts.iter().filter(|p| !p.info.is_reduction()) {
            let loops = s.loops(&part.block)?;
            if let Some(innermost) = loops.get(around..).and_then(|inside| inside.last()) {
                vectorize_evenly(s, &part.info, innermost, lanes)?;
            }
        }
        Ok(row)
    }
}

/// Number of leading iterators that index a reduction's results. Reduced axes that were kept with extent one are not
/// counted.
fn rows_of(info: &BlockInfo) -> usize {
    let spatial: Vec<i64> = info
        .of_kind(IterKind::Spatial)
        .map(|i| info.iters[i].extent)
        .collect();
    let last = spatial.iter().rposition(|&extent| extent > 1);
    last.map_or(spatial.len().min(1), |last| last + 1)
}

/// Whether a reduction reads along contiguous memory, for longer than the lanes of any processor. It has one operand, or
/// several with one that is read only once (the keys of a single query).
fn sums_up_rows(info: &BlockInfo) -> bool {
    const SHORTEST: i64 = 32;
    let reduced = info.of_kind(IterKind::Reduction).map(|i| &info.iters[i]);
    let innermost = info.iters.len() - 1;
    let operands: Vec<&Access> = info.reads.iter().filter(|r| r.uses(innermost)).collect();
    reduces_along_memory(info)
        && (operands.len() == 1 || operands.iter().any(|r| is_used_up(info, r)))
        && reduced.map(|i| i.extent).product::<i64>() >= SHORTEST
}

/// Whether a block reads each value of an operand so seldom that keeping it in registers saves nothing.
fn is_used_up(info: &BlockInfo, operand: &Access) -> bool {
    const MOST_READS: i64 = 2;
    let again = info
        .iters
        .iter()
        .enumerate()
        .filter(|(i, _)| !operand.uses(*i));
    again.map(|(_, iter)| iter.extent).product::<i64>() <= MOST_READS
}

/// Whether the innermost iterator is a reduction that walks through memory in every operand that it indexes.
fn reduces_along_memory(info: &BlockInfo) -> bool {
    let innermost = info.iters.last().map(|i| i.kind);
    innermost == Some(IterKind::Reduction) && info.contiguous_suffix() > 0
}

/// Whether a block compares rather than computes.
fn writes_truth(info: &BlockInfo) -> bool {
    info.writes.iter().any(|w| w.dtype == Some(DType::Bool))
}

/// The innermost of `own` loops, fused with those around it that all accesses walk through alike.
fn fused_suffix(s: &Schedule, info: &BlockInfo, mut own: Vec<Loop>) -> Result<Vec<Loop>> {
    let together = info.contiguous_suffix().clamp(1, own.len().max(1));
    if together > 1 {
        let suffix = own.split_off(own.len() - together);
        own.push(s.fuse(&suffix.iter().collect::<Vec<_>>())?);
    }
    Ok(own)
}

/// Vectorises the innermost of a block's `own` loops, if it has any.
fn vectorize(s: &Schedule, own: &[Loop], lanes: i64) -> Result<()> {
    let Some(innermost) = own.last() else {
        return Ok(());
    };
    let extent = s.extent(innermost)?;
    let length = vector_length(extent, lanes);
    if length < 2 {
        return Ok(());
    }
    let split = s.split(innermost, &[None, Some(length)])?;
    if extent % length != 0 {
        s.part_loop(&split[0])?;
    }
    s.vectorize(&split[1])
}

/// Vectorises a block's innermost loop by a length that divides it, unless the block compares.
pub(super) fn vectorize_evenly(
    s: &Schedule,
    info: &BlockInfo,
    innermost: &Loop,
    lanes: i64,
) -> Result<()> {
    if writes_truth(info) {
        return Ok(());
    }
    let length = even_vector_length(s.extent(innermost)?, lanes);
    s.vectorize(&s.split(innermost, &[None, Some(length)])?[1])
}

/// Factors the innermost of a reduction's `own` loops into one partial result per lane. Returns the loop over the rows
/// of the block that computes them. `None` if the rows are too short.
fn factor(s: &Schedule, own: &[Loop], lanes: i64) -> Result<Option<Loop>> {
    let Some(innermost) = own.last() else {
        return Ok(None);
    };
    let extent = s.extent(innermost)?;
    // A row must fill one vector and at least half of a second one.
    if lanes < 2 || extent < lanes + lanes / 2 {
        return Ok(None);
    }
    let split = s.split(innermost, &[None, Some(lanes)])?;
    let block = s.rfactor(&split[1], 1)?;
    let loops = s.loops(&block)?;
    let [row, .., steps, lane] = &loops[..] else {
        return Err(unfit("a partial reduction without loops"));
    };
    if extent % lanes != 0 {
        s.part_loop(steps)?;
    }
    // Each sum is initialised in its loop's first step. TVM cannot parallelise a loop around several reductions that
    // are initialised apart.
    s.vectorize(lane)?;
    Ok(Some(row.clone()))
}
