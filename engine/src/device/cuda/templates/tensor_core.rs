//! Products of half precision and of bfloat16 on tensor cores, their sums of half or single precision.
//!
//! A block of threads computes a tile of the output in fragments of 16 × 16. The operands' tiles are copied into shared
//! memory as in [`super::contraction`]; warps load fragments from there and multiply them by `wmma` instructions. The sums
//! leave through shared memory, where the element-wise tail reads them.

use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, DType, Result, Schedule};

use super::contraction::{UNROLL, UNROLL_EXPLICIT, ceil, even_vector};
use super::limits::{DYNAMIC_SHARED_BYTES, Limits, STATIC_SHARED_BYTES, SYNCHRONOUS_STAGES, WARP};
use super::parts::{inline_consumers, inline_producers};
use super::pipeline::pipeline;
use super::product::{CopyLayout, Extents, Product, bind_blocks, check_split, loops_of};
use super::{FragmentKnobs, fallback, limits};
use crate::schedule::unfit;

/// Rows, columns and depth of a fragment.
pub(super) const FRAGMENT: i64 = 16;
/// Elements between rows of a tile in shared memory beyond a multiple of the fragment, against bank conflicts.
const SKEW: i64 = 8;
/// Bytes of the widest store.
const WIDEST_BYTES: i64 = 16;
/// Products with fewer rows or columns would leave most of a fragment empty.
const SMALLEST: i64 = 8;
/// Fragments of results of a warp whose registers fit beside the operands'.
const MOST_FRAGMENTS: i64 = 16;

/// The template with the knobs that the product's extents suggest.
pub(super) fn suggested(s: &Schedule, limits: &Limits) -> Result<FragmentKnobs> {
    if !limits.has_tensor_cores {
        return Err(unfit("no tensor cores"));
    }
    let product = Product::find(s)?;
    let extents = product.extents();
    if extents.m < SMALLEST || extents.n < SMALLEST || extents.k < FRAGMENT {
        return Err(unfit("too few rows, columns or terms for fragments"));
    }
    let multiplied = Multiplied::of(&product, limits)?;
    let knobs = default_knobs(extents, limits, multiplied.sums);
    apply(s, product, &knobs, multiplied)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(
    s: &Schedule,
    knobs: &FragmentKnobs,
    limits: &Limits,
) -> Result<FragmentKnobs> {
    limits
        .check_stages(knobs.stages)
        .map_err(|reason| unfit(&reason))?;
    let product = Product::find(s)?;
    let multiplied = Multiplied::of(&product, limits)?;
    apply(s, product, knobs, multiplied)?;
    Ok(*knobs)
}

/// The types of a product on tensor cores: that of the operands, as tensor cores name it, and that of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Multiplied {
    operands: &'static str,
    sums: Sums,
}

/// The type of a product's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    Half,
    Single,
}

impl Multiplied {
    /// The types of a product.
    ///
    /// # Errors
    /// Fails if tensor cores do not multiply them.
    fn of(product: &Product, limits: &Limits) -> Result<Multiplied> {
        let (operands, sums) = match (product.operand_type(), product.output_type()) {
            (Some(DType::Float16), Some(DType::Float16)) => ("f16", Sums::Half),
            (Some(DType::Float16), Some(DType::Float32)) => ("f16", Sums::Single),
            (Some(DType::BFloat16), Some(DType::Float32)) if limits.has_async_copies => {
                ("bf16", Sums::Single)
            }
            _ => {
                return Err(unfit(
                    "operands or sums of a type that tensor cores have not",
                ));
            }
        };
        Ok(Multiplied { operands, sums })
    }
}

impl Sums {
    /// Bytes of each.
    fn bytes(self) -> i64 {
        match self {
            Sums::Half => 2,
            Sums::Single => 4,
        }
    }
}

/// Tiles worth trying first, from large to small: block rows and columns, warp rows and columns.
const TILES: [(i64, i64, i64, i64); 6] = [
    (128, 128, 64, 64),
    (64, 128, 32, 64),
    (128, 64, 64, 32),
    (64, 64, 32, 32),
    (32, 64, 16, 32),
    (32, 32, 16, 16),
];

fn default_knobs(extents: Extents, limits: &Limits, sums: Sums) -> FragmentKnobs {
    /// Cost of loading an element, in products: more than without tensor cores, which multiply faster.
    const LOAD: i64 = 48;
    let cost = |&(m, n, _, _): &(i64, i64, i64, i64)| {
        let blocks = extents.batch * ceil(extents.m, m) * ceil(extents.n, n);
        ceil(blocks, limits.multiprocessors) * (m * n + LOAD * (m + n))
    };
    // Generations without asynchronous copies have less shared memory.
    let (stages, most) = match limits.has_async_copies {
        true => (3, DYNAMIC_SHARED_BYTES),
        false => (SYNCHRONOUS_STAGES, STATIC_SHARED_BYTES),
    };
    let fits = |&(m, n, _, _): &(i64, i64, i64, i64)| result_bytes(m, n, sums.bytes()) <= most;
    let tiles = TILES.into_iter().filter(fits);
    let (block_m, block_n, warp_m, warp_n) = tiles.min_by_key(cost).unwrap_or(TILES[3]);
    FragmentKnobs {
        block_m,
        block_n,
        block_k: if extents.k >= 32 { 32 } else { 16 },
        warp_m,
        warp_n,
        vector: 8,
        unroll: 64,
        stages,
        split: extents.split(limits, [block_m, block_n]),
    }
}

/// Distance of rows of this many elements in shared memory.
fn spaced(extent: i64) -> i64 {
    extent + FRAGMENT + SKEW
}

/// Bytes of the results on their way out, of this many bytes each.
fn result_bytes(block_m: i64, block_n: i64, result: i64) -> i64 {
    result * block_m * spaced(block_n)
}

/// Bytes of the operands' tiles.
fn operand_bytes(knobs: &FragmentKnobs) -> i64 {
    const HALF: i64 = 2;
    let tile_a = knobs.block_m * spaced(knobs.block_k);
    // Whichever way it lies.
    let tile_b = (knobs.block_n * spaced(knobs.block_k)).max(knobs.block_k * spaced(knobs.block_n));
    HALF * knobs.stages * (tile_a + tile_b)
}

/// Checks a tile for results by their bytes each, and for sums by their number of steps.
///
/// # Errors
/// Fails if it is impossible, and says why.
pub(super) fn check(
    knobs: &FragmentKnobs,
    result: i64,
    steps: i64,
) -> std::result::Result<(), String> {
    let FragmentKnobs {
        block_m,
        block_n,
        block_k,
        warp_m,
        warp_n,
        ..
    } = *knobs;
    let fragments = [block_m, block_n, block_k, warp_m, warp_n];
    if fragments.iter().any(|e| *e < FRAGMENT || e % FRAGMENT != 0) {
        return Err(format!("tiles that are not multiples of {FRAGMENT}"));
    }
    if block_m % warp_m != 0 || block_n % warp_n != 0 {
        return Err(format!(
            "warps of {warp_m} × {warp_n} do not divide a block of {block_m} × {block_n}"
        ));
    }
    if warp_m / FRAGMENT * (warp_n / FRAGMENT) > MOST_FRAGMENTS {
        return Err(format!(
            "{warp_m} × {warp_n} results of a warp do not fit in its registers"
        ));
    }
    limits::check_threads(knobs.warps() * WARP)?;
    check_split(knobs.split, steps)?;
    // The results reuse the operands' memory.
    let bytes = operand_bytes(knobs).max(result_bytes(block_m, block_n, result));
    match bytes <= DYNAMIC_SHARED_BYTES {
        true => Ok(()),
        false => Err(format!(
            "{bytes} bytes of shared memory, more than {DYNAMIC_SHARED_BYTES}"
        )),
    }
}

/// Names of the intrinsics.
struct Names {
    load: [String; 2],
    fill: &'static str,
    multiply: String,
    store: &'static str,
}

impl Names {
    /// Names of the intrinsics: for a second operand that is transposed or not, and for factors in the order of the
    /// operands or not.
    fn of(multiplied: Multiplied, transposed: bool, swapped: bool) -> Names {
        let Multiplied { operands: of, sums } = multiplied;
        let (fill, result, store) = match sums {
            Sums::Half => (
                "wmma_fill_16x16x16_f16",
                "f16",
                "wmma_store_16x16x16_f16_shared_dyn",
            ),
            Sums::Single => (
                "wmma_fill_16x16x16_f32",
                "f32",
                "wmma_store_16x16x16_f32_shared_dyn",
            ),
        };
        let transposed = if transposed { "_trans" } else { "" };
        let swapped = if swapped { "_swapped" } else { "" };
        Names {
            load: [
                format!("wmma_load_16x16x16_{of}_a_shared_dyn"),
                format!("wmma_load_16x16x16_{of}_b{transposed}_shared_dyn"),
            ],
            fill,
            multiply: format!("wmma_sync_16x16x16_{of}{of}{result}{transposed}{swapped}"),
            store,
        }
    }
}

fn apply(
    s: &Schedule,
    product: Product,
    knobs: &FragmentKnobs,
    multiplied: Multiplied,
) -> Result<()> {
    tvm_bridge::tensorize::register_cuda()?;
    let result = product.output_type().map_or(2, |t| t.bytes() as i64);
    check(knobs, result, product.steps()).map_err(|reason| unfit(&reason))?;
    let product = &product.shared(s, knobs.split)?;
    let loads = [0, 1].map(|side| product.vector(side, knobs.vector));
    let transposed = loads[1].0 == CopyLayout::DepthInside;
    let layouts = [CopyLayout::DepthInside, loads[1].0];
    product.normalise(s, layouts)?;
    let names = Names::of(multiplied, transposed, product.is_swapped());
    let tile = [1, knobs.block_m, knobs.block_n, knobs.block_k];
    s.pad_einsum(&product.block, &tile)?;
    let tile = Tile::split(s, &product.block, knobs)?;
    let copy_out = s.cache_write(&tile.fragment, 0, "shared.dyn")?;
    s.reverse_compute_at_with_unit_loops(&copy_out, &tile.block)?;
    let sums = s.cache_write(&tile.fragment, 0, "wmma.accumulator")?;
    s.reverse_compute_at_with_unit_loops(&sums, &tile.warp)?;
    let output = product.output_vector(knobs.vector.min(WIDEST_BYTES / result));
    let whole = product.extents().n % knobs.block_n == 0;
    cooperate(s, &copy_out, if whole { output } else { 1 }, knobs)?;
    let mut copies = Vec::new();
    let mut fragments = Vec::new();
    for (side, scope) in ["wmma.matrix_a", "wmma.matrix_b"].into_iter().enumerate() {
        let operand = product.operands[side];
        let shared = s.cache_read(&tile.fragment, operand, "shared.dyn")?;
        s.compute_at_with_unit_loops(&shared, &tile.outer_depth)?;
        let vector = if loads[side].0 == layouts[side] {
            loads[side].1
        } else {
            1
        };
        cooperate(s, &shared, vector, knobs)?;
        s.storage_align(&shared, 0, 1, FRAGMENT, SKEW)?;
        let fragment = s.cache_read(&tile.fragment, operand, scope)?;
        s.compute_at_with_unit_loops(&fragment, &tile.inner_depth)?;
        copies.push(shared);
        fragments.push(fragment);
    }
    let results = written(s, &sums)?;
    for copy in &copies {
        inline_producers(s, copy)?;
    }
    if inline_consumers(s, &copy_out).is_err() {
        fallback::rest(s, &copy_out)?;
    }
    let init = s.decompose_reduction(&tile.fragment, &tile.outer_depth)?;
    for (fragment, name) in fragments.iter().zip(names.load) {
        in_fragments(s, fragment, &name)?;
    }
    in_fragments(s, &sums, names.store)?;
    // This comes last, because replacing a block by an intrinsic drops the alignment of its buffer.
    for block in s.blocks()? {
        if written(s, &block).is_ok_and(|buffer| buffer == results) {
            s.storage_align(&block, 0, 1, FRAGMENT, SKEW)?;
        }
    }
    whole_block(s, &init, names.fill)?;
    whole_block(s, &tile.fragment, &names.multiply)?;
    unroll_everywhere(s, knobs.unroll)?;
    pipeline(s, &tile.outer_depth, &copies, knobs.stages)
}

/// Name of the buffer that a block writes.
fn written(s: &Schedule, block: &Block) -> Result<String> {
    let writes = s.info(block)?.writes;
    let written = writes.into_iter().next();
    written
        .map(|access| access.buffer)
        .ok_or_else(|| unfit("a block that writes nothing"))
}

/// Sets [`super::contraction::unroll_hint`] for all loops of the operator. A hint at a loop of threads becomes a loop
/// of one step inside it, and buffers of one loop share no memory.
fn unroll_everywhere(s: &Schedule, steps: i64) -> Result<()> {
    if steps == 0 {
        return Ok(());
    }
    let root = s.block("root")?;
    s.annotate_block(&root, UNROLL, steps)?;
    s.annotate_block(&root, UNROLL_EXPLICIT, 0)
}

/// The loops of a tile that other blocks are computed at, and the block of one fragment.
struct Tile {
    block: Loop,
    warp: Loop,
    outer_depth: Loop,
    inner_depth: Loop,
    fragment: Block,
}

impl Tile {
    fn split(s: &Schedule, block: &Block, knobs: &FragmentKnobs) -> Result<Tile> {
        let [batch, m, n, k] = &loops_of(s, block)?;
        let side = |l: &Loop, block: i64, warp: i64| {
            let (warps, fragments) = (block / warp, warp / FRAGMENT);
            s.split(l, &[None, Some(warps), Some(fragments), Some(FRAGMENT)])
        };
        let rows = side(m, knobs.block_m, knobs.warp_m)?;
        let columns = side(n, knobs.block_n, knobs.warp_n)?;
        let depth = s.split(k, &[None, Some(knobs.block_k / FRAGMENT), Some(FRAGMENT)])?;
        s.reorder(&[
            batch,
            &rows[0],
            &columns[0],
            &rows[1],
            &columns[1],
            &depth[0],
            &depth[1],
            &rows[2],
            &columns[2],
            &rows[3],
            &columns[3],
            &depth[2],
        ])?;
        let fragment = s.blockize(&rows[3])?;
        bind_blocks(s, batch, &rows[0], &columns[0])?;
        let warp = s.fuse(&[&rows[1], &columns[1]])?;
        s.bind(&warp, "threadIdx.y")?;
        Ok(Tile {
            block: columns[0].clone(),
            warp,
            outer_depth: depth[0].clone(),
            inner_depth: depth[1].clone(),
            fragment,
        })
    }
}

/// Shares a copy's last three loops out over the threads of the block.
fn cooperate(s: &Schedule, copy: &Block, vector: i64, knobs: &FragmentKnobs) -> Result<()> {
    let loops = s.loops(copy)?;
    let [.., batch, outer, inner] = &loops[..] else {
        return Err(unfit("a copy without loops"));
    };
    let row = s.extent(inner)?;
    let elements = s.extent(outer)? * row;
    let vector = even_vector(vector, row, elements, knobs.warps() * WARP);
    let fused = s.fuse(&[batch, outer, inner])?;
    let factors = [None, Some(knobs.warps()), Some(WARP), Some(vector)];
    let split = s.split(&fused, &factors)?;
    s.bind(&split[1], "threadIdx.y")?;
    s.bind(&split[2], "threadIdx.x")?;
    if vector > 1 {
        s.vectorize(&split[3])?;
    }
    Ok(())
}

/// Computes a block whose last two loops run over whole fragments by an intrinsic for each.
fn in_fragments(s: &Schedule, block: &Block, intrinsic: &str) -> Result<()> {
    let loops = s.loops(block)?;
    let [.., rows, columns] = &loops[..] else {
        return Err(unfit("fragments without loops"));
    };
    let (_, inner) = s.tile(&[(rows, FRAGMENT), (columns, FRAGMENT)])?;
    s.tensorize(&inner[0], intrinsic)
}

/// Computes what is inside a block of one fragment by an intrinsic.
fn whole_block(s: &Schedule, block: &Block, intrinsic: &str) -> Result<()> {
    let inside = s.blocks_in(block)?;
    let last = inside.last().ok_or_else(|| unfit("an empty fragment"))?;
    let loops = s.loops(last)?;
    let outermost = loops
        .first()
        .ok_or_else(|| unfit("a fragment without loops"))?;
    s.tensorize(outermost, intrinsic)
}
