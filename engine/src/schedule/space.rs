//! The template space of an operator: which factors its schedule has, the values each can take, and which
//! combinations are worth compiling.
//!
//! A [`Space`] is plain data. It is made where the operator's TensorIR is at hand ([`Space::of`]) and sampled where the
//! plan is ([`crate::sweep`]). Values are listed axis by axis and on their own; a combination is refused by
//! [`Space::choice`] if it does not divide the loops, or would unroll more than [`MAX_UNROLLED`] statements, which costs
//! LLVM more than the kernel is worth.

use opmodels::tile::{divisors, pieces};
use serde::{Deserialize, Serialize};
use tvm_bridge::inspect::IterKind;
use tvm_bridge::{BlockInfo, PrimFunc, Schedule};

use super::factor::{Factor, FactorValue};
use super::knobs::vector_axis;
use super::{CacheWrite, ContractionKnobs, Epilogue, LevelOrder, Padding};
use super::{Choice, VectorUnit, contraction, default_schedule, rows, spatial};

/// Most vector operations that a tile may unroll into.
pub const MAX_UNROLLED: i64 = 64;
/// Longest vector offered, in registers.
const MAX_REGISTERS: i64 = 4;
/// Largest register tile and cache tile offered along one axis.
const MAX_TILE: i64 = 16;
const MAX_CACHE_TILE: i64 = 32;
/// Largest inner reduction tile offered.
const MAX_REDUCTION_TILE: i64 = 128;

/// What can be varied of an operator's schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// The default schedule: the value of every factor that is not varied.
    pub base: Choice,
    /// The factors with their values; each dimension contains the base's own value.
    pub dimensions: Vec<Dimension>,
    shape: Shape,
}

/// A factor, for one axis if it is one of axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    /// The factor.
    pub factor: Factor,
    /// The axis.
    pub axis: Option<String>,
    /// Its values.
    pub values: Vec<FactorValue>,
}

impl Dimension {
    /// Its name: the factor, and the axis behind a dot.
    pub fn name(&self) -> String {
        match &self.axis {
            Some(axis) => format!("{}.{axis}", self.factor.name()),
            None => self.factor.name().to_owned(),
        }
    }
}

/// What a combination is checked against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
enum Shape {
    Contraction { axes: Vec<Axis>, lanes: i64 },
    Rows { rows: i64 },
    Spatial { inner: i64, total: i64 },
    Fixed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Axis {
    name: String,
    extent: i64,
    reduction: bool,
}

impl Space {
    /// The space of `function` on `unit`.
    ///
    /// # Errors
    /// TVM's.
    pub fn of(function: &PrimFunc, unit: VectorUnit) -> tvm_bridge::Result<Space> {
        let base = default_schedule(function, unit, 0)?.choice;
        let fresh = || Schedule::new(function, 0);
        let (shape, dimensions) = match &base {
            Choice::Contraction(knobs) => {
                let s = fresh()?;
                let (parts, anchor) = contraction::anchored(&s)?;
                let extras = Extras {
                    has_tail: parts.tail.is_some(),
                    has_padding: !parts.paddings.is_empty(),
                };
                contraction_dimensions(&anchor.info, knobs, unit, extras)
            }
            Choice::Rows(knobs) => {
                let rows = rows::count(&fresh()?)?;
                let mut dimensions = vec![
                    numbers(Factor::VectorLength, [1, 2, 4, 8, 16], knobs.vector_length),
                    numbers(Factor::ParallelExtent, parallel_extents(rows), 0),
                ];
                dimensions[0]
                    .values
                    .retain(|v| *v <= FactorValue::Number(unit.lanes()));
                (Shape::Rows { rows }, dimensions)
            }
            Choice::Spatial(knobs) => match spatial::extents(&fresh()?, unit)? {
                Some((inner, total)) => spatial_dimensions(inner, total, *knobs, unit),
                None => (Shape::Fixed, Vec::new()),
            },
            Choice::Unscheduled | Choice::Sampled(_) | Choice::Recorded => {
                (Shape::Fixed, Vec::new())
            }
        };
        let dimensions = dimensions
            .into_iter()
            .filter(|d| d.values.len() > 1)
            .collect();
        Ok(Space {
            base,
            dimensions,
            shape,
        })
    }

    /// The space of one schedule, for sweeps that draw from another.
    pub fn fixed() -> Space {
        Space {
            base: Choice::Unscheduled,
            dimensions: Vec::new(),
            shape: Shape::Fixed,
        }
    }

    /// The schedule with these settings, by number of dimension and of value; the rest as in the base. The result is
    /// in normal form: settings without effect are left out, so that equal schedules are equal choices.
    ///
    /// # Errors
    /// Why the combination is impossible or not worth compiling.
    pub fn choice(&self, settings: &[(usize, &FactorValue)]) -> Result<Choice, String> {
        let mut choice = self.base.clone();
        for &(dimension, setting) in settings {
            let dimension = self
                .dimensions
                .get(dimension)
                .ok_or("there is no such dimension")?;
            set(&mut choice, dimension, setting)?;
        }
        match (&mut choice, &self.shape) {
            (Choice::Contraction(knobs), Shape::Contraction { axes, lanes }) => {
                let base = match &self.base {
                    Choice::Contraction(base) => base,
                    _ => return Err("the base is of another kind".to_owned()),
                };
                normalise(knobs, base, axes)?;
                check(knobs, axes, *lanes)?;
            }
            (Choice::Rows(knobs), Shape::Rows { rows }) => {
                knobs.parallel_extent = dealt(knobs.parallel_extent, *rows)?;
            }
            (Choice::Spatial(knobs), Shape::Spatial { inner, total }) => {
                let step = knobs.vector_length * knobs.unroll;
                if inner % step != 0 {
                    return Err(format!(
                        "{step} elements a step do not divide a loop of {inner}"
                    ));
                }
                knobs.parallel_extent = dealt(knobs.parallel_extent, total / step)?;
            }
            _ => {}
        }
        Ok(choice)
    }

    /// Number of combinations, the impossible ones included.
    pub fn size(&self) -> f64 {
        self.dimensions
            .iter()
            .map(|d| d.values.len() as f64)
            .product()
    }
}

/// A parallel extent that divides `iterations`; none if it is no fewer pieces than there are.
fn dealt(extent: Option<i64>, iterations: i64) -> Result<Option<i64>, String> {
    match extent {
        Some(pieces) if pieces < iterations && iterations % pieces != 0 => Err(format!(
            "{pieces} pieces do not divide {iterations} iterations"
        )),
        Some(pieces) if pieces < iterations => Ok(Some(pieces)),
        _ => Ok(None),
    }
}

fn set(choice: &mut Choice, dimension: &Dimension, setting: &FactorValue) -> Result<(), String> {
    let wrong = || format!("{} cannot be {setting}", dimension.name());
    let number = || match setting {
        FactorValue::Number(n) => Ok(*n),
        _ => Err(wrong()),
    };
    let pieces = || number().map(|n| (n > 0).then_some(n));
    fn word<T: Copy>(all: &[T], of: fn(T) -> &'static str, setting: &FactorValue) -> Option<T> {
        let FactorValue::Word(word) = setting else {
            return None;
        };
        all.iter().copied().find(|v| of(*v) == word)
    }
    let put = |values: &mut Vec<(String, i64)>| -> Result<(), String> {
        let axis = dimension.axis.clone().ok_or_else(wrong)?;
        values.retain(|(name, _)| *name != axis);
        values.push((axis, number()?));
        Ok(())
    };
    match (choice, dimension.factor) {
        (Choice::Contraction(k), Factor::Tile) => put(&mut k.tile)?,
        (Choice::Contraction(k), Factor::CacheTile) => put(&mut k.cache_tile)?,
        (Choice::Contraction(k), Factor::ReductionTile) => put(&mut k.reduction_tile)?,
        (Choice::Contraction(k), Factor::VectorLength) => k.vector_length = number()?,
        (Choice::Contraction(k), Factor::VectorBlocks) => k.vector_blocks = number()?,
        (Choice::Contraction(k), Factor::LoopOrder) => match setting {
            FactorValue::Order(axes) => k.loop_order = axes.clone(),
            _ => return Err(wrong()),
        },
        (Choice::Contraction(k), Factor::Fuse) => {
            k.fused_outer = usize::try_from(number()?).map_err(|_| wrong())?;
        }
        (Choice::Contraction(k), Factor::ParallelExtent) => k.parallel_extent = pieces()?,
        (Choice::Contraction(k), Factor::Unroll) => k.unroll = number()?,
        (Choice::Contraction(k), Factor::LevelOrder) => {
            k.level_order = word(LevelOrder::ALL, LevelOrder::word, setting).ok_or_else(wrong)?;
        }
        (Choice::Contraction(k), Factor::ComputeAt) => {
            k.epilogue = word(Epilogue::ALL, Epilogue::word, setting).ok_or_else(wrong)?;
        }
        (Choice::Contraction(k), Factor::Padding) => {
            k.padding = word(Padding::ALL, Padding::word, setting).ok_or_else(wrong)?;
        }
        (Choice::Contraction(k), Factor::CacheWrite) => {
            k.cache_write = word(CacheWrite::ALL, CacheWrite::word, setting).ok_or_else(wrong)?;
        }
        (Choice::Rows(k), Factor::VectorLength) => k.vector_length = number()?,
        (Choice::Rows(k), Factor::ParallelExtent) => k.parallel_extent = pieces()?,
        (Choice::Spatial(k), Factor::VectorLength) => k.vector_length = number()?,
        (Choice::Spatial(k), Factor::Unroll) => k.unroll = number()?,
        (Choice::Spatial(k), Factor::ParallelExtent) => k.parallel_extent = pieces()?,
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Iterations of an outer loop of `axis`.
fn outer_iterations(knobs: &ContractionKnobs, axis: &Axis) -> i64 {
    pieces(
        axis.extent,
        knobs.tile_of(&axis.name) * knobs.cache_tile_of(&axis.name),
    )
}

fn normalise(
    knobs: &mut ContractionKnobs,
    base: &ContractionKnobs,
    axes: &[Axis],
) -> Result<(), String> {
    let extent = |name: &str| axes.iter().find(|a| a.name == name).map_or(1, |a| a.extent);
    let place = |name: &str| axes.iter().position(|a| a.name == name);
    knobs.tile.retain(|(_, tile)| *tile > 1);
    knobs.cache_tile.retain(|(_, tile)| *tile > 1);
    knobs
        .reduction_tile
        .retain(|(name, tile)| *tile < extent(name));
    for list in [
        &mut knobs.tile,
        &mut knobs.cache_tile,
        &mut knobs.reduction_tile,
    ] {
        list.sort_by_key(|(name, _)| place(name));
    }
    if knobs.cache_tile.is_empty() || knobs.reduction_tile.is_empty() {
        knobs.level_order = LevelOrder::TilesOutside;
    }
    if knobs.padding == Padding::Near && base.padding == Padding::Near {
        if knobs.loop_order != base.loop_order {
            return Err(
                "a padding is filled near its use in one order of the loops alone".to_owned(),
            );
        }
        // The filling decides how many loops are around it.
        knobs.fused_outer = base.fused_outer;
    }
    knobs.fused_outer = knobs.fused_outer.clamp(1, knobs.loop_order.len().max(1));
    let iterations = knobs.loop_order[..knobs.fused_outer.min(knobs.loop_order.len())]
        .iter()
        .filter_map(|name| axes.iter().find(|a| a.name == *name))
        .map(|axis| outer_iterations(knobs, axis))
        .product();
    knobs.parallel_extent = dealt(knobs.parallel_extent, iterations)?;
    knobs.unroll = unrolled_steps(knobs, axes);
    Ok(())
}

/// Steps that are unrolled indeed: whole inner loops, as many as fit.
fn unrolled_steps(knobs: &ContractionKnobs, axes: &[Axis]) -> i64 {
    let mut steps = 1;
    for axis in axes.iter().rev().filter(|a| a.reduction) {
        let next = steps * knobs.reduction_tile_of(&axis.name, axis.extent);
        if next > knobs.unroll {
            break;
        }
        steps = next;
    }
    if steps > 1 { steps } else { 0 }
}

fn check(knobs: &ContractionKnobs, axes: &[Axis], lanes: i64) -> Result<(), String> {
    let mut tiles = 1;
    for (place, name) in knobs.loop_order.iter().enumerate() {
        let Some(axis) = axes.iter().find(|a| a.name == *name) else {
            return Err(format!("there is no axis {name}"));
        };
        let (tile, cache) = (knobs.tile_of(name), knobs.cache_tile_of(name));
        let even = axis.extent % (tile * cache) == 0;
        if tile > axis.extent {
            return Err(format!("a tile of {tile} on an axis of {}", axis.extent));
        }
        if !even && cache > 1 {
            return Err(format!("{cache} tiles of {tile} do not divide {name}"));
        }
        if !even
            && (place < knobs.fused_outer
                || knobs.vector_blocks > 1 && knobs.vector_axis.as_ref() == Some(name))
        {
            return Err(format!(
                "a tile of {tile} does not divide {name}, which is fused or in blocks"
            ));
        }
        if knobs.vector_axis.as_ref() != Some(name) {
            tiles *= tile;
        }
    }
    let vectors = knobs.vector_blocks * pieces(knobs.vector_length, lanes);
    let unrolled = tiles * vectors * knobs.unroll.max(1);
    if unrolled > MAX_UNROLLED {
        return Err(format!(
            "{unrolled} unrolled vector operations, more than {MAX_UNROLLED}"
        ));
    }
    Ok(())
}

/// What an operator has around its reduction.
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
            dimensions.push(of_axis(Factor::ReductionTile, axis, inner, own));
            continue;
        }
        if base.vector_axis.as_ref() != Some(&axis.name) {
            // Uneven tiles leave a rest behind, which a few sizes are worth.
            let uneven = [4, 6, 8, 12].into_iter().filter(|&t| t < axis.extent);
            let tiles = divisors(axis.extent)
                .filter(|&d| d <= MAX_TILE)
                .chain(uneven);
            dimensions.push(of_axis(Factor::Tile, axis, tiles, base.tile_of(&axis.name)));
        }
        let cache = divisors(axis.extent).filter(|&d| d <= MAX_CACHE_TILE);
        dimensions.push(of_axis(Factor::CacheTile, axis, cache, 1));
    }
    if let Some(vector) = vector_axis(info) {
        let extent = info.iters[vector.iter].extent;
        let lengths = divisors(vector.packed.unwrap_or(extent))
            .filter(|&d| d <= lanes || (d % lanes == 0 && d <= MAX_REGISTERS * lanes));
        dimensions.push(numbers(Factor::VectorLength, lengths, base.vector_length));
        dimensions.push(numbers(
            Factor::VectorBlocks,
            [1, 2, 3, 4, 6, 8],
            base.vector_blocks,
        ));
    }
    dimensions.push(Dimension {
        factor: Factor::LoopOrder,
        axis: None,
        values: loop_orders(base, &axes),
    });
    dimensions.push(words(Factor::LevelOrder, LevelOrder::ALL, LevelOrder::word));
    let spatial = base.loop_order.len() as i64;
    dimensions.push(numbers(Factor::Fuse, 1..=spatial, base.fused_outer as i64));
    let iterations = axes
        .iter()
        .filter(|a| !a.reduction)
        .map(|axis| outer_iterations(base, axis))
        .product();
    dimensions.push(numbers(
        Factor::ParallelExtent,
        parallel_extents(iterations),
        0,
    ));
    dimensions.push(numbers(Factor::Unroll, [0, 2, 4, 9, 16, 32], base.unroll));
    // Without a tail and without accumulators of its own, a schedule has nothing to place.
    dimensions.push(words(Factor::ComputeAt, Epilogue::ALL, Epilogue::word));
    if !extras.has_tail {
        dimensions.retain(|d| d.factor != Factor::ComputeAt);
    }
    if extras.has_padding || base.padding == Padding::Near {
        let mut padding = words(Factor::Padding, Padding::ALL, Padding::word);
        if base.padding != Padding::Near {
            let near = FactorValue::Word(Padding::Near.word().to_owned());
            padding.values.retain(|v| *v != near);
        }
        dimensions.push(padding);
    }
    dimensions.push(words(Factor::CacheWrite, CacheWrite::ALL, CacheWrite::word));
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
        numbers(Factor::VectorLength, lengths, base.vector_length),
        numbers(Factor::Unroll, [1, 2, 4, 8], base.unroll),
        numbers(
            Factor::ParallelExtent,
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

fn numbers(factor: Factor, values: impl IntoIterator<Item = i64>, base: i64) -> Dimension {
    let mut values: Vec<i64> = values.into_iter().chain([base]).collect();
    values.sort_unstable();
    values.dedup();
    Dimension {
        factor,
        axis: None,
        values: values.into_iter().map(FactorValue::Number).collect(),
    }
}

fn of_axis(
    factor: Factor,
    axis: &Axis,
    values: impl IntoIterator<Item = i64>,
    base: i64,
) -> Dimension {
    Dimension {
        axis: Some(axis.name.clone()),
        ..numbers(factor, values, base)
    }
}

fn words<T: Copy>(factor: Factor, all: &[T], word: fn(T) -> &'static str) -> Dimension {
    Dimension {
        factor,
        axis: None,
        values: all
            .iter()
            .map(|&v| FactorValue::Word(word(v).to_owned()))
            .collect(),
    }
}
