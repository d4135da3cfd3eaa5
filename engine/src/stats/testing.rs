//! Deterministic made-up timings for the tests of this folder.

use opdata::random::SplitMix64;

use super::Nanos;

/// Seeded noise, so that simulated coverage is the same on every run.
pub(super) struct Noise(SplitMix64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64 + 1e-18
    }

    /// A timing with median `median` (ns) and a long right tail, as timings have.
    pub(super) fn skewed(&mut self, median: f64) -> Nanos {
        let u = self.uniform();
        // Below the median: linear down to 95 %; above: an exponential tail.
        let value = if u < 0.5 {
            median * (0.95 + 0.1 * u)
        } else {
            median * (1.0 - 0.1 * (2.0 * (1.0 - u)).ln())
        };
        Nanos::new(value).expect("positive by construction")
    }
}
