//! A fixed piece of work that tells how fast the machine is at the moment.
//!
//! It is taken before and after every point. Its time over the best seen in the run is the point's drift: 1.00 on a
//! quiet machine, more when something else takes the core, the clock or the cache away.

use std::hint::black_box;
use std::time::Instant;

/// Elements of the vector worked on: half of a 32 KiB first-level cache.
const ELEMENTS: usize = 4096;
/// Passes over the vector in one run, about 100 µs in all.
const PASSES: usize = 128;
/// Runs of which the fastest counts, so that one interrupt is not taken for drift.
const RUNS: usize = 3;

/// The sentinel with its baseline.
#[derive(Debug)]
pub struct Sentinel {
    data: Vec<f32>,
    best_ns: f64,
}

impl Sentinel {
    /// Prepares the work and takes a first baseline.
    pub fn new() -> Sentinel {
        let mut sentinel = Sentinel {
            data: vec![1.0; ELEMENTS],
            best_ns: f64::INFINITY,
        };
        for _ in 0..RUNS {
            sentinel.drift();
        }
        sentinel
    }

    /// Time of the work now over the best time so far, at least 1.
    pub fn drift(&mut self) -> f64 {
        let now = (0..RUNS)
            .map(|_| self.run_ns())
            .fold(f64::INFINITY, f64::min);
        self.best_ns = self.best_ns.min(now);
        now / self.best_ns
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

impl Default for Sentinel {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_relative_to_the_best_and_never_below_one() {
        let mut sentinel = Sentinel::new();
        assert!((0..20).all(|_| sentinel.drift() >= 1.0));
        sentinel.best_ns /= 10.0;
        assert!(
            sentinel.drift() > 5.0,
            "a machine ten times slower than the baseline has drifted"
        );
    }
}
