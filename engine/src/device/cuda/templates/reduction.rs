//! One reduction, several threads for each result: means, poolings to one value, products with a vector.
//!
//! The threads of a block share each sum and combine their parts by shuffles and shared memory. Where the largest
//! operand is contiguous along the sum, neighbouring threads take neighbouring terms, vectors at a time. Where it is
//! contiguous along the results, neighbouring threads compute neighbouring results, and the sum is split over the
//! others.
//!
//! A block's results always divide the last axis of the results: TVM's store of a shared sum is guarded by the thread
//! that holds it, not by the number of results. A remainder would be written out of bounds. Results that are not one
//! piece of a row are taken for all rows that they touch.

use opmodels::tile::divisors;
use tvm_bridge::inspect::{Access, BlockInfo, IterKind};
use tvm_bridge::{Loop, Result, Schedule};

use super::contraction::unroll_hint;
use super::parts::{OperatorBlocks, inline_consumers};
use super::window::spatial_and_summed;
use super::{ReductionKnobs, fallback, limits};
use crate::schedule::{Part, unfit};

/// Sums with fewer terms are left to one thread.
const FEWEST_TERMS: i64 = 32;
/// Results that keep a GPU busy with one thread each.
const MANY_RESULTS: i64 = 1 << 15;

/// Whether several threads should share each sum of a reduction.
pub(super) fn suits(info: &BlockInfo) -> bool {
    let (results, terms) = extents(info);
    info.writes.len() == 1
        && terms >= FEWEST_TERMS
        && (results < MANY_RESULTS || terms >= 32 * FEWEST_TERMS)
}

/// Number of results, and of terms of each.
pub(super) fn extents(info: &BlockInfo) -> (i64, i64) {
    let product = |kind| info.of_kind(kind).map(|i| info.iters[i].extent).product();
    (product(IterKind::Spatial), product(IterKind::Reduction))
}

/// Number of results in a row: the last axis that has more than one.
pub(super) fn row(info: &BlockInfo) -> i64 {
    let extents = info
        .of_kind(IterKind::Spatial)
        .map(|i| info.iters[i].extent);
    extents.filter(|extent| *extent > 1).last().unwrap_or(1)
}

/// Whether the largest operand is contiguous along the results rather than along the sum.
fn is_contiguous_along_results(info: &BlockInfo) -> bool {
    let size = |access: &&Access| access.shape.iter().product::<i64>();
    let largest = info.reads.iter().max_by_key(size);
    let last = largest.and_then(|access| access.indices.last());
    last.is_some_and(|index| {
        let unit = |t: &&(usize, Option<i64>)| info.iters[t.0].extent > 1 && t.1 != Some(0);
        let mut iters = index
            .terms
            .iter()
            .filter(unit)
            .map(|t| info.iters[t.0].kind);
        iters.all(|kind| kind == IterKind::Spatial) && !index.terms.is_empty()
    })
}

/// The knobs that suit a reduction of this shape.
pub(super) fn default_knobs(info: &BlockInfo) -> ReductionKnobs {
    let (results, terms) = extents(info);
    let largest = |most: i64| {
        divisors(row(info))
            .filter(|d| *d <= most)
            .last()
            .unwrap_or(1)
    };
    let (block_size, side_by_side) = if is_contiguous_along_results(info) {
        let side_by_side = largest(limits::WARP);
        (
            side_by_side * (256 / side_by_side).min(power_below(terms)),
            side_by_side,
        )
    } else if results >= 512 && terms <= 4096 {
        // A warp for each sum: shuffles alone combine its parts.
        let warps = largest(4);
        (limits::WARP * warps, warps)
    } else {
        (power_below(terms / 4).clamp(limits::WARP, 256), 1)
    };
    ReductionKnobs {
        block_size,
        results: side_by_side,
        vector: 4,
        unroll: 16,
    }
}

/// The largest power of two up to `n`.
fn power_below(n: i64) -> i64 {
    1 << n.max(1).ilog2()
}

/// The template with the knobs that the operator suggests.
pub(super) fn suggested(s: &Schedule) -> Result<ReductionKnobs> {
    let parts = OperatorBlocks::inlined(s)?;
    let anchor = parts.anchor()?;
    if !suits(&anchor.info) {
        return Err(unfit("one thread is enough for each sum"));
    }
    let knobs = default_knobs(&anchor.info);
    apply(s, &parts, &knobs)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: &ReductionKnobs) -> Result<ReductionKnobs> {
    let parts = OperatorBlocks::inlined(s)?;
    apply(s, &parts, knobs)?;
    Ok(*knobs)
}

/// Checks knobs for rows of `row` results.
///
/// # Errors
/// Fails if they are impossible, and says why.
pub(super) fn check(knobs: &ReductionKnobs, row: i64) -> std::result::Result<(), String> {
    limits::check_threads(knobs.block_size)?;
    let ReductionKnobs {
        block_size,
        results: own,
        ..
    } = *knobs;
    if own < 1 || row % own != 0 {
        return Err(format!(
            "{own} results of a block do not divide a row of {row}"
        ));
    }
    if block_size % own != 0 {
        return Err(format!(
            "{own} results do not share {block_size} threads evenly"
        ));
    }
    Ok(())
}

fn apply(s: &Schedule, parts: &OperatorBlocks, knobs: &ReductionKnobs) -> Result<()> {
    if !parts.between.is_empty() {
        return Err(unfit("something that others read stays a block"));
    }
    nest(s, parts.anchor()?, knobs)
}

/// Schedules one reduction and its consumers.
pub(super) fn nest(s: &Schedule, part: &Part, knobs: &ReductionKnobs) -> Result<()> {
    let (_, terms) = extents(&part.info);
    check(knobs, row(&part.info)).map_err(|reason| unfit(&reason))?;
    let along_results = is_contiguous_along_results(&part.info);
    let (spatial, summed) = spatial_and_summed(s, part)?;
    let outer = side_by_side(s, &spatial, knobs.results)?;
    let fused = s.fuse(&summed.iter().collect::<Vec<_>>())?;
    let sharing = knobs.block_size / knobs.results;
    let vector = match along_results {
        false => vector_of(&part.info, knobs.vector, terms, sharing),
        true => 1,
    };
    let inner = s.split(&fused, &[None, Some(sharing), Some(vector)])?;
    s.reorder(&[&outer[0], &outer[1], &inner[0], &inner[1], &inner[2]])?;
    let (for_results, for_sum) = if along_results {
        ("threadIdx.x", "threadIdx.y")
    } else {
        ("threadIdx.y", "threadIdx.x")
    };
    s.bind(&outer[0], "blockIdx.x")?;
    s.bind(&outer[1], for_results)?;
    s.bind(&inner[1], for_sum)?;
    if vector > 1 {
        for operand in operands_in_vectors(&part.info, vector) {
            let registers = s.cache_read(&part.block, operand, "local")?;
            s.compute_at_with_unit_loops(&registers, &inner[1])?;
            if let Some(last) = s.loops(&registers)?.pop()
                && s.extent(&last)? == vector
            {
                s.vectorize(&last)?;
            }
        }
    }
    unroll_hint(s, &outer[1], knobs.unroll)?;
    tail(s, part, &outer[0], for_results)
}

/// The results' loops as one of blocks and one of the results in a block. The row alone is split. If loops were fused
/// before, the bounds that TVM finds for a block's shared memory may lie far beyond all results.
fn side_by_side(s: &Schedule, spatial: &[Loop], results: i64) -> Result<[Loop; 2]> {
    let [before @ .., row] = spatial else {
        return Err(unfit("a reduction without results"));
    };
    let parts = s.split(row, &[None, Some(results)])?;
    let blocks = s.fuse(&before.iter().chain([&parts[0]]).collect::<Vec<_>>())?;
    Ok([blocks, parts[1].clone()])
}

/// Computes what is after a reduction by the threads that hold its results.
fn tail(s: &Schedule, part: &Part, block: &Loop, axis: &str) -> Result<()> {
    let consumers = s.consumers(&part.block)?;
    if consumers.is_empty() {
        return Ok(());
    }
    let copy = s.cache_write(&part.block, 0, "shared")?;
    // The copy is placed before other blocks are inlined into it. Otherwise the condition on its elements would be
    // lost.
    s.reverse_compute_at_with_unit_loops(&copy, block)?;
    let loops = s.loops(&copy)?;
    // The loops after the loop of blocks.
    s.bind(&s.fuse(&loops.iter().skip(1).collect::<Vec<_>>())?, axis)?;
    if inline_consumers(s, &copy).is_err() {
        fallback::rest(s, &copy)?;
    }
    Ok(())
}

/// The longest vector of terms that every operand with contiguous terms can be loaded in.
fn vector_of(info: &BlockInfo, most: i64, terms: i64, sharing: i64) -> i64 {
    let even = |v: &i64| {
        *v <= most && terms % (v * sharing) == 0 && !operands_in_vectors(info, *v).is_empty()
    };
    [4, 2].into_iter().find(even).unwrap_or(1)
}

/// The operands whose last dimension is the last axis of the sum, in whole vectors.
fn operands_in_vectors(info: &BlockInfo, vector: i64) -> Vec<usize> {
    let last = info.of_kind(IterKind::Reduction).last();
    let fits = |access: &Access| {
        let plain = access.indices.last().and_then(|i| i.plain());
        plain.is_some()
            && plain == last
            && access
                .shape
                .last()
                .is_some_and(|extent| extent % vector == 0)
            && info.iters[plain.unwrap_or(0)].extent % vector == 0
            && access.dtype.is_some_and(|t| t.bytes() == 4)
    };
    let all = info.reads.iter().enumerate();
    all.filter(|(_, access)| fits(access))
        .map(|(i, _)| i)
        .collect()
}
