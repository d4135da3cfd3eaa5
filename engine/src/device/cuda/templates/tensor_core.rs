//! Products of half precision on tensor cores.
//!
//! A block of threads computes a tile of the output in fragments of 16 × 16. The operands' tiles are copied into shared
//! memory as in [`super::contraction`]; warps load fragments from there and multiply them by `wmma` instructions. The sums
//! leave through shared memory, where the element-wise tail reads them.

use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, DType, Result, Schedule};

use super::contraction::{ceil, even_vector, pipeline, unroll_hint};
use super::limits::{DYNAMIC_SHARED_BYTES, Limits, WARP};
use super::parts::{inline_consumers, inline_producers};
use super::product::{CopyLayout, Extents, Product};
use super::{FragmentKnobs, fallback, limits};
use crate::schedule::unfit;

/// Rows, columns and depth of a fragment.
pub(super) const FRAGMENT: i64 = 16;
/// Elements between rows of a tile in shared memory beyond a multiple of the fragment, against bank conflicts.
const SKEW: i64 = 8;
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
    let knobs = default_knobs(extents, limits);
    apply(s, &product, &knobs)?;
    Ok(knobs)
}

/// The template with knobs of one's own.
pub(super) fn with_knobs(s: &Schedule, knobs: &FragmentKnobs) -> Result<FragmentKnobs> {
    let product = Product::find(s)?;
    apply(s, &product, knobs)?;
    Ok(*knobs)
}

/// Whether a product is of half precision throughout. One whose results are of single precision is not: TVM's passes put
/// the results on their way out into the operands' memory and then refuse the change of type.
pub(super) fn suits(product: &Product) -> bool {
    let half = Some(DType::Float16);
    product.operand_type() == half && product.output_type() == half
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

fn default_knobs(extents: Extents, limits: &Limits) -> FragmentKnobs {
    /// What loading an element costs, in products: more than on plain cores, which multiply more slowly.
    const LOAD: i64 = 48;
    let cost = |&(m, n, _, _): &(i64, i64, i64, i64)| {
        let blocks = extents.batch * ceil(extents.m, m) * ceil(extents.n, n);
        ceil(blocks, limits.multiprocessors) * (m * n + LOAD * (m + n))
    };
    let (block_m, block_n, warp_m, warp_n) = TILES.into_iter().min_by_key(cost).unwrap_or(TILES[3]);
    FragmentKnobs {
        block_m,
        block_n,
        block_k: if extents.k >= 32 { 32 } else { 16 },
        warp_m,
        warp_n,
        vector: 8,
        unroll: 64,
        stages: 2,
    }
}

/// Bytes of shared memory: the operands' tiles, and the results' on their way out.
fn shared_bytes(knobs: &FragmentKnobs) -> i64 {
    const HALF: i64 = 2;
    let spaced = |extent: i64| extent + FRAGMENT + SKEW;
    let tile_a = knobs.block_m * spaced(knobs.block_k);
    // Whichever way it lies.
    let tile_b = (knobs.block_n * spaced(knobs.block_k)).max(knobs.block_k * spaced(knobs.block_n));
    let results = knobs.block_m * spaced(knobs.block_n);
    HALF * (knobs.stages * (tile_a + tile_b)).max(results)
}

/// Why a tile is impossible.
///
/// # Errors
/// That is what it says.
pub(super) fn check(knobs: &FragmentKnobs) -> std::result::Result<(), String> {
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
    let bytes = shared_bytes(knobs);
    if bytes > DYNAMIC_SHARED_BYTES {
        return Err(format!(
            "{bytes} bytes of shared memory, more than {DYNAMIC_SHARED_BYTES}"
        ));
    }
    Ok(())
}

/// Names of the intrinsics.
struct Names {
    load: [String; 2],
    fill: &'static str,
    multiply: String,
    store: &'static str,
}

impl Names {
    /// For the second operand transposed or not, and factors in the order of the operands or not.
    fn of(transposed: bool, swapped: bool) -> Names {
        let transposed = if transposed { "_trans" } else { "" };
        let swapped = if swapped { "_swapped" } else { "" };
        Names {
            load: [
                "wmma_load_16x16x16_f16_a_shared_dyn".to_owned(),
                format!("wmma_load_16x16x16_f16_b{transposed}_shared_dyn"),
            ],
            fill: "wmma_fill_16x16x16_f16",
            multiply: format!("wmma_sync_16x16x16_f16f16f16{transposed}{swapped}"),
            store: "wmma_store_16x16x16_f16_shared_dyn",
        }
    }
}

fn apply(s: &Schedule, product: &Product, knobs: &FragmentKnobs) -> Result<()> {
    if !suits(product) {
        return Err(unfit("operands that are not of half precision"));
    }
    tvm_bridge::tensorize::register_cuda()?;
    check(knobs).map_err(|reason| unfit(&reason))?;
    let loads = [0, 1].map(|side| product.vector(side, knobs.vector));
    let transposed = loads[1].0 == CopyLayout::DepthInside;
    let layouts = [CopyLayout::DepthInside, loads[1].0];
    product.normalise(s, layouts)?;
    let names = Names::of(transposed, product.is_swapped());
    let tile = [1, knobs.block_m, knobs.block_n, knobs.block_k];
    s.pad_einsum(&product.block, &tile)?;
    let tile = Tile::split(s, &product.block, knobs)?;
    let copy_out = s.cache_write(&tile.fragment, 0, "shared.dyn")?;
    s.reverse_compute_at_with_unit_loops(&copy_out, &tile.block)?;
    let sums = s.cache_write(&tile.fragment, 0, "wmma.accumulator")?;
    s.reverse_compute_at_with_unit_loops(&sums, &tile.warp)?;
    let output = product.output_vector(knobs.vector);
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
    s.storage_align(&sums, 0, 1, FRAGMENT, SKEW)?;
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
    whole_block(s, &init, names.fill)?;
    whole_block(s, &tile.fragment, &names.multiply)?;
    if knobs.unroll > 0 {
        unroll_hint(s, &tile.warp, knobs.unroll)?;
    }
    if knobs.stages == 2 {
        pipeline(s, &tile.outer_depth, &copies)?;
    }
    Ok(())
}

/// The loops of a tile that others are placed at, and the block of one fragment.
struct Tile {
    block: Loop,
    warp: Loop,
    outer_depth: Loop,
    inner_depth: Loop,
    fragment: Block,
}

impl Tile {
    fn split(s: &Schedule, block: &Block, knobs: &FragmentKnobs) -> Result<Tile> {
        let loops = s.loops(block)?;
        let [batch, m, n, k] = &loops[..] else {
            return Err(unfit("a product that has not four loops"));
        };
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
        s.bind(batch, "blockIdx.z")?;
        s.bind(&rows[0], "blockIdx.y")?;
        s.bind(&columns[0], "blockIdx.x")?;
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
