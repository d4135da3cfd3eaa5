//! Register tiles: how many results of each axis a kernel of the default schedule holds in registers at once.
//!
//! Arithmetic on extents. The collector makes its default schedules with it; the predictor describes operators that
//! nobody has scheduled yet. The tile has the fewest loads a multiply-add among those that fill at most half of the
//! registers. Beyond that LLVM starts to spill (measured on AVX-512: 16 accumulators reach 212 GFLOP/s where 28 fall to
//! 75).

use serde::{Deserialize, Serialize};

/// Longest vector a loop is turned into, in registers; longer ones only grow the code.
const MAX_REGISTERS: i64 = 4;
/// A vector of weights comes from the second-level cache, a broadcast value from the first.
const VECTOR_LOAD_COST: f64 = 2.1;
/// Largest scalar tile, where nothing can be vectorised: enough independent sums to hide an addition's latency.
const SCALAR_TILE: i64 = 8;

/// All divisors of `n`, ascending.
pub fn divisors(n: i64) -> impl Iterator<Item = i64> {
    divisors_up_to(n, n)
}

/// The divisors of `n` that are not above `most`, ascending, and 1 in any case; no more than `most` numbers are tried,
/// whatever `n` is.
pub fn divisors_up_to(n: i64, most: i64) -> impl Iterator<Item = i64> {
    (1..=n.min(most).max(1)).filter(move |d| n % d == 0)
}

/// The largest divisor of `n` that is not above `most`.
pub fn greatest_divisor(n: i64, most: i64) -> i64 {
    divisors_up_to(n, most).last().unwrap_or(1)
}

/// Pieces of `part` values that cover `extent` values, the last one perhaps in part.
pub fn pieces(extent: i64, part: i64) -> i64 {
    extent / part + i64::from(extent % part != 0)
}

/// Share of the values computed that are wanted, if `extent` values are computed in pieces of `part`.
pub fn efficiency(extent: i64, part: i64) -> f64 {
    extent as f64 / (pieces(extent, part) as f64 * part as f64)
}

/// The vector length for a loop of `extent` that must be divided evenly: the divisor that wastes the fewest lanes, the
/// longest of equals.
///
/// Either part of one register or whole registers. Vectors of an odd length beyond one register (29, 56) are legal, but
/// LLVM keeps them in memory, which costs a factor of ten.
pub fn even_vector_length(extent: i64, lanes: i64) -> i64 {
    divisors_up_to(extent, MAX_REGISTERS * lanes)
        .filter(|&d| d <= lanes || d % lanes == 0)
        .max_by(|&a, &b| {
            efficiency(a, lanes)
                .total_cmp(&efficiency(b, lanes))
                .then(a.cmp(&b))
        })
        .unwrap_or(1)
}

/// The vector length for a loop of `extent` whose last piece may be shorter. That piece then runs element by element,
/// after the loop has been partitioned. Takes the length with the fewest steps, an even one of equals.
pub fn vector_length(extent: i64, lanes: i64) -> i64 {
    let even = even_vector_length(extent, lanes);
    let steps = |length: i64| extent / length * pieces(length, lanes) + extent % length;
    // Whole, half and quarter registers: loads of other lengths come in pieces.
    [lanes, lanes / 2, lanes / 4]
        .into_iter()
        .filter(|&length| (1..=extent).contains(&length) && steps(length) < steps(even))
        .min_by_key(|&length| (steps(length), -length))
        .unwrap_or(even)
}

/// The vector unit that schedules are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorUnit {
    /// Width of a register in bits.
    pub bits: u32,
    /// Number of architectural vector registers.
    pub registers: u32,
}

impl VectorUnit {
    /// The unit of an x86 or Arm CPU with vector registers of `bits`: AVX-512 and NEON have 32 of them, SSE and AVX 16.
    pub fn of_width(bits: u32, is_x86: bool) -> VectorUnit {
        VectorUnit {
            bits,
            registers: if bits >= 512 || !is_x86 { 32 } else { 16 },
        }
    }

    /// The unit for a sliding window's tile. Each row of the tile also holds the row of the image that it loads, so
    /// half the number of sums fit. A depthwise convolution of 112×112 takes 185 µs with 16 rows, 118 with 8 (Zen 4,
    /// 2026-11-26).
    pub fn for_windows(self) -> VectorUnit {
        VectorUnit {
            registers: self.registers / 2,
            ..self
        }
    }

    /// Elements of four bytes in one register.
    pub fn lanes(self) -> i64 {
        i64::from(self.bits / 32).max(1)
    }

    /// Vectors of sums that the registers hold beside the operands.
    pub fn sums(self) -> i64 {
        /// Registers left for the operands.
        const SPARE: i64 = 4;
        i64::from(self.registers) - SPARE
    }
}

/// Lanes of the widest vector register there is (512 bits), by which weights are packed whatever the machine.
const PACKED_LANES: u64 = 16;

/// Number of adjacent output channels in the packed weights of a dense layer or an ungrouped convolution. The importer
/// packs them (`block_size` of `models/python/opbench_import/kernels.py`): as many as a register holds, or fewer if
/// that takes no more registers and no padding.
pub fn packed_run(channels: u64) -> u64 {
    let registers = channels.div_ceil(PACKED_LANES);
    (1..=PACKED_LANES)
        .rev()
        .find(|run| run * registers == channels)
        .unwrap_or(PACKED_LANES)
}

/// Number of results computed for a row of `extent` by a window that slides over each channel on its own. The importer
/// rounds rows up to whole vectors, or to half of one where that holds the row. It does not if too much would be
/// computed in vain (`whole_row` of `models/python/opbench_import/windows.py`).
pub fn whole_row(extent: u64) -> u64 {
    if extent <= PACKED_LANES / 4 {
        return extent;
    }
    let half = PACKED_LANES / 2;
    let rounded = if extent <= half {
        half
    } else {
        extent.div_ceil(PACKED_LANES).saturating_mul(PACKED_LANES)
    };
    // At most 1.4 times as many.
    if rounded.saturating_mul(5) <= extent.saturating_mul(7) {
        rounded
    } else {
        extent
    }
}

/// The axis of a reduction's results along which an operand is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorExtent {
    /// Values along the axis.
    pub extent: i64,
    /// Vector length that the operand's layout demands (packed weights), if it does.
    pub packed: Option<i64>,
}

/// A register tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Values of the vector axis in one vector; 1 without such an axis.
    pub vector_length: i64,
    /// Vectors of that axis.
    pub vector_blocks: i64,
    /// Values along the two axes that reuse what is loaded along the vector axis, the innermost first.
    pub reusing: [i64; 2],
}

impl Tile {
    /// The tile for a vector axis, if there is one. `reusing` has the extents of the two innermost axes along which the
    /// loaded vector is reused (1 where there is none).
    pub fn choose(vector: Option<VectorExtent>, reusing: [i64; 2], unit: VectorUnit) -> Tile {
        let (vector_length, most_blocks) = vector.map_or((1, 1), |axis| lengths(axis, unit));
        let per_vector = pieces(vector_length, unit.lanes());
        let budget = match vector {
            Some(_) => i64::from(unit.registers) / 2,
            None => SCALAR_TILE,
        };
        let mut best = (f64::INFINITY, 1, [1, 1]);
        for blocks in divisors_up_to(most_blocks, budget / per_vector) {
            for first in 1..=reusing[0].min(budget) {
                // Only whole rows are put together.
                let most = if first == reusing[0] { reusing[1] } else { 1 };
                for second in divisors_up_to(most, budget) {
                    let accumulators = blocks * per_vector * first * second;
                    if accumulators > budget.max(per_vector) {
                        break;
                    }
                    let loads = loads_per_multiply_add(
                        blocks * per_vector,
                        first * second,
                        accumulators,
                        budget,
                    );
                    let cost = loads / efficiency(reusing[0], first);
                    if cost < best.0 {
                        best = (cost, blocks, [first, second]);
                    }
                }
            }
        }
        Tile {
            vector_length,
            vector_blocks: best.1,
            reusing: best.2,
        }
    }
}

/// The register tile of a convolution of 1×1 windows with vectors along the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelTile {
    /// Output channels.
    pub columns: i64,
    /// Vectors of pixels.
    pub vector_blocks: i64,
}

impl PixelTile {
    /// The tile of the default schedule. `None` if the pixels of an image are not whole vectors.
    pub fn suggested(
        inputs: i64,
        outputs: i64,
        pixels: i64,
        unit: VectorUnit,
    ) -> Option<PixelTile> {
        // Two vectors of pixels halve the loads of weights and double the runs that are written. With AVX-512, where loads
        // keep up, one is 2 to 7 % faster if there is less to write than to read (Zen 4, 2026-11-26).
        let blocks = if unit.bits >= 512 && outputs <= inputs {
            1
        } else {
            2
        };
        (pixels > 0 && pixels % unit.lanes() == 0)
            .then(|| PixelTile::with_blocks(blocks, outputs, pixels, unit))
    }

    /// The tile with up to `blocks` vectors of pixels, and the number of output channels whose sums then fit the
    /// registers.
    pub fn with_blocks(blocks: i64, outputs: i64, pixels: i64, unit: VectorUnit) -> PixelTile {
        let vectors = pixels / greatest_divisor(pixels, unit.lanes());
        let vector_blocks = greatest_divisor(vectors, blocks);
        PixelTile {
            columns: greatest_divisor(outputs, unit.sums() / vector_blocks),
            vector_blocks,
        }
    }
}

/// Length of the vectors along an axis, and how many of them it has.
fn lengths(axis: VectorExtent, unit: VectorUnit) -> (i64, i64) {
    let length = axis
        .packed
        .filter(|length| axis.extent % length == 0)
        .unwrap_or_else(|| vector_length(axis.extent, unit.lanes()));
    let blocks = if axis.extent % length == 0 {
        axis.extent / length
    } else {
        1
    };
    (length, blocks)
}

/// Loads for each multiply-add of a tile, with a penalty for tiles too small to hide the latency of the additions.
fn loads_per_multiply_add(vectors: i64, broadcasts: i64, accumulators: i64, budget: i64) -> f64 {
    let loads =
        (VECTOR_LOAD_COST * vectors as f64 + broadcasts as f64) / (vectors * broadcasts) as f64;
    let hidden = accumulators as f64 / budget as f64;
    loads + 0.5 * (1.0 - hidden).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_fill_registers_where_they_can() {
        for (extent, length) in [
            (48, 48),
            (56, 14),
            (7, 7),
            (1000, 10),
            (1, 1),
            (13, 13),
            (55, 11),
        ] {
            assert_eq!(even_vector_length(extent, 16), length, "{extent}");
        }
    }

    #[test]
    fn loops_of_prime_extent_are_vectorised_but_for_their_end() {
        for (extent, length) in [(197, 16), (17, 16), (149, 16), (111, 8), (56, 14), (64, 64)] {
            assert_eq!(vector_length(extent, 16), length, "{extent}");
        }
    }

    #[test]
    fn weights_are_packed_as_the_importer_does() {
        for (channels, run) in [
            (64, 16),
            (1000, 16),
            (24, 12),
            (10, 10),
            (1, 1),
            (17, 16),
            (255, 16),
        ] {
            assert_eq!(packed_run(channels), run, "{channels}");
        }
    }

    #[test]
    fn rows_under_windows_are_rounded_up_as_the_importer_does() {
        for (extent, computed) in [
            (3, 3),
            (5, 5),
            (6, 8),
            (8, 8),
            (10, 10),
            (12, 16),
            (17, 17),
            (23, 32),
            (56, 64),
            (112, 112),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(whole_row(extent), computed, "{extent}");
        }
    }

    #[test]
    fn tiles_fill_half_of_the_registers() {
        let unit = VectorUnit::of_width(512, true);
        let packed = |extent, packed| {
            Some(VectorExtent {
                extent,
                packed: Some(packed),
            })
        };
        for (vector, reusing, wanted) in [
            (packed(64, 16), [56, 56], (16, 2, [8, 1])),
            (packed(480, 16), [14, 14], (16, 3, [5, 1])),
            (packed(512, 16), [7, 7], (16, 2, [7, 1])),
            (None, [1, 1], (1, 1, [1, 1])),
        ] {
            let tile = Tile::choose(vector, reusing, unit);
            assert_eq!(
                (tile.vector_length, tile.vector_blocks, tile.reusing),
                wanted
            );
        }
    }

    #[test]
    fn extents_beyond_any_machine_take_no_time() {
        let prime = (1 << 61) - 1;
        let unit = VectorUnit::of_width(512, true);
        let vector = |extent, packed| Some(VectorExtent { extent, packed });
        let wide = Tile::choose(vector(prime, None), [7, prime], unit);
        assert_eq!((wide.vector_length, wide.vector_blocks), (16, 1));
        let packed = Tile::choose(vector(prime - 15, Some(16)), [prime, prime], unit);
        assert_eq!(packed.vector_length, 16);
    }

    proptest! {
        #[test]
        fn an_even_vector_length_divides_its_loop(extent in 1i64..5000, log in 2u32..5) {
            let length = even_vector_length(extent, 1 << log);
            prop_assert!(length >= 1 && extent % length == 0);
        }

        #[test]
        fn an_uneven_length_never_takes_more_steps(extent in 1i64..5000, log in 2u32..5) {
            let lanes = 1 << log;
            let (even, any) = (even_vector_length(extent, lanes), vector_length(extent, lanes));
            let steps = |l: i64| extent / l * pieces(l, lanes) + extent % l;
            prop_assert!(any >= 1 && any <= extent && steps(any) <= steps(even));
        }
    }
}
