//! The loop nest of a GPU kernel from the knobs of this project's own templates for products.
//!
//! Rows and columns are those of the template. Columns are along the output's last axis, so in a convolution in NCHW
//! they are pixels and rows are channels. In dense layers and matrix products both are the operator's own.

use crate::features::cuda::nest::{GpuNest, Loading, Template};
use crate::features::knobs::Knobs;
use crate::features::operator::{Class, Operator};
use crate::features::scale::ceil_div;

/// Maximum number of adjacent results of a thread; the rest is spread over virtual threads.
const SIDE_BY_SIDE: f64 = 4.0;
/// Rows and columns of a tensor core's fragment.
const FRAGMENT: f64 = 16.0;
/// Threads of a warp.
const WARP: f64 = 32.0;

/// The nest, if the knobs are those of a template for products.
pub(super) fn nest(o: &Operator, knobs: &Knobs) -> Option<GpuNest> {
    let number = |name: &str| knobs.number(name).filter(|n| *n >= 1.0);
    let (block_rows, block_columns) = (number("block_m")?, number("block_n")?);
    let stage = number("block_k")?;
    let [batch, m, n] = extents(o);
    let (template, own, threads_of_tile) = match knobs.template()? {
        "contraction" => (
            Template::Tiled,
            [number("thread_m")?, number("thread_n")?],
            1.0,
        ),
        "tensor_core" => (
            Template::Fragments,
            [number("warp_m")?, number("warp_n")?],
            WARP,
        ),
        _ => return None,
    };
    let tiles = [block_rows / own[0], block_columns / own[1]];
    let threads = tiles[0] * tiles[1] * threads_of_tile;
    let grid = [ceil_div(m, block_rows), ceil_div(n, block_columns)];
    let blocks = batch * grid[0] * grid[1];
    // Results of a thread, or of each thread of a warp.
    let accumulators = own[0] * own[1] / threads_of_tile;
    let inner = own.map(|extent| match template {
        Template::Fragments => FRAGMENT.min(extent),
        _ => largest_divisor(extent, SIDE_BY_SIDE),
    });
    let virtual_threads = [own[0] / inner[0], own[1] / inner[1]];
    let vector = number("vector").unwrap_or(1.0);
    let loading = |extent: f64| Loading {
        slots: ceil_div(extent * stage, threads),
        conflict: 1.0,
        run: vector,
    };
    Some(GpuNest {
        template,
        blocks,
        threads,
        threads_x: if template == Template::Fragments {
            WARP
        } else {
            threads
        },
        virtual_threads: virtual_threads[0] * virtual_threads[1],
        fragment_rows: own[0],
        fragment_columns: own[1],
        accumulators,
        inner_tile: inner[0] * inner[1],
        staged: (block_rows + block_columns) * stage,
        steps: ceil_div(o.depth, stage),
        depth_middle: 1.0,
        depth_inner: stage,
        thread_work: accumulators * o.depth,
        kernel_work: batch * m * n * o.depth,
        unroll_limit: knobs.number("unroll").unwrap_or(0.0),
        unroll_explicit: 0.0,
        block_rows,
        block_columns,
        padding_ratio: grid[0] * block_rows * grid[1] * block_columns / (m * n).max(1.0),
        first: loading(block_rows),
        second: loading(block_columns),
    })
}

/// Batch, rows and columns of the product; the images of a batch are side by side as pixels are.
fn extents(o: &Operator) -> [f64; 3] {
    match o.class {
        Class::Conv | Class::Depthwise => [1.0, o.columns, o.batch * o.rows],
        _ => [o.batch, o.rows, o.columns],
    }
}

/// The largest divisor of `extent` up to `most`.
fn largest_divisor(extent: f64, most: f64) -> f64 {
    let candidates = (1..=most as u32).rev().map(f64::from);
    candidates
        .into_iter()
        .find(|d| extent % d == 0.0)
        .unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conv_row, dense_row};

    const TILED: &str = r#"{"template":"contraction","block_m":64,"block_n":128,"block_k":8,"thread_m":4,"thread_n":8,"vector":4,"unroll":64,"stages":2}"#;

    fn nest_of(row: &opdata::Row) -> GpuNest {
        let knobs = Knobs::read(row.schedule_knobs.as_ref());
        nest(&Operator::of_row(row), &knobs).unwrap()
    }

    #[test]
    fn a_dense_layer_in_tiles_has_the_threads_and_blocks_that_are_launched() {
        // As `opcollect --target cuda --compile-only` counts them: 16 × 16 threads, 8 × 4 blocks.
        let nest = nest_of(&dense_row(512, 512, 256, TILED));
        assert_eq!((nest.threads, nest.blocks), (256.0, 32.0));
        assert_eq!((nest.accumulators, nest.steps), (32.0, 32.0));
        assert_eq!((nest.virtual_threads, nest.inner_tile), (2.0, 16.0));
        assert_eq!(nest.padding_ratio, 1.0);
    }

    #[test]
    fn a_convolution_has_channels_as_rows() {
        let nest = nest_of(&conv_row([1, 64, 56, 56], [64, 3, 1], TILED));
        assert_eq!(
            (nest.blocks, nest.threads),
            (25.0, 256.0),
            "3136 pixels in tiles of 128"
        );
        assert_eq!(nest.padding_ratio, 3200.0 / 3136.0);
    }

    #[test]
    fn tensor_cores_have_a_warp_for_each_tile() {
        let knobs = r#"{"template":"tensor_core","block_m":64,"block_n":64,"block_k":32,"warp_m":32,"warp_n":32,"vector":8,"unroll":64,"stages":2}"#;
        let nest = nest_of(&dense_row(128, 64, 64, knobs));
        assert_eq!(
            (nest.threads, nest.blocks, nest.accumulators),
            (128.0, 2.0, 32.0)
        );
    }
}
