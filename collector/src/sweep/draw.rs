//! Sequences of grid points by one of four designs; a point holds the index of a value for each dimension.
//!
//! The grid ends after every combination was given once. The other designs are endless: a caller takes the number of
//! points that it needs and drops impossible combinations.
//!
//! Sources: McKay, Beckman and Conover, *A comparison of three methods for selecting values of input variables*,
//! Technometrics 21 (1979), for Latin hypercubes; Burley, *Practical hash-based Owen scrambling*, JCGT 9 (2020), for the
//! Sobol sequence, whose implementation is the `sobol_burley` crate's.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Draw;

/// Points of the design over dimensions with `lengths` values each. `round` is the number of points a Latin hypercube
/// is made for at a time.
pub(super) fn points(
    draw: Draw,
    lengths: &[usize],
    seed: u64,
    round: usize,
) -> Box<dyn Iterator<Item = Vec<usize>>> {
    let lengths = lengths.to_vec();
    match draw {
        Draw::Grid => Box::new(grid(lengths)),
        Draw::Random => {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            Box::new(std::iter::repeat_with(move || {
                lengths.iter().map(|&n| random.random_range(0..n)).collect()
            }))
        }
        Draw::LatinHypercube => {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            Box::new(
                std::iter::repeat_with(move || hypercube(&lengths, round.max(1), &mut random))
                    .flatten(),
            )
        }
        Draw::Sobol => Box::new(sobol(lengths, seed)),
    }
}

/// All combinations, in an order whose every beginning is spread over the whole grid. Steps are about the golden
/// section of the size, and share no factor with it.
fn grid(lengths: Vec<usize>) -> impl Iterator<Item = Vec<usize>> {
    let size: u128 = lengths.iter().map(|&n| n as u128).product();
    let mut step = ((size as f64 * 0.618_033_988_749_895) as u128).max(1);
    while gcd(step, size) != 1 {
        step += 1;
    }
    let mut at = 0u128;
    let mut left = size;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let mut rest = at;
        let point = lengths
            .iter()
            .map(|&n| {
                let place = (rest % n as u128) as usize;
                rest /= n as u128;
                place
            })
            .collect();
        at = (at + step) % size;
        Some(point)
    })
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `n` points: each dimension is cut into `n` strata, and each stratum is used once.
fn hypercube(lengths: &[usize], n: usize, random: &mut Pcg64Mcg) -> Vec<Vec<usize>> {
    let columns: Vec<Vec<usize>> = lengths
        .iter()
        .map(|&length| {
            let mut strata: Vec<usize> = (0..n).collect();
            strata.shuffle(random);
            strata
                .into_iter()
                .map(|stratum| {
                    let place = (stratum as f64 + random.random::<f64>()) / n as f64;
                    ((place * length as f64) as usize).min(length - 1)
                })
                .collect()
        })
        .collect();
    (0..n)
        .map(|i| columns.iter().map(|column| column[i]).collect())
        .collect()
}

/// Maximum number of dimensions of the sequence; further ones start it again with another scrambling.
const SOBOL_DIMENSIONS: u32 = 256;

fn sobol(lengths: Vec<usize>, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let seed = (seed ^ (seed >> 32)) as u32;
    // The sequence has 2¹⁶ points; beyond them it is scrambled anew.
    (0u32..).map(move |index| {
        let (index, turn) = (index & 0xffff, index >> 16);
        lengths
            .iter()
            .zip(0u32..)
            .map(|(&length, dimension)| {
                let again = turn.wrapping_add(dimension / SOBOL_DIMENSIONS);
                let scrambling = seed.wrapping_add(again.wrapping_mul(0x9e37_79b9));
                let place = sobol_burley::sample(index, dimension % SOBOL_DIMENSIONS, scrambling);
                ((f64::from(place) * length as f64) as usize).min(length - 1)
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ALL: [Draw; 4] = [Draw::Grid, Draw::Random, Draw::LatinHypercube, Draw::Sobol];

    #[test]
    fn points_stay_on_the_grid_and_seeds_repeat_them() {
        for draw in ALL {
            let take = |seed| -> Vec<_> { points(draw, &[3, 5, 1], seed, 8).take(15).collect() };
            assert_eq!(take(1), take(1), "{draw:?}");
            let fits = |p: &Vec<usize>| p[0] < 3 && p[1] < 5 && p[2] == 0;
            assert!(take(2).iter().all(fits), "{draw:?}");
            if draw != Draw::Grid {
                assert_ne!(take(1), take(2), "{draw:?}");
            }
        }
    }

    #[test]
    fn a_grid_gives_every_combination_once() {
        let all: Vec<_> = points(Draw::Grid, &[4, 3, 2], 0, 1).collect();
        assert_eq!(all.len(), 24);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 24);
        // Its beginning is spread: no value of the first factor is missing after a third.
        let firsts: HashSet<_> = all[..8].iter().map(|p| p[0]).collect();
        assert_eq!(firsts.len(), 4);
    }

    #[test]
    fn balanced_designs_use_every_value_equally() {
        for draw in [Draw::LatinHypercube, Draw::Sobol] {
            let mut counts = [0; 4];
            for point in points(draw, &[4, 7], 3, 64).take(64) {
                counts[point[0]] += 1;
            }
            assert_eq!(counts, [16; 4], "{draw:?}");
        }
    }
}
