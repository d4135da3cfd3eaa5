//! A fixed piece of work that tells how fast the machine is at the moment.
//!
//! It is taken before and after every point. Its time over its usual time on the quiet machine (the lower decile of the
//! readings) is the point's drift: 1.00 on a quiet machine, more when something else takes the core, the clock or the cache away.

use std::hint::black_box;
use std::time::Instant;

/// Elements of the vector worked on: half of a 32 KiB first-level cache.
const ELEMENTS: usize = 4096;
/// Passes over the vector in one run, about 100 µs in all.
const PASSES: usize = 128;
/// Runs of which the fastest counts, so that one interrupt is not taken for drift.
const RUNS: usize = 5;
/// Share of the readings that are faster than the baseline: the very fastest are luck, not the machine's usual state.
const BASELINE_SHARE: f64 = 0.1;
/// Most readings kept; beyond them the baseline is settled.
const MOST_READINGS: usize = 1024;

/// The sentinel with its baseline.
#[derive(Debug)]
pub(super) struct Sentinel {
    data: Vec<f32>,
    /// Readings so far in nanoseconds, ascending.
    readings: Vec<f64>,
}

impl Sentinel {
    /// Prepares the work and takes a first baseline.
    pub fn new() -> Sentinel {
        let mut sentinel = Sentinel {
            data: vec![1.0; ELEMENTS],
            readings: Vec::new(),
        };
        for _ in 0..2 * RUNS {
            sentinel.drift();
        }
        sentinel
    }

    /// Time of the work now over its usual time on the quiet machine, at least 1.
    pub fn drift(&mut self) -> f64 {
        let now = (0..RUNS)
            .map(|_| self.run_ns())
            .fold(f64::INFINITY, f64::min);
        if self.readings.len() < MOST_READINGS {
            let place = self.readings.partition_point(|r| *r < now);
            self.readings.insert(place, now);
        }
        (now / self.baseline_ns()).max(1.0)
    }

    fn baseline_ns(&self) -> f64 {
        let place = (self.readings.len() as f64 * BASELINE_SHARE) as usize;
        self.readings.get(place).copied().unwrap_or(f64::INFINITY)
    }

    fn run_ns(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..PASSES {
            for v in black_box(&mut self.data).iter_mut() {
                // Not `mul_add`: without the instruction in the baseline that is a call of the C library.
                *v = *v * 0.999 + 0.001;
            }
        }
        start.elapsed().as_nanos().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_relative_to_the_usual_and_never_below_one() {
        let mut sentinel = Sentinel::new();
        assert!((0..20).all(|_| sentinel.drift() >= 1.0));
        sentinel.readings.iter_mut().for_each(|r| *r /= 10.0);
        assert!(
            sentinel.drift() > 5.0,
            "a machine ten times slower than the baseline has drifted"
        );
    }
}
