//! When to stop sampling a point: narrow enough, or out of budget.
//!
//! The interval is looked at again only after the number of samples has grown by a tenth. Looking
//! after every sample would stop at the first lucky moment, and so report intervals that are too
//! narrow. The simulation below states how much coverage remains.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use opdata::contract::StopRule;

use super::{
    MIN_FOR_INTERVAL, MedianInterval, Nanos, Samples, median_of_sorted, relative_half_width,
};

/// Past this many times the budget a point ends even without enough samples for an interval.
const OVERRUN_LIMIT: f64 = 4.0;

/// Why sampling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The interval is as narrow as asked.
    Precise,
    /// The time budget is spent.
    TimeSpent,
    /// The largest number of samples is taken.
    SamplesSpent,
    /// The point is too slow beside the best known to be worth samples.
    #[serde(alias = "hopeless")]
    Pruned,
    /// The time is a simulator's, the same at every run.
    Simulated,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Take another sample.
    Continue,
    /// Stop, and why.
    Stop(StopReason),
}

/// One sample and the time spent on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Time of one call.
    pub ns: Nanos,
    /// Time spent on the whole sample: all its calls, and emptying the caches before it if requested.
    pub spent: Duration,
}

/// Samples taken so far under a [`StopRule`].
#[derive(Debug, Clone)]
pub struct Sampler {
    rule: StopRule,
    samples: Samples,
    spent_ns: f64,
    next_look: usize,
}

impl Sampler {
    /// A sampler without samples.
    pub fn new(rule: StopRule) -> Self {
        Self {
            rule,
            samples: Samples::new(),
            spent_ns: 0.0,
            next_look: (rule.min_samples as usize).max(MIN_FOR_INTERVAL),
        }
    }

    /// Adds a sample and says what to do next.
    pub fn push(&mut self, timing: Timing) -> Decision {
        self.spent_ns += timing.spent.as_nanos() as f64;
        self.samples.push(timing.ns);
        self.decide()
    }

    /// Why there may be no further sample, however wide the interval is.
    pub fn out_of(&self) -> Option<StopReason> {
        let n = self.samples.len();
        let budget_ns = self.rule.budget_ns as f64;
        if self.left() == 0 {
            Some(StopReason::SamplesSpent)
        } else if self.spent_ns >= budget_ns
            && (n >= MIN_FOR_INTERVAL || self.spent_ns >= budget_ns * OVERRUN_LIMIT)
        {
            Some(StopReason::TimeSpent)
        } else {
            None
        }
    }

    /// Samples that may follow.
    pub fn left(&self) -> usize {
        (self.rule.max_samples as usize).saturating_sub(self.samples.len())
    }

    /// The samples taken, in order.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Ends sampling.
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    fn decide(&mut self) -> Decision {
        let n = self.samples.len();
        // The last sample counts, too. A point that becomes precise just as its budget runs out is still called
        // precise.
        let out_of = self.out_of();
        let enough = n >= MIN_FOR_INTERVAL.max(self.rule.min_samples as usize);
        if enough && (n >= self.next_look || out_of.is_some()) {
            self.next_look = n + (n / 10).max(1);
            if self.relative_half_width() <= self.rule.ci_target {
                return Decision::Stop(StopReason::Precise);
            }
        }
        out_of.map_or(Decision::Continue, Decision::Stop)
    }

    fn relative_half_width(&self) -> f64 {
        let sorted = self.samples.sorted();
        let interval = MedianInterval::of_sorted(&sorted);
        relative_half_width(median_of_sorted(&sorted), interval.low, interval.high)
    }
}

/// Takes samples with `take` until `rule` says stop. An error of `take` ends it at once.
pub fn collect<E>(
    rule: StopRule,
    mut take: impl FnMut() -> Result<Timing, E>,
) -> Result<(Samples, StopReason), E> {
    let mut sampler = Sampler::new(rule);
    loop {
        if let Decision::Stop(reason) = sampler.push(take()?) {
            return Ok((sampler.into_samples(), reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Noise;
    use std::convert::Infallible;

    const RULE: StopRule = StopRule {
        ci_target: 0.03,
        min_samples: 10,
        max_samples: 1000,
        budget_ns: 1_000_000_000,
    };

    fn timing(per_call: Nanos, spent_ns: u64) -> Result<Timing, Infallible> {
        Ok(Timing {
            ns: per_call,
            spent: Duration::from_nanos(spent_ns),
        })
    }

    #[test]
    fn quiet_point_stops_at_the_minimum() {
        let (samples, reason) =
            collect(RULE, || timing(Nanos::new(1000.0).unwrap(), 1000)).unwrap();
        assert_eq!((samples.len(), reason), (10, StopReason::Precise));
    }

    #[test]
    fn noisy_point_runs_out_of_samples() {
        let mut noise = Noise::new(1);
        let rule = StopRule {
            ci_target: 0.0001,
            ..RULE
        };
        let (samples, reason) = collect(rule, || timing(noise.skewed(1000.0), 10)).unwrap();
        assert_eq!((samples.len(), reason), (1000, StopReason::SamplesSpent));
    }

    #[test]
    fn budget_waits_for_an_interval_but_not_for_ever() {
        let mut noise = Noise::new(2);
        // 0.3 s a sample: the budget is spent after 4, six are taken for the interval
        let (samples, reason) = collect(RULE, || timing(noise.skewed(3e8), 300_000_000)).unwrap();
        assert_eq!((samples.len(), reason), (6, StopReason::TimeSpent));
        // 5 s a sample: over four budgets with the first one
        let (samples, reason) = collect(RULE, || timing(noise.skewed(5e9), 5_000_000_000)).unwrap();
        assert_eq!((samples.len(), reason), (1, StopReason::TimeSpent));
    }

    #[test]
    fn an_error_ends_it() {
        let mut left = 3;
        let result = collect(RULE, || {
            left -= 1;
            if left == 0 {
                Err("crashed")
            } else {
                timing(Nanos::ZERO, 1).map_err(|never| match never {})
            }
        });
        assert_eq!(result.unwrap_err(), "crashed");
    }

    #[test]
    fn stopping_early_keeps_most_of_the_coverage() {
        // Sequential stopping reduces coverage; the module's text refers to this figure.
        let mut noise = Noise::new(3);
        let trials = 2000;
        let held = (0..trials)
            .filter(|_| {
                let (samples, _) = collect(RULE, || timing(noise.skewed(1000.0), 1000)).unwrap();
                let s = samples.summary().unwrap();
                s.ci_low.get() <= 1000.0 && 1000.0 <= s.ci_high.get()
            })
            .count();
        let share = held as f64 / trials as f64;
        assert!((0.90..=0.99).contains(&share), "covered {share}");
    }
}
