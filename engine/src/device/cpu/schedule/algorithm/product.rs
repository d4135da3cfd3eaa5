//! Products of matrices: a tile of columns times vectors of output channels is summed in registers.

use std::slice::from_ref;

use opmodels::tile::VectorUnit;
use tvm_bridge::Result;
use tvm_bridge::nest::{Buffer, Index, LoopKind, Stmt, Touched, Value};

use super::{each, vector, vectors};

/// Maximum number of columns of a tile: with more of them the code only grows.
const MOST_COLUMNS: i64 = 16;

/// Columns of a register tile beside `channels` output channels: as few tiles as the registers allow, of equal width as far
/// as they can be.
pub(super) fn width(columns: i64, channels: i64, unit: VectorUnit) -> i64 {
    let most = unit.sums()
        / (channels + unit.lanes() - 1)
            .div_euclid(unit.lanes())
            .max(1);
    let most = most.clamp(1, MOST_COLUMNS).min(columns.max(1));
    let tiles = (columns + most - 1) / most;
    (columns + tiles - 1) / tiles.max(1)
}

/// `out[batch, column, block, lane] = Σ left(batch, depth, column) × right(batch, depth, block, lane)`.
pub(super) struct Product<'a> {
    pub name: &'a str,
    /// Number of products that have nothing in common, each with columns and output channels of its own.
    pub batch: i64,
    /// How the loop over their tiles is executed.
    pub kind: LoopKind,
    pub columns: i64,
    /// Vectors of output channels, side by side in a tile.
    pub blocks: i64,
    pub lanes: i64,
    /// Columns of a tile.
    pub width: i64,
    /// Extents of the loops of the reduction.
    pub depth: &'a [i64],
    pub reads: &'a [&'a Buffer],
    pub out: &'a Buffer,
}

/// Where in a product something stands.
pub(super) struct At<'a> {
    pub batch: &'a Index,
    pub column: &'a Index,
    pub block: i64,
}

/// The value of a lane.
pub(super) type Lane<'a> = dyn Fn(&Index) -> Result<Value> + 'a;
/// The right operand's value, by place, depth and lane.
type Right<'a> = dyn Fn(&At<'_>, &[Index], &Index) -> Result<Value> + 'a;

impl Product<'_> {
    /// The statements: one loop over all whole tiles, and one over the remaining columns.
    pub fn statements(
        &self,
        left: &dyn Fn(&At<'_>, &[Index]) -> Result<Value>,
        right: &Right<'_>,
        write: &dyn Fn(&At<'_>, &Lane<'_>) -> Result<Stmt>,
    ) -> Result<Vec<Stmt>> {
        let whole = self.columns / self.width;
        let rest = self.columns % self.width;
        let parts = [(0, whole, self.width), (whole * self.width, 1, rest)];
        let used = parts
            .into_iter()
            .filter(|(_, tiles, width)| tiles * width > 0);
        used.map(|(first, tiles, width)| {
            each(self.kind, self.batch * tiles, |task| {
                let (batch, tile) = task.divided(tiles)?;
                let sums = vectors("sums", width * self.blocks, self.lanes)?;
                let tiled = |body: &dyn Fn(&Buffer, &At<'_>) -> Result<Stmt>| -> Result<Stmt> {
                    let mut all = Vec::new();
                    for inside in 0..width {
                        let column = tile.scaled(width, first + inside)?;
                        for block in 0..self.blocks {
                            let at = At {
                                batch: &batch,
                                column: &column,
                                block,
                            };
                            all.push(body(&sums[(inside * self.blocks + block) as usize], &at)?);
                        }
                    }
                    Stmt::sequence(&all)
                };
                let begin = tiled(&|sum, _| {
                    vector(self.lanes, |lane| {
                        sum.store(&Value::constant(0.0)?, from_ref(lane))
                    })
                })?;
                let add = self.over_depth(&mut Vec::new(), &|depth| {
                    tiled(&|sum, at| {
                        vector(self.lanes, |lane| {
                            let place = from_ref(lane);
                            let product = left(at, depth)?.times(&right(at, depth, lane)?)?;
                            sum.store(&sum.load(place)?.plus(&product)?, place)
                        })
                    })
                })?;
                let end = tiled(&|sum, at| write(at, &|lane| sum.load(from_ref(lane))))?;
                Stmt::sequence(&[begin, add, end])?.block(
                    self.name,
                    Touched {
                        reads: self.reads,
                        writes: &[self.out],
                        locals: &sums,
                    },
                )
            })
        })
        .collect()
    }

    fn over_depth(
        &self,
        outer: &mut Vec<Index>,
        body: &dyn Fn(&[Index]) -> Result<Stmt>,
    ) -> Result<Stmt> {
        let Some(&extent) = self.depth.get(outer.len()) else {
            return body(outer);
        };
        each(LoopKind::Serial, extent, |index| {
            outer.push(index.clone());
            let inside = self.over_depth(outer, body);
            outer.pop();
            inside
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_registers_and_share_the_columns_evenly() {
        let avx512 = VectorUnit::of_width(512, true);
        let avx2 = VectorUnit::of_width(256, true);
        for (columns, channels, unit, expected) in [
            (196, 16, avx512, 16),
            (49, 16, avx512, 13),
            (16, 16, avx512, 16),
            (4, 16, avx512, 4),
            (196, 32, avx512, 14),
            (196, 16, avx2, 6),
            (1, 16, avx2, 1),
        ] {
            assert_eq!(
                width(columns, channels, unit),
                expected,
                "{columns} {channels}"
            );
        }
    }
}
