//! A thread for each result: what every operator can be scheduled by.
//!
//! Blocks that another reads are written into it where they can be; of each that is left the spatial loops are fused and
//! shared out over blocks of threads. Where the last block is not full, its threads are guarded by a condition.
//! Reductions stay loops of their thread.

use serde::{Deserialize, Serialize};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::schedule::{Block, Loop};
use tvm_bridge::{Result, Schedule};

use super::{Knobs, factors, limits};
use crate::schedule::{Choice, Dimension, Factor, FactorValue, Space, unfit};

/// Threads of a block where nothing else is asked for.
const BLOCK_SIZE: i64 = 256;

/// The knobs of the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementKnobs {
    /// Threads of a block.
    pub block_size: i64,
}

/// The template with the knobs that suit every operator.
pub(super) fn suggested(s: &Schedule) -> Result<ElementKnobs> {
    let block_size = BLOCK_SIZE;
    with_knobs(s, ElementKnobs { block_size })
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: ElementKnobs) -> Result<ElementKnobs> {
    if !(1..=limits::MAX_THREADS).contains(&knobs.block_size) {
        return Err(unfit("a block cannot have so many threads"));
    }
    for block in s.blocks()? {
        let has_readers = !s.consumers(&block)?.is_empty();
        if has_readers && !s.info(&block)?.is_reduction() {
            // Where it cannot be, it stays a kernel of its own.
            let _ = s.compute_inline(&block);
        }
    }
    for block in s.blocks()? {
        bind(s, &block, knobs.block_size)?;
    }
    Ok(knobs)
}

/// What can be varied.
pub(super) fn space(base: Choice) -> Space {
    let powers = (0..).map(|p| 1 << p);
    let powers = powers.take_while(|threads| *threads <= limits::MAX_THREADS);
    let factor = Factor::named(factors::BLOCK_SIZE);
    let threads = Dimension::numbers(factor, powers, BLOCK_SIZE);
    Space::new(base, vec![threads], serde_json::Value::Null)
}

/// The choice with these settings.
pub(super) fn combine(
    mut knobs: ElementKnobs,
    settings: &[(&Dimension, &FactorValue)],
) -> std::result::Result<Choice, String> {
    for (dimension, setting) in settings {
        match (dimension.factor.name(), setting) {
            (factors::BLOCK_SIZE, FactorValue::Number(threads)) => knobs.block_size = *threads,
            _ => return Err(format!("{} cannot be {setting}", dimension.name())),
        }
    }
    Ok(Knobs::Fallback(knobs).choice())
}

/// Shares the spatial loops of a block out over threads.
fn bind(s: &Schedule, block: &Block, threads: i64) -> Result<()> {
    let info = s.info(block)?;
    let loops = s.loops(block)?;
    if loops.len() != info.iters.len() {
        return Err(unfit("a block has other loops than iterators"));
    }
    let of = |spatial: bool| -> Vec<&Loop> {
        let iters = info.iters.iter().zip(&loops);
        let wanted = iters.filter(|(iter, _)| (iter.kind == IterKind::Spatial) == spatial);
        wanted.map(|(_, l)| l).collect()
    };
    let (mut spatial, others) = (of(true), of(false));
    // A single value has no loop to bind.
    let unit;
    if spatial.is_empty() {
        unit = s.add_unit_loop(block)?;
        spatial.push(&unit);
    }
    let order: Vec<&Loop> = spatial.iter().chain(&others).copied().collect();
    if order.len() > 1 {
        s.reorder(&order)?;
    }
    let fused = match spatial[..] {
        [only] => only.clone(),
        _ => s.fuse(&spatial)?,
    };
    let split = s.split(&fused, &[None, Some(threads)])?;
    s.bind(&split[0], "blockIdx.x")?;
    s.bind(&split[1], "threadIdx.x")?;
    if let Some(first) = others.first() {
        s.decompose_reduction(block, first)?;
    }
    Ok(())
}
