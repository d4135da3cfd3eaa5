//! Statistics of one measured point: raw samples in, a summary with a confidence interval out.
//!
//! Owns the units ([`Nanos`]), the raw samples ([`Samples`], in the order they were taken) and
//! their [`Summary`]. Owns the rule that says when to stop sampling ([`Sampler`]) and the quality
//! grade ([`mod@grade`]). It takes no time itself: callers bring durations, so every rule here is
//! tested with made-up ones.

mod grade;
mod interval;
mod sampler;
#[cfg(test)]
mod testing;

pub use grade::{GradeInput, grade};
pub use interval::{CI_LEVEL, MIN_FOR_INTERVAL, MedianInterval, median_interval_ranks};
pub use opdata::contract::StopRule;
pub use sampler::{Decision, Sampler, StopReason, Timing, collect};

use opdata::stats;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A duration in nanoseconds, finite and not negative.
///
/// A float, because one sample is often the mean of many back-to-back calls and so a fraction of
/// the clock's tick.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Nanos(f64);

impl Nanos {
    /// Zero duration.
    pub const ZERO: Nanos = Nanos(0.0);

    /// Wraps a number of nanoseconds; refuses NaN, infinities and negative numbers.
    pub fn new(value_ns: f64) -> Result<Self, StatsError> {
        if value_ns.is_finite() && value_ns >= 0.0 {
            Ok(Self(value_ns))
        } else {
            Err(StatsError::NotADuration { value: value_ns })
        }
    }

    /// The duration of one of `calls` calls that took `elapsed` together (`calls` counts as 1 at least).
    pub fn per_call(elapsed: std::time::Duration, calls: u32) -> Self {
        Self(Self::from(elapsed).0 / f64::from(calls.max(1)))
    }

    /// The number of nanoseconds.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The total order of durations (there is no NaN among them).
    pub fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl TryFrom<f64> for Nanos {
    type Error = StatsError;

    fn try_from(value: f64) -> Result<Self, StatsError> {
        Self::new(value)
    }
}

impl From<Nanos> for f64 {
    fn from(value: Nanos) -> f64 {
        value.0
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(value: std::time::Duration) -> Self {
        // A Duration is never negative and at most about 1.8e28 ns, well inside f64.
        Self(value.as_nanos() as f64)
    }
}

/// Faults of timing numbers.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StatsError {
    /// A duration that is NaN, infinite or negative: the clock or the arithmetic is broken.
    #[error("{value} ns is not a duration: the clock or the kernel's timer returned nonsense")]
    NotADuration {
        /// The number that was refused.
        value: f64,
    },
    /// There are no samples to summarise.
    #[error("no sample was taken, so there is nothing to summarise")]
    NoSamples,
}

/// Raw samples of one point, each of one call, in the order they were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples(Vec<Nanos>);

impl Samples {
    /// A collection without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next sample.
    pub fn push(&mut self, sample: Nanos) {
        self.0.push(sample);
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their times in the order they were taken.
    pub fn times(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.0.iter().copied()
    }

    /// Their times in ascending order.
    fn sorted(&self) -> Vec<Nanos> {
        let mut sorted: Vec<Nanos> = self.times().collect();
        sorted.sort_by(Nanos::total_cmp);
        sorted
    }

    /// The summary. Fails if there is no sample.
    pub fn summary(&self) -> Result<Summary, StatsError> {
        if self.0.is_empty() {
            return Err(StatsError::NoSamples);
        }
        let sorted = self.sorted();
        let n = sorted.len();
        let mean = sorted.iter().map(|s| s.0).sum::<f64>() / n as f64;
        let std = if n < 2 {
            None
        } else {
            let squares: f64 = sorted.iter().map(|s| (s.0 - mean).powi(2)).sum();
            Some(Nanos((squares / (n - 1) as f64).sqrt()))
        };
        let interval = MedianInterval::of_sorted(&sorted);
        Ok(Summary {
            median: median_of_sorted(&sorted),
            ci_low: interval.low,
            ci_high: interval.high,
            ci_level: interval.level,
            mean: Nanos(mean),
            std,
            min: sorted[0],
            p95: stats::quantile_of_sorted(&sorted, 0.95).unwrap_or(sorted[n - 1]),
            p99: stats::quantile_of_sorted(&sorted, 0.99).unwrap_or(sorted[n - 1]),
            samples: n as u64,
            drift: self.drift(),
        })
    }

    /// Relative difference of the second half's median to the first half's (0.02 = 2 % slower). `None` with fewer than
    /// 8 samples, because halves are then too small.
    fn drift(&self) -> Option<f64> {
        if self.0.len() < 8 {
            return None;
        }
        let (first, second) = self.0.split_at(self.0.len() / 2);
        let median = |half: &[Nanos]| {
            let mut sorted = half.to_vec();
            sorted.sort_by(Nanos::total_cmp);
            median_of_sorted(&sorted).0
        };
        let (first, second) = (median(first), median(second));
        (first > 0.0).then(|| second / first - 1.0)
    }
}

impl Extend<Nanos> for Samples {
    fn extend<I: IntoIterator<Item = Nanos>>(&mut self, samples: I) {
        self.0.extend(samples);
    }
}

impl FromIterator<Nanos> for Samples {
    fn from_iter<I: IntoIterator<Item = Nanos>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// A summary of one point's samples. All times are of one call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Middle value (mean of the middle two when the number of samples is even).
    pub median: Nanos,
    /// Lower end of the median's confidence interval.
    pub ci_low: Nanos,
    /// Upper end of the median's confidence interval.
    pub ci_high: Nanos,
    /// The real level of the interval: at least [`CI_LEVEL`] from [`MIN_FOR_INTERVAL`] samples on. Below that it is
    /// less, and the interval is the whole range.
    pub ci_level: f64,
    /// Arithmetic mean.
    pub mean: Nanos,
    /// Sample standard deviation (n − 1); `None` with a single sample.
    pub std: Option<Nanos>,
    /// Smallest sample.
    pub min: Nanos,
    /// 95th percentile by nearest rank.
    pub p95: Nanos,
    /// 99th percentile by nearest rank.
    pub p99: Nanos,
    /// Number of samples.
    pub samples: u64,
    /// Relative change from the first half's median to the second half's; `None` below 8 samples.
    pub drift: Option<f64>,
}

impl Summary {
    /// Half the interval's width over the median (0.03 = ±3 %); infinite for a median of 0.
    pub fn relative_half_width(&self) -> f64 {
        relative_half_width(self.median, self.ci_low, self.ci_high)
    }
}

/// Half the width of `[low, high]` over `median`; infinite for a median of 0.
fn relative_half_width(median: Nanos, low: Nanos, high: Nanos) -> f64 {
    if median.0 > 0.0 {
        (high.0 - low.0) / 2.0 / median.0
    } else {
        f64::INFINITY
    }
}

/// Median of a sorted, non-empty slice.
fn median_of_sorted(sorted: &[Nanos]) -> Nanos {
    stats::median_of_sorted(sorted).map_or(Nanos::ZERO, Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().map(|v| Nanos::new(*v).unwrap()).collect()
    }

    #[test]
    fn summary_of_known_numbers() {
        let s = samples(&[5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0, 100.0])
            .summary()
            .unwrap();
        assert_eq!(s.median.get(), 4.5);
        assert_eq!(s.min.get(), 1.0);
        assert_eq!(s.mean.get(), 16.0);
        assert_eq!(s.p95.get(), 100.0);
        assert_eq!(s.samples, 8);
        // 8 samples: ranks 1 and 8 give 99.2 %, ranks 2 and 7 only 93 %.
        assert_eq!((s.ci_low.get(), s.ci_high.get()), (1.0, 100.0));
        // halves: median(5,1,4,2)=3 and median(3,6,7,100)=6.5
        assert!((s.drift.unwrap() - (6.5 / 3.0 - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn one_sample_has_no_spread() {
        let s = samples(&[7.0]).summary().unwrap();
        assert_eq!(s.std, None);
        assert_eq!(s.drift, None);
        assert_eq!((s.ci_low.get(), s.ci_high.get()), (7.0, 7.0));
        assert_eq!(s.ci_level, 0.0);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(matches!(
                Nanos::new(bad),
                Err(StatsError::NotADuration { .. })
            ));
        }
        assert_eq!(Samples::new().summary(), Err(StatsError::NoSamples));
        assert!(serde_json::from_str::<Nanos>("-3.0").is_err());
    }

    #[test]
    fn samples_are_written_as_numbers() {
        let json = "[1.5,2.0]";
        let plain: Samples = serde_json::from_str(json).unwrap();
        assert_eq!(plain, samples(&[1.5, 2.0]));
        assert_eq!(serde_json::to_string(&plain).unwrap(), json);
    }

    proptest! {
        #[test]
        fn summary_is_ordered(values in prop::collection::vec(0.0f64..1e12, 1..200)) {
            let s = samples(&values).summary().unwrap();
            let max = values.iter().cloned().fold(0.0, f64::max);
            prop_assert!(s.min.get() <= s.ci_low.get());
            prop_assert!(s.ci_low.get() <= s.median.get());
            prop_assert!(s.median.get() <= s.ci_high.get());
            prop_assert!(s.ci_high.get() <= max);
            prop_assert!(s.min.get() <= s.mean.get() * (1.0 + 1e-12));
            prop_assert!(s.median.get() <= s.p95.get() || values.len() < 3);
            prop_assert!(s.ci_level >= CI_LEVEL || values.len() < MIN_FOR_INTERVAL);
        }

        #[test]
        fn summary_does_not_depend_on_order(mut values in prop::collection::vec(0.0f64..1e9, 1..60)) {
            let forward = samples(&values).summary().unwrap();
            values.reverse();
            let backward = samples(&values).summary().unwrap();
            prop_assert_eq!(forward.median, backward.median);
            prop_assert_eq!(forward.ci_low, backward.ci_low);
            prop_assert_eq!(forward.ci_high, backward.ci_high);
        }
    }
}
