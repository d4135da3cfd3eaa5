//! The idle times of the reference kernel's work on the quiet machine, by number of threads.

use std::collections::BTreeMap;

/// Share of the readings that are faster than the idle time: the very fastest are luck.
/// The share is small, because on a busy host only a few of a hundred readings find all threads quiet.
const FASTER_SHARE: f64 = 0.02;
/// Maximum number of readings. The baseline is final when it is reached.
const MOST_READINGS: usize = 1024;

/// Times of the reference kernel, ns: those of the slowest thread.
///
/// Both parts are needed. Two hyper-threads of a core hand over in 2.2 µs and multiply in 178. Two separate cores take
/// 7.3 and 89 (EPYC).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReferenceTimes {
    pub products: f64,
    /// Time to transfer cache lines between cores; 0 on one thread.
    pub transfer: f64,
}

impl ReferenceTimes {
    pub fn total(self) -> f64 {
        self.products + self.transfer
    }

    /// The one that took less time.
    pub fn faster(self, other: ReferenceTimes) -> ReferenceTimes {
        if other.total() < self.total() {
            other
        } else {
            self
        }
    }
}

/// Readings by number of threads.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// Readings so far, the fastest first.
    readings: BTreeMap<usize, Vec<ReferenceTimes>>,
    /// Baselines of earlier processes.
    earlier: BTreeMap<usize, ReferenceTimes>,
}

impl Baseline {
    /// A baseline without readings of its own, but with the idle times of earlier processes.
    pub fn after(earlier: impl Iterator<Item = (usize, ReferenceTimes)>) -> Baseline {
        Baseline {
            readings: BTreeMap::new(),
            earlier: earlier.collect(),
        }
    }

    /// Whether an earlier process kept an idle time.
    pub fn knows_earlier(&self, threads: usize) -> bool {
        self.earlier.contains_key(&threads)
    }

    pub fn count(&self, threads: usize) -> usize {
        self.readings.get(&threads).map_or(0, Vec::len)
    }

    pub fn keep(&mut self, threads: usize, reading: ReferenceTimes) {
        let readings = self.readings.entry(threads).or_default();
        if readings.len() < MOST_READINGS {
            let place = readings.partition_point(|r| r.total() < reading.total());
            readings.insert(place, reading);
        }
    }

    /// The idle reading on this many threads: this process's, or that of earlier ones if it was faster.
    pub fn idle(&self, threads: usize) -> Option<ReferenceTimes> {
        let readings = self.readings.get(&threads);
        let own = readings.and_then(|readings| about_the_fastest(readings, FASTER_SHARE));
        let earlier = self.earlier.get(&threads).copied();
        own.into_iter()
            .chain(earlier)
            .reduce(ReferenceTimes::faster)
    }

    /// About the fastest readings of this process, by number of threads.
    pub fn own(&self) -> impl Iterator<Item = (usize, ReferenceTimes)> {
        let of = |(threads, readings): (&usize, &Vec<ReferenceTimes>)| {
            Some((*threads, about_the_fastest(readings, FASTER_SHARE)?))
        };
        self.readings.iter().filter_map(of)
    }
}

/// The reading that this share of the sorted readings, fastest first, beats.
pub(super) fn about_the_fastest(
    fastest_first: &[ReferenceTimes],
    faster_share: f64,
) -> Option<ReferenceTimes> {
    let place = (fastest_first.len() as f64 * faster_share) as usize;
    fastest_first.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn products(products: f64) -> ReferenceTimes {
        ReferenceTimes {
            products,
            transfer: 0.0,
        }
    }

    #[test]
    fn the_idle_time_is_about_the_fastest_and_not_luck() {
        let mut baseline = Baseline::default();
        assert_eq!((baseline.count(2), baseline.idle(2)), (0, None));
        for reading in [130.0, 100.0, 131.0] {
            baseline.keep(2, products(reading));
        }
        assert_eq!(
            (baseline.count(2), baseline.idle(2)),
            (3, Some(products(100.0)))
        );
        for _ in 0..47 {
            baseline.keep(2, products(110.0));
        }
        assert_eq!(baseline.idle(2), Some(products(110.0)), "one of fifty");
        for _ in 0..2 * MOST_READINGS {
            baseline.keep(2, products(90.0));
        }
        assert_eq!(baseline.count(2), MOST_READINGS);
    }

    #[test]
    fn a_process_that_begins_disturbed_goes_by_what_was_usual_before() {
        let mut baseline = Baseline::after([(2, products(100.0))].into_iter());
        baseline.keep(2, products(150.0));
        assert_eq!(baseline.idle(2), Some(products(100.0)));
        let own: Vec<(usize, ReferenceTimes)> = baseline.own().collect();
        assert_eq!(own, [(2, products(150.0))]);
        baseline.keep(2, products(90.0));
        assert_eq!(baseline.idle(2), Some(products(90.0)));
    }

    #[test]
    fn the_fast_transfer_within_a_shared_core_is_not_the_baseline() {
        let own_cores = ReferenceTimes {
            products: 89.0,
            transfer: 7.3,
        };
        let shared = ReferenceTimes {
            products: 178.0,
            transfer: 2.2,
        };
        let mut baseline = Baseline::after([(2, shared)].into_iter());
        (0..40).for_each(|_| baseline.keep(2, shared));
        (0..10).for_each(|_| baseline.keep(2, own_cores));
        assert_eq!(baseline.idle(2), Some(own_cores));
    }
}
