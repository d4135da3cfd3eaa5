//! Distribution-free confidence interval of the median, from order statistics.
//!
//! For independent samples the number below the true median is Binomial(n, 1/2). So the interval between the l-th
//! smallest and the l-th largest covers it with probability 1 − 2·P(B ≤ l − 1), whatever the distribution (Conover,
//! *Practical Nonparametric Statistics*, 3rd ed., §3.2). Hoefler & Belli recommend it for timings ("Scientific
//! Benchmarking of Parallel Computing Systems", SC'15, rule 5). Ties only widen the coverage.

use super::{Nanos, median_of_sorted};

/// The level asked of every interval.
pub const CI_LEVEL: f64 = 0.95;

/// The fewest samples that have an interval of [`CI_LEVEL`]. The range of 6 covers the median with
/// probability 1 − 2/2⁶ = 96.9 %, that of 5 only with 93.8 %.
pub const MIN_FOR_INTERVAL: usize = 6;

/// Above this number of samples the exact binomial sum would start from a number below the smallest float (2⁻¹⁰²²), so
/// the normal approximation takes over. There the two agree to one rank.
const EXACT_LIMIT: usize = 1000;

/// An interval for the median and the level it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// Lower end.
    pub low: Nanos,
    /// Upper end.
    pub high: Nanos,
    /// Coverage in 0..1.
    pub level: f64,
}

impl MedianInterval {
    /// The interval of sorted, non-empty samples.
    pub(super) fn of_sorted(sorted: &[Nanos]) -> Self {
        let n = sorted.len();
        let (low, high, level) = median_interval_ranks(n);
        let interval = Self {
            low: sorted[low - 1],
            high: sorted[high - 1],
            level,
        };
        debug_assert!(
            interval.low <= median_of_sorted(sorted) && median_of_sorted(sorted) <= interval.high
        );
        interval
    }
}

/// The 1-based ranks (low, high) of the narrowest symmetric interval of at least [`CI_LEVEL`] for
/// `n ≥ 1` samples, and the level it really has. Below [`MIN_FOR_INTERVAL`] that is the whole
/// range, with the smaller level it has.
pub fn median_interval_ranks(n: usize) -> (usize, usize, f64) {
    let (rank, level) = if n <= EXACT_LIMIT {
        exact_rank(n)
    } else {
        approximate_rank(n)
    };
    (rank, n + 1 - rank, level)
}

/// Largest l with 1 − 2·P(B(n, ½) ≤ l − 1) ≥ level, by summing the binomial's lower tail.
fn exact_rank(n: usize) -> (usize, f64) {
    let mut probability = 0.5f64.powi(n as i32); // P(B = 0)
    let mut tail = probability;
    let mut best = (1, 1.0 - 2.0 * tail);
    for l in 2..=n.div_ceil(2) {
        // P(B = l−1) from P(B = l−2)
        probability *= (n + 2 - l) as f64 / (l - 1) as f64;
        tail += probability;
        let level = 1.0 - 2.0 * tail;
        if level < CI_LEVEL {
            break;
        }
        best = (l, level);
    }
    best
}

/// The rank by the normal approximation, rounded outwards (Le Boudec, *Performance Evaluation of
/// Computer and Communication Systems*, §2.2): l = ⌊n/2 − 0.98·√n⌋.
fn approximate_rank(n: usize) -> (usize, f64) {
    let n = n as f64;
    let rank = (0.5 * n - 0.98 * n.sqrt()).floor();
    (rank as usize, CI_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Samples;
    use crate::stats::testing::Noise;

    #[test]
    fn ranks_agree_with_published_tables() {
        // Le Boudec, table A.1 (95 %): n → (j, k)
        for (n, low, high) in [
            (6, 1, 6),
            (7, 1, 7),
            (8, 1, 8),
            (9, 2, 8),
            (10, 2, 9),
            (20, 6, 15),
            (30, 10, 21),
            (50, 18, 33),
            (70, 27, 44),
        ] {
            let (l, h, level) = median_interval_ranks(n);
            assert_eq!((l, h), (low, high), "n = {n}");
            assert!(level >= CI_LEVEL);
        }
        assert_eq!(median_interval_ranks(1), (1, 1, 0.0));
        assert_eq!(median_interval_ranks(5).2, 0.9375);
    }

    #[test]
    fn exact_and_approximate_meet() {
        for n in [500usize, 800, 1000] {
            let (exact, approximate) = (exact_rank(n).0, approximate_rank(n).0);
            assert!(
                approximate <= exact && exact - approximate <= 1,
                "n = {n}: {exact} and {approximate}"
            );
        }
        // monotone across the change of method
        assert!(median_interval_ranks(1001).0 + 1 >= median_interval_ranks(1000).0);
    }

    /// Share of simulated intervals that hold the true median of a skewed distribution.
    fn coverage(n: usize, trials: usize) -> f64 {
        let mut noise = Noise::new(7 + n as u64);
        let held = (0..trials)
            .filter(|_| {
                let samples: Samples = (0..n).map(|_| noise.skewed(1000.0)).collect();
                let s = samples.summary().unwrap();
                s.ci_low.get() <= 1000.0 && 1000.0 <= s.ci_high.get()
            })
            .count();
        held as f64 / trials as f64
    }

    #[test]
    fn coverage_is_what_it_says() {
        // 4,000 trials: the standard error of a share of 0.95 is 0.0034
        for n in [6, 10, 25, 60] {
            let share = coverage(n, 4000);
            let promised = median_interval_ranks(n).2;
            assert!(
                (share - promised).abs() < 0.014,
                "n = {n}: covered {share}, promised {promised}"
            );
        }
    }
}
