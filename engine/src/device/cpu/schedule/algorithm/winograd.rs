//! Winograd's minimal filtering of 3×3 windows: `Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A`.
//!
//! An image is cut into tiles of 2×2 or 4×4 outputs. Tiles and weights are transformed, multiplied position by position
//! (a product of matrices over the channels for each) and transformed back. That takes 2.25 or 4 times fewer
//! multiplications than the direct convolution. Source of the algorithm and of F(2×2, 3×3)'s and F(4×4, 3×3)'s matrices:
//! Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, 2015, §4.1 and §4.3.
//!
//! A task transforms the weights of a few output channels and multiplies them while they are in its core's cache. With
//! F(4×4, 3×3), 256 channels of 14×14 take 2.9 ms. They take 5.0 ms if all weights are transformed first. For 512 channels
//! of 7×7 it is 5.2 and 9.2 ms (AVX2, Zen 1, one thread, 2026-11-27).

use std::slice::from_ref;

use opdata::contract::knobs::{Algorithm, ConvolutionKnobs};
use opmodels::tile::{VectorUnit, greatest_divisor};
use tvm_bridge::Result;
use tvm_bridge::nest::{Buffer, Index, LoopKind, Stmt, Touched, Value};

use super::super::knobs::PARALLEL_PIECES;
use super::product::{At, Product};
use super::{COPY, Convolution, Operands, Stages, constant, each, vector, vectors};

/// Values of the window along an axis.
const WINDOW: i64 = 3;

/// Vectors between the values of one place of a tile and those of the next. Without them, the places would lie a power
/// of two apart for most numbers of channels, in lines that compete for the same set of the cache.
const APART: i64 = 1;
/// Minimum number of tiles of a task: the transformation of its weights is then 3 % of its arithmetic.
const FEWEST_TILES: i64 = 96;

/// A matrix by rows.
type Matrix = &'static [&'static [f32]];

/// The transformations for tiles of some number of outputs along an axis.
struct Transforms {
    /// `Bᵀ`, of the image.
    image: Matrix,
    /// `G`, of the weights.
    weights: Matrix,
    /// `Aᵀ`, of the sums.
    sums: Matrix,
}

const OF_2: Transforms = Transforms {
    image: &[
        &[1.0, 0.0, -1.0, 0.0],
        &[0.0, 1.0, 1.0, 0.0],
        &[0.0, -1.0, 1.0, 0.0],
        &[0.0, 1.0, 0.0, -1.0],
    ],
    weights: &[
        &[1.0, 0.0, 0.0],
        &[0.5, 0.5, 0.5],
        &[0.5, -0.5, 0.5],
        &[0.0, 0.0, 1.0],
    ],
    sums: &[&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, -1.0, -1.0]],
};

const OF_4: Transforms = Transforms {
    image: &[
        &[4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
        &[0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
        &[0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
        &[0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
        &[0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        &[0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
    ],
    weights: &[
        &[1.0 / 4.0, 0.0, 0.0],
        &[-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
        &[-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
        &[1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
        &[1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
        &[0.0, 0.0, 1.0],
    ],
    sums: &[
        &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        &[0.0, 1.0, -1.0, 2.0, -2.0, 0.0],
        &[0.0, 1.0, 1.0, 4.0, 4.0, 0.0],
        &[0.0, 1.0, -1.0, 8.0, -8.0, 1.0],
    ],
};

/// Outputs of a tile along an axis, if an algorithm is Winograd's.
pub(super) fn outputs(algorithm: Algorithm) -> Option<i64> {
    match algorithm {
        Algorithm::Winograd2 => Some(2),
        Algorithm::Winograd4 => Some(4),
        _ => None,
    }
}

/// The tiles of all images.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    batch: i64,
    rows: i64,
    columns: i64,
}

impl Tiles {
    pub fn of(of: &Convolution, outputs: i64) -> Tiles {
        let along = |extent: i64| (extent + outputs - 1) / outputs;
        Tiles {
            batch: of.batch,
            rows: along(of.output[0]),
            columns: along(of.output[1]),
        }
    }

    pub fn count(self) -> i64 {
        self.batch * self.rows * self.columns
    }

    /// Index of a tile in a buffer that holds one value per tile for each row.
    fn place(self, row: &Index, tile: &Index) -> Result<Index> {
        row.scaled(self.count(), 0)?.plus(tile)
    }
}

pub(super) fn stages(
    of: &Convolution,
    outputs: i64,
    unit: VectorUnit,
    knobs: &ConvolutionKnobs,
    operands: &Operands<'_>,
) -> Result<Stages> {
    let tiles = Tiles::of(of, outputs);
    let blocks = knobs.vector_blocks;
    let by = if outputs == 2 { &OF_2 } else { &OF_4 };
    // Values of a tile of the image along an axis.
    let edge = outputs + WINDOW - 1;
    let places = edge * edge;
    let covered = [
        tiles.rows * outputs + WINDOW - 1,
        tiles.columns * outputs + WINDOW - 1,
    ];
    let image = Buffer::new(COPY, &[of.batch, of.channels, covered[0], covered[1]])?;
    let weights = Buffer::new("filters", &[places, blocks * of.channels + APART, of.lanes])?;
    let turned = Buffer::new(
        "tiles",
        &[places, of.channels * tiles.count() + APART * unit.lanes()],
    )?;
    let sums = Buffer::new(
        "sums",
        &[places, of.vectors * tiles.count() + APART, of.lanes],
    )?;

    let copy = Stmt::elements(
        COPY,
        [operands.image, &image],
        &[of.batch, of.channels, covered[0], covered[1]],
        |v| Ok(v.to_vec()),
        |v| {
            let value = operands.image.load(v)?;
            if covered == of.image {
                return Ok(value);
            }
            let inside = v[2].within(0, of.image[0])?;
            value.where_holds(&inside.and(&v[3].within(0, of.image[1])?)?)
        },
    )?;
    let to_tiles = each(LoopKind::Parallel, of.channels, |channel| {
        each(LoopKind::Serial, tiles.batch * tiles.rows, |row| {
            let (of_image, y) = row.divided(tiles.rows)?;
            let lanes = unit.lanes();
            let (whole, rest) = (tiles.columns / lanes, tiles.columns % lanes);
            let part = |first: &Index, lanes: i64| -> Result<Stmt> {
                let passes = Passes::new(by.image, lanes)?;
                let body = passes.statements(
                    &|inside_y, inside_x, lane| {
                        let y = y.scaled(outputs, inside_y)?;
                        let x = first.plus(lane)?.scaled(outputs, inside_x)?;
                        image.load(&[of_image.clone(), channel.clone(), y, x])
                    },
                    &|inside_y, inside_x, lane, value| {
                        let column = row.scaled(tiles.columns, 0)?.plus(&first.plus(lane)?)?;
                        let place = constant(inside_y * edge + inside_x)?;
                        turned.store(value, &[place, tiles.place(channel, &column)?])
                    },
                )?;
                body.block(
                    "stage_tiles",
                    Touched {
                        reads: &[&image],
                        writes: &[&turned],
                        locals: passes.locals(),
                    },
                )
            };
            let mut parts = Vec::new();
            if whole > 0 {
                parts.push(each(LoopKind::Serial, whole, |step| {
                    part(&step.scaled(lanes, 0)?, lanes)
                })?);
            }
            if rest > 0 {
                parts.push(part(&constant(whole * lanes)?, rest)?);
            }
            Stmt::sequence(&parts)
        })
    })?;
    // A group of vectors is a task. If there are few of them, their tiles are divided, too.
    let groups = of.vectors / blocks;
    let parts = greatest_divisor(
        tiles.count(),
        (tiles.count() / FEWEST_TILES).min(PARALLEL_PIECES / groups),
    );
    let columns = tiles.count() / parts;
    let product = Product {
        name: "stage_product",
        batch: places,
        kind: LoopKind::Serial,
        columns,
        blocks,
        lanes: of.lanes,
        width: knobs.columns.min(columns),
        depth: &[of.channels],
        reads: &[&turned, &weights],
        out: &sums,
    };
    let products = each(LoopKind::Parallel, groups * parts, |task| {
        let (group, part) = task.divided(parts)?;
        let filters = filters(of, by, blocks, &group, [operands.weights, &weights])?;
        let tile = |at: &At<'_>| part.scaled(columns, 0)?.plus(at.column);
        let products = product.statements(
            &|at, depth| turned.load(&[at.batch.clone(), tiles.place(&depth[0], &tile(at)?)?]),
            &|at, depth, lane| {
                let filter = depth[0].plus(&constant(at.block * of.channels)?)?;
                weights.load(&[at.batch.clone(), filter, lane.clone()])
            },
            &|at, sum| {
                vector(of.lanes, |lane| {
                    let vector = group.scaled(blocks, at.block)?;
                    let place = tiles.place(&vector, &tile(at)?)?;
                    sums.store(&sum(lane)?, &[at.batch.clone(), place, lane.clone()])
                })
            },
        )?;
        Stmt::sequence(&[&[filters], products.as_slice()].concat())?.block(
            "stage_group",
            Touched {
                reads: &[operands.weights, &turned],
                writes: &[&sums],
                locals: from_ref(&weights),
            },
        )
    })?;
    let back = each(
        LoopKind::Parallel,
        of.vectors * tiles.batch * tiles.rows,
        |task| back(of, outputs, by, tiles, task, &sums, operands.output),
    )?;
    Ok(Stages {
        statements: vec![copy, to_tiles, products, back],
        between: vec![image, turned, sums],
    })
}

/// The weights of a group of vectors of output channels, transformed.
fn filters(
    of: &Convolution,
    by: &Transforms,
    blocks: i64,
    group: &Index,
    [weights, out]: [&Buffer; 2],
) -> Result<Stmt> {
    let edge = by.weights.len() as i64;
    each(LoopKind::Serial, blocks * of.channels, |filter| {
        let (block, channel) = filter.divided(of.channels)?;
        let of_channel = [group.scaled(blocks, 0)?.plus(&block)?, channel];
        let passes = Passes::new(by.weights, of.lanes)?;
        let body = passes.statements(
            &|y, x, lane| {
                let place = [constant(y)?, constant(x)?, lane.clone()];
                weights.load(&[of_channel.as_slice(), &place].concat())
            },
            &|y, x, lane, value| {
                let place = constant(y * edge + x)?;
                out.store(value, &[place, filter.clone(), lane.clone()])
            },
        )?;
        body.block(
            "stage_filters",
            Touched {
                reads: &[weights],
                writes: &[out],
                locals: passes.locals(),
            },
        )
    })
}

/// The sums of a row of tiles back to outputs; those beyond the image's edge are dropped.
fn back(
    of: &Convolution,
    outputs: i64,
    by: &Transforms,
    tiles: Tiles,
    task: &Index,
    sums: &Buffer,
    output: &Buffer,
) -> Result<Stmt> {
    let edge = outputs + WINDOW - 1;
    let (group, row) = task.divided(tiles.batch * tiles.rows)?;
    let (image, tile_y) = row.divided(tiles.rows)?;
    let results = vectors("results", outputs * outputs, of.lanes)?;
    each(LoopKind::Serial, tiles.columns, |tile_x| {
        let passes = Passes::new(by.sums, of.lanes)?;
        let turn = passes.statements(
            &|y, x, lane| {
                let tile = row.scaled(tiles.columns, 0)?.plus(tile_x)?;
                let place = tiles.place(&group, &tile)?;
                sums.load(&[constant(y * edge + x)?, place, lane.clone()])
            },
            &|y, x, lane, value| results[(y * outputs + x) as usize].store(value, from_ref(lane)),
        )?;
        let scatter = each(LoopKind::Serial, of.lanes, |lane| {
            let mut stores = Vec::new();
            for inside_y in 0..outputs {
                for inside_x in 0..outputs {
                    let place = (inside_y * outputs + inside_x) as usize;
                    let value = results[place].load(from_ref(lane))?;
                    let y = tile_y.scaled(outputs, inside_y)?;
                    let x = tile_x.scaled(outputs, inside_x)?;
                    let inside = y
                        .within(0, of.output[0])?
                        .and(&x.within(0, of.output[1])?)?;
                    let channel = group.scaled(of.lanes, 0)?.plus(lane)?;
                    let store = output.store(&value, &[image.clone(), channel, y, x])?;
                    stores.push(store.only_where(&inside)?);
                }
            }
            Stmt::sequence(&stores)
        })?;
        Stmt::sequence(&[turn, scatter])?.block(
            "stage_back",
            Touched {
                reads: &[sums],
                writes: &[output],
                locals: &[passes.locals(), &results].concat(),
            },
        )
    })
}

/// `M x Mᵀ` for a matrix `M`, a vector of tiles or channels at once: down the columns, then along the rows.
struct Passes {
    matrix: Matrix,
    /// Values along an axis of `x`, and in a vector.
    width: usize,
    lanes: i64,
    /// `M x`.
    between: Vec<Buffer>,
}

impl Passes {
    fn new(matrix: Matrix, lanes: i64) -> Result<Passes> {
        let width = matrix.first().map_or(0, |row| row.len());
        let values = (matrix.len() * width) as i64;
        Ok(Passes {
            matrix,
            width,
            lanes,
            between: vectors("between", values, lanes)?,
        })
    }

    fn locals(&self) -> &[Buffer] {
        &self.between
    }

    /// The statements; both callbacks take the row, the column and the lane.
    fn statements(
        &self,
        read: &dyn Fn(i64, i64, &Index) -> Result<Value>,
        write: &dyn Fn(i64, i64, &Index, &Value) -> Result<Stmt>,
    ) -> Result<Stmt> {
        let between = |row: usize, column: usize| &self.between[row * self.width + column];
        let mut all = Vec::new();
        for (row, factors) in self.matrix.iter().enumerate() {
            for column in 0..self.width {
                all.push(vector(self.lanes, |lane| {
                    let value = combined(factors, |k| read(k as i64, column as i64, lane))?;
                    between(row, column).store(&value, from_ref(lane))
                })?);
            }
        }
        for row in 0..self.matrix.len() {
            for (column, factors) in self.matrix.iter().enumerate() {
                all.push(vector(self.lanes, |lane| {
                    let value = combined(factors, |k| between(row, k).load(from_ref(lane)))?;
                    write(row as i64, column as i64, lane, &value)
                })?);
            }
        }
        Stmt::sequence(&all)
    }
}

/// `Σ factors[k] × value(k)`, without the terms that are 0 and the products by 1.
fn combined(factors: &[f32], value: impl Fn(usize) -> Result<Value>) -> Result<Value> {
    let mut sum: Option<Value> = None;
    for (k, &factor) in factors.iter().enumerate().filter(|(_, f)| **f != 0.0) {
        let scaled = |by: f32| -> Result<Value> {
            match by {
                1.0 => value(k),
                _ => value(k)?.times(&Value::constant(by)?),
            }
        };
        sum = Some(match sum {
            None => scaled(factor)?,
            Some(sum) if factor < 0.0 => sum.minus(&scaled(-factor)?)?,
            Some(sum) => sum.plus(&scaled(factor)?)?,
        });
    }
    sum.map_or_else(|| Value::constant(0.0), Ok)
}
