//! The usual times of the sentinel's work on the quiet machine, by number of threads.

use std::collections::BTreeMap;

/// Share of the readings that are faster than the usual time: the very fastest are luck, not the machine's usual state. Not
/// many more, for on a busy host several threads are quiet at once in a few of a hundred readings.
const FASTER_SHARE: f64 = 0.02;
/// Most readings kept; beyond them the usual time is settled.
const MOST_READINGS: usize = 1024;

/// Readings so far in nanoseconds, ascending, by number of threads.
#[derive(Debug, Default)]
pub(super) struct Baseline(BTreeMap<usize, Vec<f64>>);

impl Baseline {
    pub fn count(&self, threads: usize) -> usize {
        self.0.get(&threads).map_or(0, Vec::len)
    }

    pub fn keep(&mut self, threads: usize, reading: f64) {
        let readings = self.0.entry(threads).or_default();
        if readings.len() < MOST_READINGS {
            let place = readings.partition_point(|r| *r < reading);
            readings.insert(place, reading);
        }
    }

    /// About the fastest reading on so many threads; infinite without any.
    pub fn usual_ns(&self, threads: usize) -> f64 {
        let readings = self.0.get(&threads).map_or(&[][..], |r| r);
        let place = (readings.len() as f64 * FASTER_SHARE) as usize;
        readings.get(place).copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_time_is_about_the_fastest_and_not_luck() {
        let mut baseline = Baseline::default();
        assert_eq!(
            (baseline.count(2), baseline.usual_ns(2)),
            (0, f64::INFINITY)
        );
        for reading in [130.0, 100.0, 131.0] {
            baseline.keep(2, reading);
        }
        assert_eq!((baseline.count(2), baseline.usual_ns(2)), (3, 100.0));
        for _ in 0..47 {
            baseline.keep(2, 110.0);
        }
        assert_eq!(baseline.usual_ns(2), 110.0, "one of fifty");
        for _ in 0..2 * MOST_READINGS {
            baseline.keep(2, 90.0);
        }
        assert_eq!(baseline.count(2), MOST_READINGS);
    }
}
