//! Whatever no other template takes: element-wise chains, copies, transposes, gathers, and odd combinations of reductions.
//!
//! Every block that is left after inlining becomes a kernel. The elements of a block without a reduction are shared out
//! over threads, neighbours to neighbours, vectors at a time where all accesses are contiguous. A reduction is computed
//! by one thread or several for each result, as suits its extents.

use tvm_bridge::inspect::{BlockInfo, IterKind};
use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, DType, Result, Schedule};

use super::parts::OperatorBlocks;
use super::{ElementKnobs, limits, reduction, window};
use crate::schedule::{Part, unfit};

/// Default number of threads of a block.
pub(super) const BLOCK_SIZE: i64 = 256;
/// Bytes of the widest load.
const WIDEST_BYTES: i64 = 16;

/// The template with the knobs that suit every operator.
pub(super) fn suggested(s: &Schedule) -> Result<ElementKnobs> {
    let knobs = ElementKnobs {
        block_size: BLOCK_SIZE,
        vector: 4,
    };
    with_knobs(s, knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: ElementKnobs) -> Result<ElementKnobs> {
    limits::check_threads(knobs.block_size).map_err(|reason| unfit(&reason))?;
    OperatorBlocks::inlined(s)?;
    kernels(s, &s.blocks()?, knobs)?;
    Ok(knobs)
}

/// Makes every block after `block` a kernel.
///
/// # Errors
/// Fails if TVM does.
pub(super) fn rest(s: &Schedule, block: &Block) -> Result<()> {
    let knobs = ElementKnobs {
        block_size: BLOCK_SIZE,
        vector: 4,
    };
    let own = s.info(block)?.name;
    // Blocks after it that others read are inlined into their readers first.
    loop {
        let behind = reachable(s, block)?;
        let mut inlined = false;
        for part in &behind {
            if !s.consumers(&part.block)?.is_empty() && s.compute_inline(&part.block).is_ok() {
                inlined = true;
                break;
            }
        }
        if !inlined {
            break;
        }
    }
    let behind = reachable(s, block)?;
    let mut names: Vec<&str> = behind.iter().map(|p| p.info.name.as_str()).collect();
    names.push(&own);
    for part in &behind {
        for producer in s.producers(&part.block)? {
            let beside = !names.contains(&s.info(&producer)?.name.as_str());
            if beside && s.compute_inline(&producer).is_err() {
                return Err(unfit("something beside the product stays a block"));
            }
        }
    }
    let blocks: Vec<Block> = behind.into_iter().map(|p| p.block).collect();
    kernels(s, &blocks, knobs)
}

/// Makes each of these blocks a kernel, if it is still there.
fn kernels(s: &Schedule, blocks: &[Block], knobs: ElementKnobs) -> Result<()> {
    // By name: scheduling one block can write another into it, and make new ones inside.
    let names = blocks.iter().map(|b| Ok(s.info(b)?.name));
    for name in names.collect::<Result<Vec<_>>>()? {
        for block in s.blocks()? {
            // A block that was inlined meanwhile no longer exists.
            let Ok(part) = Part::of(s, block) else {
                continue;
            };
            if part.info.name == name {
                kernel(s, &part, knobs)?;
            }
        }
    }
    Ok(())
}

/// The blocks that read, directly or not, what `block` writes.
fn reachable(s: &Schedule, block: &Block) -> Result<Vec<Part>> {
    let mut found: Vec<Part> = Vec::new();
    let mut next = s.consumers(block)?;
    while let Some(consumer) = next.pop() {
        next.extend(s.consumers(&consumer)?);
        let part = Part::of(s, consumer)?;
        if found.iter().all(|p| p.info.name != part.info.name) {
            found.push(part);
        }
    }
    Ok(found)
}

fn kernel(s: &Schedule, part: &Part, knobs: ElementKnobs) -> Result<()> {
    if let Some(outermost) = s.loops(&part.block)?.first()
        && s.is_bound(outermost)?
    {
        // Its loops are bound already, because it is computed at another block.
        return Ok(());
    }
    if !part.info.is_reduction() {
        return elements(s, part, knobs);
    }
    if reduction::suits(&part.info) {
        let own = reduction::default_knobs(&part.info);
        reduction::nest(s, part, &own)
    } else {
        window::nest(s, part, &window::default_knobs(&part.info))
    }
}

/// Shares the elements of a block out over threads.
fn elements(s: &Schedule, part: &Part, knobs: ElementKnobs) -> Result<()> {
    if part.info.iters.iter().any(|i| i.kind != IterKind::Spatial) {
        return Err(unfit(
            "a block that is neither element-wise nor a reduction",
        ));
    }
    let loops = loops_or_one(s, &part.block)?;
    let vector = vector_length(&part.info, knobs.vector);
    let fused = s.fuse(&loops.iter().collect::<Vec<_>>())?;
    let total = s.extent(&fused)?;
    let threads = knobs.block_size.min(total / vector).max(1);
    let split = s.split(&fused, &[None, Some(threads), Some(vector)])?;
    s.bind(&split[0], "blockIdx.x")?;
    s.bind(&split[1], "threadIdx.x")?;
    if vector > 1 {
        s.vectorize(&split[2])?;
    }
    Ok(())
}

/// A block's loops; one of a single step where it has none.
pub(super) fn loops_or_one(s: &Schedule, block: &Block) -> Result<Vec<Loop>> {
    let loops = s.loops(block)?;
    if loops.is_empty() {
        return Ok(vec![s.add_unit_loop(block)?]);
    }
    Ok(loops)
}

/// Whether a block's elements have a type that the GPU has vectors of.
pub(super) fn is_vectorizable(info: &BlockInfo) -> bool {
    let has_vectors = |dtype: Option<DType>| {
        matches!(dtype, Some(DType::Float32 | DType::Float16 | DType::Int32))
    };
    info.reads
        .iter()
        .chain(&info.writes)
        .all(|a| has_vectors(a.dtype))
}

/// The longest vector that all accesses of a block allow, at most `most`.
pub(super) fn vector_length(info: &BlockInfo, most: i64) -> i64 {
    if !is_vectorizable(info) {
        return 1;
    }
    let suffix = info.contiguous_suffix();
    let inner = &info.iters[info.iters.len() - suffix..];
    let run: i64 = inner.iter().map(|i| i.extent).product();
    let accesses = info.reads.iter().chain(&info.writes);
    let bytes = accesses.filter_map(|a| a.dtype).map(DType::bytes).max();
    let widest = WIDEST_BYTES / bytes.unwrap_or(4) as i64;
    let fits = |v: &i64| suffix > 0 && *v <= most.min(widest) && run % v == 0;
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}
