//! The dimensions of an operator's template space, and putting their values into knobs.

use opmodels::tile::divisors;
use serde::{Deserialize, Serialize};
use tvm_bridge::{DType, PrimFunc, Result, Schedule};

use super::factors::*;
use super::knobs::{FragmentKnobs, TileKnobs};
use super::parts::OperatorBlocks;
use super::product::{Product, SPLITS, check_split};
use super::{Knobs, contraction, limits, reduction, rows, tensor_core, window};
use crate::schedule::{Dimension, Factor, FactorSettings, FactorValue};

/// The axes of a product that tiles have, as sweeps call them.
const M: &str = "m";
const N: &str = "n";
/// Thread-block sizes worth trying: every power of two, and multiples of a warp between them.
const BLOCK_SIZES: [i64; 16] = [
    1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024,
];
/// Unroll limits worth trying.
const UNROLLS: [i64; 5] = [0, 16, 64, 256, 2048];

/// The sizes that a combination is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shape {
    /// Size of an operand's elements and of a result, in bytes, and steps of the sum's outermost axis.
    Product {
        element: i64,
        result: i64,
        steps: i64,
    },
    /// Number of results in a row.
    Rows { row: i64 },
    /// Only the numbers of threads.
    Threads,
}

/// The knobs of `function`, whose default schedule is `base`, and the sizes that combinations are checked against.
///
/// # Errors
/// Fails if TVM does.
pub(super) fn dimensions(function: &PrimFunc, base: &Knobs) -> Result<(Shape, Vec<Dimension>)> {
    let s = Schedule::new(function, 0)?;
    Ok(match base {
        Knobs::Contraction(k) => {
            let shape = product_shape(&s)?;
            (shape, of_contraction(k, shape))
        }
        Knobs::TensorCore(k) => {
            let shape = product_shape(&s)?;
            (shape, of_tensor_cores(k, shape))
        }
        Knobs::Reduction(k) => {
            let parts = OperatorBlocks::inlined(&s)?;
            let row = reduction::row(&parts.anchor()?.info);
            let own = divisors(row).filter(|d| *d <= 64);
            let dimensions = vec![
                block_size(k.block_size),
                numbers(RESULTS, own, k.results),
                vector(&[1, 2, 4], k.vector),
                unroll(k.unroll),
            ];
            (Shape::Rows { row }, dimensions)
        }
        Knobs::Rows(k) => {
            rows::extents(&OperatorBlocks::inlined(&s)?)?;
            (
                Shape::Threads,
                vec![block_size(k.block_size), unroll(k.unroll)],
            )
        }
        Knobs::Window(k) => {
            let row = reduction::row(&OperatorBlocks::inlined(&s)?.anchor()?.info);
            let tiles = [1, 2, 4, 8].into_iter().filter(|t| row % t == 0);
            let dimensions = vec![
                block_size(k.block_size),
                numbers(THREAD_TILE, tiles, k.thread_tile),
                unroll(k.unroll),
            ];
            (Shape::Rows { row }, dimensions)
        }
        Knobs::Fallback(k) => {
            let dimensions = vec![block_size(k.block_size), vector(&[1, 2, 4, 8], k.vector)];
            (Shape::Threads, dimensions)
        }
    })
}

/// The dimensions of a product on the plain cores.
fn of_contraction(k: &TileKnobs, shape: Shape) -> Vec<Dimension> {
    let tiles = [8, 16, 32, 64, 128, 256];
    let threads = [1, 2, 4, 8, 16];
    vec![
        numbers(BLOCK_TILE, tiles, k.block_m).of_axis(M),
        numbers(BLOCK_TILE, tiles, k.block_n).of_axis(N),
        numbers(THREAD_TILE, threads, k.thread_m).of_axis(M),
        numbers(THREAD_TILE, threads, k.thread_n).of_axis(N),
        numbers(REDUCTION_TILE, [4, 8, 16, 32], k.block_k),
        vector(&[1, 2, 4], k.vector),
        unroll(k.unroll),
        stages(k.stages),
        split(k.split, shape),
    ]
}

/// The dimensions of a product on tensor cores.
fn of_tensor_cores(k: &FragmentKnobs, shape: Shape) -> Vec<Dimension> {
    let tiles = [16, 32, 64, 128, 256];
    let warps = [16, 32, 64];
    vec![
        numbers(BLOCK_TILE, tiles, k.block_m).of_axis(M),
        numbers(BLOCK_TILE, tiles, k.block_n).of_axis(N),
        numbers(WARP_TILE, warps, k.warp_m).of_axis(M),
        numbers(WARP_TILE, warps, k.warp_n).of_axis(N),
        numbers(REDUCTION_TILE, [16, 32, 64], k.block_k),
        vector(&[1, 2, 4, 8], k.vector),
        unroll(k.unroll),
        stages(k.stages),
        split(k.split, shape),
    ]
}

fn block_size(own: i64) -> Dimension {
    numbers(BLOCK_SIZE, BLOCK_SIZES, own)
}

fn vector(values: &[i64], own: i64) -> Dimension {
    numbers(VECTOR_WIDTH, values.iter().copied(), own)
}

fn unroll(own: i64) -> Dimension {
    numbers(UNROLL, UNROLLS, own)
}

fn stages(own: i64) -> Dimension {
    numbers(STAGES, [1, 2, 3, 4], own)
}

/// The number of blocks that may share a sum.
fn split(own: i64, shape: Shape) -> Dimension {
    let parts = SPLITS.into_iter().filter(|p| match shape {
        Shape::Product { steps, .. } => check_split(*p, steps).is_ok(),
        _ => false,
    });
    numbers(REDUCTION_SPLIT, parts, own)
}

fn product_shape(s: &Schedule) -> Result<Shape> {
    let product = Product::find(s)?;
    let bytes = |dtype: Option<DType>| dtype.map_or(4, |t| t.bytes() as i64);
    Ok(Shape::Product {
        element: bytes(product.operand_type()),
        result: bytes(product.output_type()),
        steps: product.steps(),
    })
}

fn numbers(name: &'static str, values: impl IntoIterator<Item = i64>, base: i64) -> Dimension {
    Dimension::numbers(Factor::named(name), values, base)
}

/// The schedule `base` with these settings.
///
/// # Errors
/// Fails if the combination is impossible, and says why.
pub(super) fn combine(
    base: &Knobs,
    shape: Shape,
    settings: &FactorSettings<'_>,
) -> std::result::Result<Knobs, String> {
    let mut knobs = *base;
    for (dimension, setting) in settings {
        let wrong = || format!("{} cannot be {setting}", dimension.name());
        let FactorValue::Number(number) = setting else {
            return Err(wrong());
        };
        *place(&mut knobs, dimension).ok_or_else(wrong)? = *number;
    }
    match (&knobs, shape) {
        (Knobs::Contraction(k), Shape::Product { element, steps, .. }) => {
            contraction::check(k, element, steps)?;
        }
        (Knobs::TensorCore(k), Shape::Product { result, steps, .. }) => {
            tensor_core::check(k, result, steps)?;
        }
        (Knobs::Reduction(k), Shape::Rows { row }) => reduction::check(k, row)?,
        (Knobs::Rows(k), _) => limits::check_threads(k.block_size)?,
        (Knobs::Window(k), Shape::Rows { row }) => window::check(k, row)?,
        (Knobs::Fallback(k), _) => limits::check_threads(k.block_size)?,
        _ => return Err("knobs of another operator".to_owned()),
    }
    Ok(knobs)
}

/// The knob that a dimension sets.
fn place<'a>(knobs: &'a mut Knobs, dimension: &Dimension) -> Option<&'a mut i64> {
    let axis = dimension.axis.as_deref();
    Some(match (knobs, dimension.factor.name(), axis) {
        (Knobs::Contraction(k), BLOCK_TILE, Some(M)) => &mut k.block_m,
        (Knobs::Contraction(k), BLOCK_TILE, Some(N)) => &mut k.block_n,
        (Knobs::Contraction(k), THREAD_TILE, Some(M)) => &mut k.thread_m,
        (Knobs::Contraction(k), THREAD_TILE, Some(N)) => &mut k.thread_n,
        (Knobs::Contraction(k), REDUCTION_TILE, None) => &mut k.block_k,
        (Knobs::Contraction(k), VECTOR_WIDTH, None) => &mut k.vector,
        (Knobs::Contraction(k), UNROLL, None) => &mut k.unroll,
        (Knobs::Contraction(k), STAGES, None) => &mut k.stages,
        (Knobs::Contraction(k), REDUCTION_SPLIT, None) => &mut k.split,
        (Knobs::TensorCore(k), BLOCK_TILE, Some(M)) => &mut k.block_m,
        (Knobs::TensorCore(k), BLOCK_TILE, Some(N)) => &mut k.block_n,
        (Knobs::TensorCore(k), WARP_TILE, Some(M)) => &mut k.warp_m,
        (Knobs::TensorCore(k), WARP_TILE, Some(N)) => &mut k.warp_n,
        (Knobs::TensorCore(k), REDUCTION_TILE, None) => &mut k.block_k,
        (Knobs::TensorCore(k), VECTOR_WIDTH, None) => &mut k.vector,
        (Knobs::TensorCore(k), UNROLL, None) => &mut k.unroll,
        (Knobs::TensorCore(k), STAGES, None) => &mut k.stages,
        (Knobs::TensorCore(k), REDUCTION_SPLIT, None) => &mut k.split,
        (Knobs::Reduction(k), BLOCK_SIZE, None) => &mut k.block_size,
        (Knobs::Reduction(k), RESULTS, None) => &mut k.results,
        (Knobs::Reduction(k), VECTOR_WIDTH, None) => &mut k.vector,
        (Knobs::Reduction(k), UNROLL, None) => &mut k.unroll,
        (Knobs::Rows(k), BLOCK_SIZE, None) => &mut k.block_size,
        (Knobs::Rows(k), UNROLL, None) => &mut k.unroll,
        (Knobs::Window(k), BLOCK_SIZE, None) => &mut k.block_size,
        (Knobs::Window(k), THREAD_TILE, None) => &mut k.thread_tile,
        (Knobs::Window(k), UNROLL, None) => &mut k.unroll,
        (Knobs::Fallback(k), BLOCK_SIZE, None) => &mut k.block_size,
        (Knobs::Fallback(k), VECTOR_WIDTH, None) => &mut k.vector,
        _ => return None,
    })
}
