//! The loop nest of this project's own CPU kernels: register-tiled reductions, and products of convolutions by another
//! algorithm than the direct one.

use opdata::{Loop, LoopKind, Row};

use crate::features::cpu::nest::{CpuNest, Product, RegisterTile, Template};
use crate::features::cpu::tile_axes::{count, inner_steps};
use crate::features::knobs::Knobs;
use crate::features::operator::Operator;
use crate::features::scale::ceil_div;

/// A register-tiled reduction of this project: `tile` names axes, the vector axis has `vector_blocks` vectors.
pub(super) fn tiled(o: &Operator, row: &Row, knobs: &Knobs) -> Option<CpuNest> {
    let knobs = knobs.contraction()?;
    let tile = RegisterTile {
        vector: count(knobs.vector_length),
        blocks: count(knobs.vector_blocks),
        broadcast: knobs.tile.iter().map(|(_, n)| *n as f64).product(),
    };
    let nest = tile.nest(o);
    let loops = |kind: LoopKind| {
        let all = row.loop_nest.iter().flat_map(|nest| &nest.0);
        all.filter(move |l| l.kind == kind)
    };
    // A tile that does not divide its axis is computed as a whole where the axis ends.
    let along = |l: &Loop| ceil_div(l.extent as f64, count(knobs.tile_of(l.name())));
    let tiles = match loops(LoopKind::Spatial).count() {
        0 => nest.parallel,
        _ => loops(LoopKind::Spatial).map(along).product(),
    };
    let inner = |l: &Loop| inner_steps(l, knobs) as f64;
    let depth_tile = match loops(LoopKind::Reduction).count() {
        0 => o.depth,
        _ => loops(LoopKind::Reduction).map(inner).product(),
    };
    // Without a number of pieces, every tile may be a piece of its own.
    let parallel = knobs.parallel_extent.map_or(tiles, count);
    Some(CpuNest {
        task_work: nest.task_work * tiles / parallel,
        tiles: tiles / parallel,
        parallel,
        unroll: knobs.unroll.max(0) as f64,
        depth_tile,
        depth_outer: o.depth / depth_tile,
        ..nest
    })
}

/// A convolution of 1×1 windows with vectors of `lanes` pixels, `blocks` of them beside `width` output channels.
pub(super) fn along_pixels(o: &Operator, width: f64, blocks: f64, lanes: f64) -> CpuNest {
    let tiles = ceil_div(o.columns, width);
    let groups = ceil_div(o.batch * o.out_height * o.out_width, lanes * blocks);
    let product = Product {
        rows: [tiles, 1.0, width],
        columns: [groups, blocks, lanes],
        depth: [1.0, o.depth],
    };
    CpuNest {
        parallel: groups * tiles,
        ..product.nest(o, Template::PackedDense)
    }
}

/// The nest of a convolution that this project computes by a product: that between Winograd's transforms, that of all
/// windows (im2col), or that of the pixels themselves ([`along_pixels`]).
pub(super) fn by_products(o: &Operator, knobs: &Knobs) -> Option<CpuNest> {
    /// Output channels in a vector, as the importer packs weights.
    const LANES: f64 = 16.0;
    let algorithm = knobs.value("algorithm")?.as_str()?;
    let outputs = match algorithm {
        "winograd2" => Some(2.0),
        "winograd4" => Some(4.0),
        _ => None,
    };
    let along = |extent: f64| outputs.map_or(extent, |outputs| ceil_div(extent, outputs));
    let places = outputs.map_or(1.0, |outputs| (outputs + o.kernel_height - 1.0).powi(2));
    let pixels = o.batch * along(o.out_height) * along(o.out_width);
    let (width, blocks) = (knobs.number("columns")?, knobs.number("vector_blocks")?);
    if algorithm == "pixels" {
        return Some(along_pixels(o, width, blocks, LANES));
    }
    let tiles = ceil_div(pixels, width);
    let groups = ceil_div(o.columns, LANES * blocks);
    let product = Product {
        rows: [tiles, 1.0, width],
        columns: [groups, blocks, LANES],
        depth: [1.0, outputs.map_or(o.depth, |_| o.in_channels)],
    };
    let template = outputs.map_or(Template::PackedDense, |_| Template::Winograd);
    Some(CpuNest {
        parallel: places * groups * tiles,
        ..product.nest(o, template)
    })
}
