//! Operators with several reductions over the same rows: softmax, layer norm, group norm.
//!
//! Each row is finished before the next begins, so that it stays in the first-level cache; rows run in parallel.

use opdata::contract::knobs::RowsKnobs;
use opmodels::tile::{VectorUnit, even_vector_length};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::{BlockInfo, Result, Schedule};

use crate::schedule::unfit;

/// The template with the knobs that suit every such operator.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<RowsKnobs> {
    let knobs = RowsKnobs {
        vector_length: unit.lanes(),
        parallel_extent: None,
    };
    with_knobs(s, unit, knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, unit: VectorUnit, knobs: RowsKnobs) -> Result<RowsKnobs> {
    let blocks = s.blocks()?;
    let infos = blocks
        .iter()
        .map(|b| s.info(b))
        .collect::<Result<Vec<_>>>()?;
    let reductions: Vec<_> = infos.iter().filter(|i| i.is_reduction()).collect();
    let Some((output, producers)) = blocks.split_last() else {
        return Err(unfit("no block"));
    };
    if reductions.len() < 2 || infos[infos.len() - 1].is_reduction() {
        return Err(unfit("not several reductions with a tail"));
    }
    let loops = s.loops(output)?;
    let rows = rows_of(&reductions);
    if rows == 0 || rows >= loops.len() {
        return Err(unfit("no rows around the reductions"));
    }
    let row = s.fuse(&loops[..rows].iter().collect::<Vec<_>>())?;
    let row = match knobs.parallel_extent {
        Some(extent) => {
            let split = s.split(&row, &[Some(extent), None])?;
            s.parallel(&split[0])?;
            split[1].clone()
        }
        None => {
            s.parallel(&row)?;
            row
        }
    };
    let around = s.loops(output)?.len() - loops[rows..].len();
    for producer in producers.iter().rev() {
        s.compute_at(producer, &row)?;
    }
    for (block, info) in blocks.iter().zip(&infos) {
        if info.is_reduction() {
            continue;
        }
        if let Some(innermost) = s
            .loops(block)?
            .get(around..)
            .and_then(|inside| inside.last())
        {
            let length =
                even_vector_length(s.extent(innermost)?, knobs.vector_length.min(unit.lanes()));
            s.vectorize(&s.split(innermost, &[None, Some(length)])?[1])?;
        }
    }
    Ok(knobs)
}

/// Number of leading loops that are rows: what all reductions keep apart.
fn rows_of(reductions: &[&BlockInfo]) -> usize {
    reductions
        .iter()
        .map(|r| r.of_kind(IterKind::Spatial).count())
        .min()
        .unwrap_or(0)
}

/// Number of rows that run in parallel.
pub(super) fn count(s: &Schedule) -> Result<i64> {
    let blocks = s.blocks()?;
    let infos = blocks
        .iter()
        .map(|b| s.info(b))
        .collect::<Result<Vec<_>>>()?;
    let reductions: Vec<_> = infos.iter().filter(|i| i.is_reduction()).collect();
    let last = infos.last().ok_or_else(|| unfit("no block"))?;
    let rows = &last.iters[..rows_of(&reductions).min(last.iters.len())];
    Ok(rows.iter().map(|i| i.extent).product())
}
