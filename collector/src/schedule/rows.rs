//! Operators with several reductions over the same rows: softmax, layer norm, group norm.
//!
//! Each row is finished before the next begins, so that it stays in the first-level cache; rows run in parallel.

use tvm_bridge::{Result, Schedule};

use super::lanes::even_vector_length;
use super::{Choice, VectorUnit, unfit};

/// The template.
pub(super) fn apply(s: &Schedule, unit: VectorUnit) -> Result<Choice> {
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
    // What all reductions keep apart are the rows: the leading loops of the output.
    let rows = reductions
        .iter()
        .map(|r| r.of_kind(tvm_bridge::inspect::IterKind::Spatial).count())
        .min()
        .unwrap_or(0);
    if rows == 0 || rows >= loops.len() {
        return Err(unfit("no rows around the reductions"));
    }
    let row = s.fuse(&loops[..rows].iter().collect::<Vec<_>>())?;
    s.parallel(&row)?;
    for producer in producers.iter().rev() {
        s.compute_at(producer, &row)?;
    }
    for (block, info) in blocks.iter().zip(&infos) {
        if info.is_reduction() {
            continue;
        }
        if let Some(innermost) = s.loops(block)?.get(1..).and_then(|inside| inside.last()) {
            let length = even_vector_length(s.extent(innermost)?, unit.lanes());
            s.vectorize(&s.split(innermost, &[None, Some(length)])?[1])?;
        }
    }
    Ok(Choice::Rows)
}
