//! Deterministic made-up timings for the tests of this folder.

use super::Nanos;

/// A small seeded generator (SplitMix64), so that simulated coverage is the same on every run.
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-18
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
