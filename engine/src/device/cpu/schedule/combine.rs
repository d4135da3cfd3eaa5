//! Combinations of factor values: putting them into the knobs of the default schedule. A point is refused if it does not
//! divide the operator's loops. It is also refused if it unrolls more than [`MAX_UNROLLED`] vector operations (or than the
//! default schedule): LLVM would take longer than the kernel is worth.

use opmodels::tile::{VectorUnit, pieces};
use serde::{Deserialize, Serialize};

use super::Knobs;
use super::algorithm::Convolution;
use super::factors::*;
use super::{Algorithm, CacheWrite, ContractionKnobs, Epilogue, LevelOrder, Padding};
use crate::schedule::{Dimension, FactorSettings, FactorValue};

/// Maximum number of vector operations that a tile may be unrolled into.
pub const MAX_UNROLLED: i64 = 64;

/// The sizes that a combination is checked against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
pub(super) enum Shape {
    Contraction {
        axes: Vec<Axis>,
        lanes: i64,
    },
    /// A contraction that other algorithms can compute too.
    Convolution {
        of: Convolution,
        /// The direct algorithm: the shape that its combinations are checked against, and its suggested knobs.
        direct: Box<Shape>,
        knobs: Box<ContractionKnobs>,
        registers: VectorUnit,
    },
    Rows {
        rows: i64,
    },
    Partial {
        elements: i64,
    },
    Spatial {
        inner: i64,
        total: i64,
    },
    Fixed,
}

/// An axis of a reduction's loop nest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Axis {
    pub name: String,
    pub extent: i64,
    pub reduction: bool,
}

/// The schedule `base` with these settings, in normal form: settings without effect are left out, so that equal
/// schedules are equal knobs.
///
/// # Errors
/// Fails if the combination is impossible or not worth compiling, and says why.
pub(super) fn combine(
    base: &Knobs,
    shape: &Shape,
    settings: &FactorSettings<'_>,
) -> Result<Knobs, String> {
    if let Shape::Convolution {
        of,
        direct,
        knobs,
        registers,
    } = shape
    {
        if settings.is_empty() {
            return Ok(base.clone());
        }
        let (of_algorithm, others): (Vec<_>, Vec<_>) = settings
            .iter()
            .copied()
            .partition(|(dimension, _)| dimension.factor.name() == ALGORITHM);
        let named = of_algorithm.last().map(|(dimension, setting)| {
            let wrong = || format!("{} cannot be {setting}", dimension.name());
            word(Algorithm::ALL, Algorithm::word, setting).ok_or_else(wrong)
        });
        return match named.transpose()?.unwrap_or_default() {
            Algorithm::Direct => combine(&Knobs::Contraction(*knobs.clone()), direct, &others),
            algorithm => {
                let blocks = others.iter().find_map(|(dimension, setting)| {
                    let FactorValue::Number(blocks) = setting else {
                        return None;
                    };
                    (dimension.factor.name() == VECTOR_BLOCKS).then_some(*blocks)
                });
                let knobs = of.knobs(algorithm, blocks.unwrap_or(1), *registers);
                Ok(Knobs::Convolution(knobs))
            }
        };
    }
    let mut knobs = base.clone();
    for (dimension, setting) in settings {
        set(&mut knobs, dimension, setting)?;
    }
    match (&mut knobs, base, shape) {
        (
            Knobs::Contraction(knobs),
            Knobs::Contraction(base),
            Shape::Contraction { axes, lanes },
        ) => {
            normalise(knobs, base, axes)?;
            check(knobs, base, axes, *lanes)?;
        }
        (Knobs::Rows(knobs), _, Shape::Rows { rows }) => {
            knobs.parallel_extent = even_extent(knobs.parallel_extent, *rows)?;
        }
        (Knobs::Partial(knobs), _, Shape::Partial { elements }) => {
            let step = knobs.vector_length * knobs.parallel_extent;
            if elements % step != 0 {
                return Err(format!(
                    "{} pieces of vectors of {} do not divide {elements} elements",
                    knobs.parallel_extent, knobs.vector_length
                ));
            }
        }
        (Knobs::Spatial(knobs), _, Shape::Spatial { inner, total }) => {
            let step = knobs.vector_length * knobs.unroll;
            if inner % step != 0 {
                return Err(format!(
                    "{step} elements a step do not divide a loop of {inner}"
                ));
            }
            knobs.parallel_extent = even_extent(knobs.parallel_extent, total / step)?;
        }
        _ => {}
    }
    Ok(knobs)
}

/// A parallel extent that divides `iterations`. `None` if it is not smaller.
fn even_extent(extent: Option<i64>, iterations: i64) -> Result<Option<i64>, String> {
    match extent {
        Some(extent) if extent < iterations && iterations % extent != 0 => Err(format!(
            "{extent} pieces do not divide {iterations} iterations"
        )),
        Some(extent) if extent < iterations => Ok(Some(extent)),
        _ => Ok(None),
    }
}

/// The setting that a word names.
fn word<T: Copy>(all: &[T], of: fn(T) -> &'static str, setting: &FactorValue) -> Option<T> {
    let FactorValue::Word(word) = setting else {
        return None;
    };
    all.iter().copied().find(|v| of(*v) == word)
}

fn set(knobs: &mut Knobs, dimension: &Dimension, setting: &FactorValue) -> Result<(), String> {
    let wrong = || format!("{} cannot be {setting}", dimension.name());
    let number = || match setting {
        FactorValue::Number(n) => Ok(*n),
        _ => Err(wrong()),
    };
    let extent = || number().map(|n| (n > 0).then_some(n));
    let put = |values: &mut Vec<(String, i64)>| -> Result<(), String> {
        let axis = dimension.axis.clone().ok_or_else(wrong)?;
        values.retain(|(name, _)| *name != axis);
        values.push((axis, number()?));
        Ok(())
    };
    match knobs {
        Knobs::Contraction(k) => match dimension.factor.name() {
            TILE => put(&mut k.tile)?,
            CACHE_TILE => put(&mut k.cache_tile)?,
            REDUCTION_TILE => put(&mut k.reduction_tile)?,
            VECTOR_LENGTH => k.vector_length = number()?,
            VECTOR_BLOCKS => k.vector_blocks = number()?,
            LOOP_ORDER => match setting {
                FactorValue::Order(axes) => k.loop_order = axes.clone(),
                _ => return Err(wrong()),
            },
            FUSE => k.fused_outer = usize::try_from(number()?).map_err(|_| wrong())?,
            PARALLEL_EXTENT => k.parallel_extent = extent()?,
            UNROLL => k.unroll = number()?,
            LEVEL_ORDER => {
                k.level_order =
                    word(LevelOrder::ALL, LevelOrder::word, setting).ok_or_else(wrong)?;
            }
            COMPUTE_AT => {
                k.epilogue = word(Epilogue::ALL, Epilogue::word, setting).ok_or_else(wrong)?;
            }
            PADDING => {
                k.padding = word(Padding::ALL, Padding::word, setting).ok_or_else(wrong)?;
            }
            CACHE_WRITE => {
                k.cache_write =
                    word(CacheWrite::ALL, CacheWrite::word, setting).ok_or_else(wrong)?;
            }
            _ => return Err(wrong()),
        },
        Knobs::Rows(k) => match dimension.factor.name() {
            VECTOR_LENGTH => k.vector_length = number()?,
            PARALLEL_EXTENT => k.parallel_extent = extent()?,
            _ => return Err(wrong()),
        },
        Knobs::Partial(k) => match dimension.factor.name() {
            VECTOR_LENGTH => k.vector_length = number()?,
            PARALLEL_EXTENT => k.parallel_extent = number()?,
            _ => return Err(wrong()),
        },
        // These templates have no knob that can vary alone.
        Knobs::Dot(_) | Knobs::Convolution(_) => return Err(wrong()),
        Knobs::Spatial(k) => match dimension.factor.name() {
            VECTOR_LENGTH => k.vector_length = number()?,
            UNROLL => k.unroll = number()?,
            PARALLEL_EXTENT => k.parallel_extent = extent()?,
            _ => return Err(wrong()),
        },
    }
    Ok(())
}

/// Iterations of an outer loop of `axis`.
pub(super) fn outer_iterations(knobs: &ContractionKnobs, axis: &Axis) -> i64 {
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
        // The place of the padding decides how many outer loops can be fused.
        knobs.fused_outer = base.fused_outer;
    }
    knobs.fused_outer = knobs.fused_outer.clamp(1, knobs.loop_order.len().max(1));
    let iterations = knobs.loop_order[..knobs.fused_outer.min(knobs.loop_order.len())]
        .iter()
        .filter_map(|name| axes.iter().find(|a| a.name == *name))
        .map(|axis| outer_iterations(knobs, axis))
        .product();
    knobs.parallel_extent = even_extent(knobs.parallel_extent, iterations)?;
    knobs.unroll = unrolled_steps(knobs, axes);
    Ok(())
}

/// Number of steps that are really unrolled: whole inner loops, while they fit.
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

fn check(
    knobs: &ContractionKnobs,
    base: &ContractionKnobs,
    axes: &[Axis],
    lanes: i64,
) -> Result<(), String> {
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
    }
    let unrolled = unrolled_operations(knobs, lanes);
    // A tile may be as large as that of the default schedule.
    let most = MAX_UNROLLED.max(unrolled_operations(base, lanes));
    if unrolled > most {
        return Err(format!(
            "{unrolled} unrolled vector operations, more than {most}"
        ));
    }
    Ok(())
}

/// Vector operations of a tile that follow each other without a loop.
fn unrolled_operations(knobs: &ContractionKnobs, lanes: i64) -> i64 {
    let others = knobs
        .loop_order
        .iter()
        .filter(|name| knobs.vector_axis.as_ref() != Some(name));
    let tiles: i64 = others.map(|name| knobs.tile_of(name)).product();
    tiles * knobs.vector_blocks * pieces(knobs.vector_length, lanes) * knobs.unroll.max(1)
}
