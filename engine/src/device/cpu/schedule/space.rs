//! The dimensions of an operator's template space: which factors its schedule has, and the values worth trying.

use opmodels::tile::{VectorUnit, divisors};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::{BlockInfo, PrimFunc, Result, Schedule};

use super::combine::{Axis, Shape, outer_iterations};
use super::factors::*;
use super::knobs::vector_axis;
use super::{
    Algorithm, CacheWrite, ContractionKnobs, Epilogue, Knobs, LevelOrder, Padding, algorithm,
    contraction, partial, rows, spatial,
};
use crate::schedule::{Dimension, Factor, FactorValue};

/// Longest vector offered, in registers.
const MAX_REGISTERS: i64 = 4;
/// Largest register tile and cache tile offered along one axis.
const MAX_TILE: i64 = 16;
const MAX_CACHE_TILE: i64 = 32;
/// Largest inner reduction tile offered.
const MAX_REDUCTION_TILE: i64 = 128;

/// The knobs of `function`, whose default schedule is `base`, and the sizes that combinations are checked against.
///
/// # Errors
/// Fails if TVM does.
pub(super) fn dimensions(
    function: &PrimFunc,
    unit: VectorUnit,
    base: &Knobs,
) -> Result<(Shape, Vec<Dimension>)> {
    let s = Schedule::new(function, 0)?;
    Ok(match base {
        Knobs::Contraction(knobs) => {
            let (parts, anchor) = contraction::anchored(&s)?;
            let extras = Extras {
                has_tail: parts.tail.is_some(),
                has_padding: !parts.paddings.is_empty(),
            };
            let (shape, mut dimensions) = contraction_dimensions(&anchor.info, knobs, unit, extras);
            match algorithm::convolution(function)? {
                Some(of) => {
                    let algorithms = of.algorithms();
                    dimensions.push(words(ALGORITHM, &algorithms, Algorithm::word));
                    let of = Shape::Convolution {
                        of,
                        direct: Box::new(shape),
                        knobs: Box::new(knobs.clone()),
                        registers: unit,
                    };
                    (of, dimensions)
                }
                None => (shape, dimensions),
            }
        }
        Knobs::Rows(knobs) => {
            let rows = rows::count(&s, unit.lanes())?;
            let mut lengths = numbers(VECTOR_LENGTH, [1, 2, 4, 8, 16], knobs.vector_length);
            lengths
                .values
                .retain(|v| *v <= FactorValue::Number(unit.lanes()));
            let extents = numbers(PARALLEL_EXTENT, parallel_extents(rows), 0);
            (Shape::Rows { rows }, vec![lengths, extents])
        }
        Knobs::Partial(knobs) => {
            let extents = numbers(PARALLEL_EXTENT, [1, 2, 4, 8, 16, 32], knobs.parallel_extent);
            let lanes = [1, 2, 4].map(|registers| registers * unit.lanes());
            let lengths = numbers(VECTOR_LENGTH, lanes, knobs.vector_length);
            let elements = partial::elements(&s)?;
            (Shape::Partial { elements }, vec![lengths, extents])
        }
        Knobs::Dot(_) | Knobs::Convolution(_) => (Shape::Fixed, Vec::new()),
        Knobs::Spatial(knobs) => match spatial::extents(&s, unit)? {
            Some((inner, total)) => spatial_dimensions(inner, total, *knobs, unit),
            None => (Shape::Fixed, Vec::new()),
        },
    })
}

/// The blocks of an operator around its reduction.
#[derive(Clone, Copy)]
struct Extras {
    has_tail: bool,
    has_padding: bool,
}

fn contraction_dimensions(
    info: &BlockInfo,
    base: &ContractionKnobs,
    unit: VectorUnit,
    extras: Extras,
) -> (Shape, Vec<Dimension>) {
    let axes: Vec<Axis> = info
        .iters
        .iter()
        .map(|iter| Axis {
            name: iter.name.clone(),
            extent: iter.extent,
            reduction: iter.kind == IterKind::Reduction,
        })
        .collect();
    let lanes = unit.lanes();
    let mut dimensions = Vec::new();
    for axis in axes.iter().filter(|a| a.extent > 1) {
        if axis.reduction {
            let inner = divisors(axis.extent).filter(|&d| d > 1 && d <= MAX_REDUCTION_TILE);
            let own = base.reduction_tile_of(&axis.name, axis.extent);
            dimensions.push(numbers(REDUCTION_TILE, inner, own).of_axis(&axis.name));
            continue;
        }
        if base.vector_axis.as_ref() != Some(&axis.name) {
            // Uneven tiles leave a rest behind, which a few sizes are worth.
            let uneven = [4, 6, 8, 12].into_iter().filter(|&t| t < axis.extent);
            let tiles = divisors(axis.extent)
                .filter(|&d| d <= MAX_TILE)
                .chain(uneven);
            let own = base.tile_of(&axis.name);
            dimensions.push(numbers(TILE, tiles, own).of_axis(&axis.name));
        }
        let cache = divisors(axis.extent).filter(|&d| d <= MAX_CACHE_TILE);
        dimensions.push(numbers(CACHE_TILE, cache, 1).of_axis(&axis.name));
    }
    if let Some(vector) = vector_axis(info) {
        let extent = info.iters[vector.iter].extent;
        let lengths = divisors(vector.packed.unwrap_or(extent))
            .filter(|&d| d <= lanes || (d % lanes == 0 && d <= MAX_REGISTERS * lanes));
        dimensions.push(numbers(VECTOR_LENGTH, lengths, base.vector_length));
        dimensions.push(numbers(
            VECTOR_BLOCKS,
            [1, 2, 3, 4, 6, 8],
            base.vector_blocks,
        ));
    }
    dimensions.push(Dimension {
        factor: Factor::named(LOOP_ORDER),
        axis: None,
        values: loop_orders(base, &axes),
    });
    dimensions.push(words(LEVEL_ORDER, LevelOrder::ALL, LevelOrder::word));
    let spatial = base.loop_order.len() as i64;
    dimensions.push(numbers(FUSE, 1..=spatial, base.fused_outer as i64));
    let iterations = axes
        .iter()
        .filter(|a| !a.reduction)
        .map(|axis| outer_iterations(base, axis))
        .product();
    dimensions.push(numbers(PARALLEL_EXTENT, parallel_extents(iterations), 0));
    dimensions.push(numbers(UNROLL, [0, 2, 4, 9, 16, 32], base.unroll));
    // Without a tail and without accumulators of its own, a schedule has nothing to place.
    dimensions.push(words(COMPUTE_AT, Epilogue::ALL, Epilogue::word));
    if !extras.has_tail {
        dimensions.retain(|d| d.factor.name() != COMPUTE_AT);
    }
    if extras.has_padding || base.padding == Padding::Near {
        let mut padding = words(PADDING, Padding::ALL, Padding::word);
        if base.padding != Padding::Near {
            let near = FactorValue::Word(Padding::Near.word().to_owned());
            padding.values.retain(|v| *v != near);
        }
        dimensions.push(padding);
    }
    dimensions.push(words(CACHE_WRITE, CacheWrite::ALL, CacheWrite::word));
    (Shape::Contraction { axes, lanes }, dimensions)
}

/// Orders that make sense: the base's, the operator's own, and the vector axis outermost or innermost.
fn loop_orders(base: &ContractionKnobs, axes: &[Axis]) -> Vec<FactorValue> {
    let natural: Vec<String> = axes
        .iter()
        .filter(|a| base.loop_order.contains(&a.name))
        .map(|a| a.name.clone())
        .collect();
    let mut orders = vec![base.loop_order.clone(), natural.clone()];
    if let Some(vector) = &base.vector_axis {
        let others: Vec<String> = natural.iter().filter(|n| *n != vector).cloned().collect();
        orders.push(
            std::iter::once(vector.clone())
                .chain(others.clone())
                .collect(),
        );
        orders.push(others.iter().cloned().chain([vector.clone()]).collect());
        orders.push(
            others
                .iter()
                .rev()
                .cloned()
                .chain([vector.clone()])
                .collect(),
        );
    } else {
        orders.push(natural.iter().rev().cloned().collect());
    }
    let mut distinct: Vec<FactorValue> = Vec::new();
    for order in orders.into_iter().map(FactorValue::Order) {
        if !distinct.contains(&order) {
            distinct.push(order);
        }
    }
    distinct
}

fn spatial_dimensions(
    inner: i64,
    total: i64,
    base: super::SpatialKnobs,
    unit: VectorUnit,
) -> (Shape, Vec<Dimension>) {
    let lanes = unit.lanes();
    let lengths =
        divisors(inner).filter(|&d| d <= lanes || (d % lanes == 0 && d <= MAX_REGISTERS * lanes));
    let dimensions = vec![
        numbers(VECTOR_LENGTH, lengths, base.vector_length),
        numbers(UNROLL, [1, 2, 4, 8], base.unroll),
        numbers(
            PARALLEL_EXTENT,
            parallel_extents(total / base.vector_length.max(1)),
            0,
        ),
    ];
    (Shape::Spatial { inner, total }, dimensions)
}

/// Numbers of pieces worth trying for a loop of `iterations`; 0 is one piece an iteration.
fn parallel_extents(iterations: i64) -> impl Iterator<Item = i64> {
    std::iter::once(0)
        .chain(divisors(iterations.min(256)).filter(move |d| iterations % d == 0))
        .chain((1..=8).map(|p| 1 << p))
        .filter(move |&p| p == 0 || (p < iterations && iterations % p == 0))
}

fn numbers(name: &'static str, values: impl IntoIterator<Item = i64>, base: i64) -> Dimension {
    Dimension::numbers(Factor::named(name), values, base)
}

fn words<T: Copy>(name: &'static str, all: &[T], word: fn(T) -> &'static str) -> Dimension {
    Dimension::words(Factor::named(name), all.iter().map(|&v| word(v)))
}
