//! The usual times of the sentinel's work on the quiet machine, by number of threads.

use std::collections::BTreeMap;

/// Share of the readings that are faster than the usual time: the very fastest are luck, not the machine's usual state. Not
/// many more, for on a busy host several threads are quiet at once in a few of a hundred readings.
const FASTER_SHARE: f64 = 0.02;
/// Most readings kept; beyond them the usual time is settled.
const MOST_READINGS: usize = 1024;

/// Times in nanoseconds, by number of threads.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// Readings so far, ascending.
    readings: BTreeMap<usize, Vec<f64>>,
    /// What was usual in earlier processes.
    earlier: BTreeMap<usize, f64>,
}

impl Baseline {
    /// Without readings, after processes in which these times were usual.
    pub fn after(earlier: impl Iterator<Item = (usize, f64)>) -> Baseline {
        Baseline {
            readings: BTreeMap::new(),
            earlier: earlier.collect(),
        }
    }

    pub fn count(&self, threads: usize) -> usize {
        self.readings.get(&threads).map_or(0, Vec::len)
    }

    /// Numbers of threads that there are readings on.
    pub fn threads(&self) -> impl Iterator<Item = usize> {
        self.readings.keys().copied()
    }

    pub fn keep(&mut self, threads: usize, reading: f64) {
        let readings = self.readings.entry(threads).or_default();
        if readings.len() < MOST_READINGS {
            let place = readings.partition_point(|r| *r < reading);
            readings.insert(place, reading);
        }
    }

    /// The usual time on so many threads: this process's, or that of earlier ones if they were faster.
    pub fn usual_ns(&self, threads: usize) -> f64 {
        let earlier = self.earlier.get(&threads).copied();
        self.own_ns(threads).min(earlier.unwrap_or(f64::INFINITY))
    }

    /// About the fastest reading of this process on so many threads; infinite without any.
    pub fn own_ns(&self, threads: usize) -> f64 {
        let readings = self.readings.get(&threads).map_or(&[][..], |r| r);
        about_the_fastest(readings, FASTER_SHARE)
    }
}

/// The time, of some in ascending order, that this share of them beats; infinite without any.
pub(super) fn about_the_fastest(ascending: &[f64], faster_share: f64) -> f64 {
    let place = (ascending.len() as f64 * faster_share) as usize;
    ascending.get(place).copied().unwrap_or(f64::INFINITY)
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

    #[test]
    fn a_process_that_begins_disturbed_goes_by_what_was_usual_before() {
        let mut baseline = Baseline::after([(2, 100.0)].into_iter());
        assert_eq!((baseline.count(2), baseline.usual_ns(2)), (0, 100.0));
        baseline.keep(2, 150.0);
        assert_eq!((baseline.usual_ns(2), baseline.own_ns(2)), (100.0, 150.0));
        baseline.keep(2, 90.0);
        assert_eq!(baseline.usual_ns(2), 90.0);
        assert_eq!(baseline.threads().collect::<Vec<_>>(), [2]);
    }
}
