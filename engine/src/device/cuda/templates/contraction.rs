//! Products tiled in shared memory and registers: convolutions, dense layers, matrix products.
//!
//! A block of threads computes a tile of the output. For each piece of the sum, the threads copy the operands' tiles
//! into shared memory together, vectors at a time, and multiply from there. A thread's results stay in registers. Each
//! operand's values are loaded into registers once a step. With two stages or more the next tiles are on their way from
//! global memory while these are multiplied ([`super::pipeline`]). The element-wise tail runs on the registers before
//! they are stored. Where there are few tiles and long sums, several blocks share each sum ([`Product::shared`]).

use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, Result, Schedule};

use super::limits::{DYNAMIC_SHARED_BYTES, Limits, STATIC_SHARED_BYTES};
use super::parts::{inline_consumers, inline_producers};
use super::pipeline::{self, pipeline};
use super::product::{CopyLayout, Extents, Product, bind_blocks, loops_of};
use super::{TileKnobs, fallback};
use crate::schedule::unfit;

/// Products with fewer rows or columns are better summed by several threads each.
const SMALLEST: i64 = 8;
/// Maximum number of adjacent values of a thread; the rest of its tile is as far away as its neighbours' tiles. So the
/// threads of a warp read whole lines of shared memory.
const SIDE_BY_SIDE: i64 = 4;
/// Elements between rows of the transposed operand in shared memory beyond a multiple of [`BANKS`].
const SKEW: i64 = 4;
/// Banks of shared memory, of four bytes each.
const BANKS: i64 = 32;
/// Results of a thread whose registers fit beside what the loop needs.
const MOST_RESULTS: i64 = 128;

/// The template with the knobs that the product's extents suggest.
pub(super) fn suggested(s: &Schedule, limits: &Limits) -> Result<TileKnobs> {
    let product = Product::find(s)?;
    let extents = product.extents();
    if extents.m < SMALLEST || extents.n < SMALLEST {
        return Err(unfit("too few rows or columns for a tile"));
    }
    let knobs = default_knobs(extents, limits);
    apply(s, product, &knobs)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: &TileKnobs, limits: &Limits) -> Result<TileKnobs> {
    limits
        .check_stages(knobs.stages)
        .map_err(|reason| unfit(&reason))?;
    apply(s, Product::find(s)?, knobs)?;
    Ok(*knobs)
}

/// Tiles worth trying first, from large to small: block rows and columns, thread rows and columns.
const TILES: [(i64, i64, i64, i64); 9] = [
    (128, 128, 8, 8),
    (64, 128, 4, 8),
    (128, 64, 8, 4),
    (64, 64, 4, 4),
    (32, 64, 4, 4),
    (64, 32, 4, 4),
    (32, 32, 2, 2),
    (16, 64, 2, 4),
    (16, 32, 1, 2),
];

/// The tile that keeps the multiprocessors busiest. The cost of a tile is the number of rounds of blocks, times the cost of
/// a block: its products and its loads. Loads weigh more for small tiles.
fn default_knobs(extents: Extents, limits: &Limits) -> TileKnobs {
    /// Cost of loading an element, in products.
    const LOAD: i64 = 12;
    let cost = |&(m, n, _, _): &(i64, i64, i64, i64)| {
        let blocks = extents.batch * ceil(extents.m, m) * ceil(extents.n, n);
        ceil(blocks, limits.multiprocessors) * (m * n + LOAD * (m + n))
    };
    let (block_m, block_n, thread_m, thread_n) =
        TILES.into_iter().min_by_key(cost).unwrap_or(TILES[3]);
    // More steps of the largest tile take more registers than two blocks of a multiprocessor have.
    let block_k = if thread_m * thread_n >= 64 { 8 } else { 16 };
    /// Largest loop to unroll, in steps: enough for all steps of a tile's sum. Other loops wait for shared memory at each step.
    const UNROLLED: i64 = 2048;
    TileKnobs {
        block_m,
        block_n,
        block_k: block_k.min(round_up_to_power(extents.k)),
        thread_m,
        thread_n,
        vector: 4,
        unroll: UNROLLED,
        stages: 2,
        split: extents.split(limits, [block_m, block_n]),
    }
}

pub(super) fn ceil(extent: i64, part: i64) -> i64 {
    (extent + part - 1) / part.max(1)
}

fn round_up_to_power(n: i64) -> i64 {
    n.max(1).unsigned_abs().next_power_of_two() as i64
}

/// Bytes of shared memory of a tile, with the rows' distance.
fn shared_bytes(knobs: &TileKnobs, element: i64) -> i64 {
    let width = knobs.block_m + knobs.block_n + 2 * (BANKS + SKEW);
    knobs.stages * knobs.block_k * width * element
}

/// Checks a tile for operands by their bytes an element, and for sums by their number of steps.
///
/// # Errors
/// Fails if it is impossible, and says why.
pub(super) fn check(
    knobs: &TileKnobs,
    element: i64,
    steps: i64,
) -> std::result::Result<(), String> {
    let TileKnobs {
        block_m,
        block_n,
        thread_m,
        thread_n,
        ..
    } = *knobs;
    if thread_m < 1 || thread_n < 1 || block_m % thread_m != 0 || block_n % thread_n != 0 {
        return Err(format!(
            "threads of {thread_m} × {thread_n} results do not divide a block of {block_m} × {block_n}"
        ));
    }
    if thread_m * thread_n > MOST_RESULTS {
        return Err(format!(
            "{} results of a thread do not fit in its registers",
            thread_m * thread_n
        ));
    }
    super::limits::check_threads(knobs.threads())?;
    super::product::check_split(knobs.split, steps)?;
    let bytes = shared_bytes(knobs, element);
    let most = match pipeline::is_asynchronous(knobs.stages) {
        true => DYNAMIC_SHARED_BYTES,
        false => STATIC_SHARED_BYTES,
    };
    if bytes > most {
        return Err(format!("{bytes} bytes of shared memory, more than {most}"));
    }
    Ok(())
}

fn apply(s: &Schedule, product: Product, knobs: &TileKnobs) -> Result<()> {
    let element = product.operand_type().map_or(4, |t| t.bytes() as i64);
    check(knobs, element, product.steps()).map_err(|reason| unfit(&reason))?;
    let product = &product.shared(s, knobs.split)?;
    let asynchronous = pipeline::is_asynchronous(knobs.stages);
    let loads = [0, 1].map(|side| product.vector(side, knobs.vector));
    product.normalise(s, [CopyLayout::DepthOutside; 2])?;
    let block = &product.block;
    s.pad_einsum(block, &[1, knobs.block_m, knobs.block_n, knobs.block_k])?;
    let tile = Tile::split(s, block, knobs)?;
    let copy_out = s.cache_write(block, 0, "local")?;
    s.reverse_compute_at_with_unit_loops(&copy_out, &tile.thread)?;
    let mut copies = Vec::new();
    for (side, (layout, vector)) in loads.into_iter().enumerate() {
        let operand = product.operands[side];
        let shared = s.cache_read(block, operand, pipeline::scope(knobs.stages))?;
        s.compute_at_with_unit_loops(&shared, &tile.outer_depth)?;
        // An asynchronous copy stores what it loads side by side, and this one is transposed.
        let transposed = layout == CopyLayout::DepthInside;
        let vector = if asynchronous && transposed {
            1
        } else {
            vector
        };
        cooperate(s, &shared, layout, vector, knobs.threads())?;
        if transposed {
            s.storage_align(&shared, 0, 1, BANKS, SKEW)?;
        }
        let registers = s.cache_read(block, operand, "local")?;
        s.compute_at_with_unit_loops(&registers, &tile.inner_depth)?;
        if !asynchronous {
            // Where all accesses are vectors, TVM makes it an array of vectors, for which it writes no asynchronous copies.
            vectorize_last(s, &registers, SIDE_BY_SIDE)?;
        }
        copies.push(shared);
    }
    for copy in &copies {
        inline_producers(s, copy)?;
    }
    finish(s, &copy_out, product, knobs)?;
    s.decompose_reduction(block, &tile.outer_depth)?;
    unroll_hint(s, &tile.thread, knobs.unroll)?;
    pipeline(s, &tile.outer_depth, &copies, knobs.stages)
}

/// The loops of a tile that other blocks are computed at.
struct Tile {
    thread: Loop,
    outer_depth: Loop,
    inner_depth: Loop,
}

impl Tile {
    /// Splits the product's four loops into blocks, virtual threads, threads and the results of a thread.
    fn split(s: &Schedule, block: &Block, knobs: &TileKnobs) -> Result<Tile> {
        let [batch, m, n, k] = &loops_of(s, block)?;
        let side = |l: &Loop, block: i64, thread: i64| {
            let inner = inner_of(thread);
            let threads = block / thread;
            s.split(l, &[None, Some(thread / inner), Some(threads), Some(inner)])
        };
        let rows = side(m, knobs.block_m, knobs.thread_m)?;
        let columns = side(n, knobs.block_n, knobs.thread_n)?;
        let depth = s.split(k, &[None, Some(knobs.block_k)])?;
        s.reorder(&[
            batch,
            &rows[0],
            &columns[0],
            &rows[1],
            &columns[1],
            &rows[2],
            &columns[2],
            &depth[0],
            &depth[1],
            &rows[3],
            &columns[3],
        ])?;
        bind_blocks(s, batch, &rows[0], &columns[0])?;
        s.bind(&rows[1], "vthread.y")?;
        s.bind(&columns[1], "vthread.x")?;
        let thread = s.fuse(&[&rows[2], &columns[2]])?;
        s.bind(&thread, "threadIdx.x")?;
        Ok(Tile {
            thread,
            outer_depth: depth[0].clone(),
            inner_depth: depth[1].clone(),
        })
    }
}

/// Number of a thread's adjacent results along an axis.
fn inner_of(thread: i64) -> i64 {
    let divides = |inner: &i64| thread % inner == 0;
    (1..=SIDE_BY_SIDE).rev().find(divides).unwrap_or(1)
}

/// Shares a copy's last three loops (batch, depth, rows or columns) out over the threads of the block.
fn cooperate(
    s: &Schedule,
    copy: &Block,
    layout: CopyLayout,
    vector: i64,
    threads: i64,
) -> Result<()> {
    let loops = s.loops(copy)?;
    let [.., batch, depth, own] = &loops[..] else {
        return Err(unfit("a copy without loops"));
    };
    let innermost = if layout == CopyLayout::DepthInside {
        s.reorder(&[batch, own, depth])?;
        depth
    } else {
        own
    };
    let elements = s.extent(depth)? * s.extent(own)?;
    let vector = even_vector(vector, s.extent(innermost)?, elements, threads);
    let order = match layout {
        CopyLayout::DepthInside => [batch, own, depth],
        CopyLayout::DepthOutside => [batch, depth, own],
    };
    let fused = s.fuse(&order)?;
    let split = s.split(&fused, &[None, Some(threads), Some(vector)])?;
    s.bind(&split[1], "threadIdx.x")?;
    if vector > 1 {
        s.vectorize(&split[2])?;
    }
    Ok(())
}

/// The longest vector that divides a row of the copy and leaves every thread something to do.
pub(super) fn even_vector(most: i64, row: i64, elements: i64, threads: i64) -> i64 {
    let even = |v: &i64| *v <= most && row % v == 0 && elements % (v * threads) == 0;
    [8, 4, 2].into_iter().find(even).unwrap_or(1)
}

/// Runs a copy's innermost loop as one vector, where its extent is one that vectors have.
fn vectorize_last(s: &Schedule, copy: &Block, most: i64) -> Result<()> {
    let Some(last) = s.loops(copy)?.pop() else {
        return Ok(());
    };
    let extent = s.extent(&last)?;
    if [2, 4].contains(&extent) && extent <= most {
        s.vectorize(&last)?;
    }
    Ok(())
}

/// Computes the blocks after the product where its results are stored. A block that cannot be computed there becomes a
/// kernel of its own.
fn finish(s: &Schedule, copy_out: &Block, product: &Product, knobs: &TileKnobs) -> Result<()> {
    let inlined = inline_consumers(s, copy_out);
    if inlined.is_err() {
        fallback::rest(s, copy_out)?;
        return Ok(());
    }
    let extents = product.extents();
    let whole = extents.n % knobs.block_n == 0;
    if let Some(last) = s.loops(copy_out)?.pop()
        && whole
    {
        let side_by_side = s.extent(&last)?;
        let vector = product.output_vector(knobs.vector.min(side_by_side));
        if vector > 1 && side_by_side % vector == 0 && fallback::is_vectorizable(&s.info(copy_out)?)
        {
            s.vectorize(&s.split(&last, &[None, Some(vector)])?[1])?;
        }
    }
    Ok(())
}

/// Has the CUDA compiler unroll the loops inside `l` up to `steps` steps in all. With 0 the compiler decides.
pub(super) fn unroll_hint(s: &Schedule, l: &Loop, steps: i64) -> Result<()> {
    if steps == 0 {
        return Ok(());
    }
    s.annotate_loop(l, UNROLL, steps)?;
    s.annotate_loop(l, UNROLL_EXPLICIT, 0)
}

/// TVM's mark of how many steps are unrolled.
pub(super) const UNROLL: &str = "pragma_auto_unroll_max_step";
/// Decides whether TVM's source has the steps written out. Here it keeps the loops, because the CUDA compiler would
/// expand them a second time.
pub(super) const UNROLL_EXPLICIT: &str = "pragma_unroll_explicit";
