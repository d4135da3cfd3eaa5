//! Samples of something that runs for long, with readings of the reference kernel between them.
//!
//! Two readings, one before and one after, are enough for a kernel whose samples take a few milliseconds in all. A
//! whole model's samples take a hundred times as long, and interference comes and goes meanwhile. On two virtual
//! processors of a busy host, mobilenet was measured by four processes at 1 thread. Samples whose reference kernel was
//! slowed by less than a tenth have medians of 9.6 to 10.5 ms. The others have 10.5 to 12.8; all samples of a process
//! have medians of 9.7 to 12.5.
//!
//! The reference kernel does not see everything. Neighbours take part of the last-level cache and of its bandwidth for
//! tens of milliseconds. So samples are spread over the whole time budget, even if the first ones are alike.

use std::time::Duration;

use crate::measure::TimingPolicy;
use crate::measure::sampling::{MIN_SAMPLE, Taken, Warm, warm_up};
use crate::stats::{MIN_FOR_INTERVAL, Nanos, Sampler, Samples, Timing};

pub(crate) use opdata::contract::interference::QUIET_MOMENT as QUIET;

/// Samples between two readings take this long, or are one: a reading takes about a tenth of it.
const BETWEEN_READINGS: Duration = Duration::from_millis(5);

/// Something that can be timed on a device that tells how disturbed it is.
pub trait Watched {
    /// The error of a failing call.
    type Error;

    /// Time of this many calls.
    ///
    /// # Errors
    /// Fails if a call fails.
    fn time(&mut self, calls: u32) -> Result<Duration, Self::Error>;

    /// Time of the reference kernel's work over its idle time.
    ///
    /// # Errors
    /// Fails if the work fails.
    fn slowdown(&mut self) -> Result<f64, Self::Error>;
}

/// Quiet samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Quiet {
    /// Samples that count.
    pub taken: Taken,
    /// The largest slowdown around one of them.
    pub slowdown: f64,
    /// Number of samples discarded because of interference around them.
    pub left_out: u64,
}

/// Warms up and takes samples until the policy's time is spent. `first` is the time of the first run, `slowdown` the device's slowdown
/// just before it. If the policy does not set the calls of a sample, samples are long enough for their greatest number to fill that
/// time. If fewer samples are quiet than the policy requires, those with the smallest slowdown of the reference kernel are used. Their
/// own times never decide.
///
/// # Errors
/// Fails with the first error of `watched`.
pub fn take_quiet<W: Watched>(
    policy: TimingPolicy,
    first: Duration,
    slowdown: f64,
    watched: &mut W,
) -> Result<Quiet, W::Error> {
    let stop = policy.stop;
    let in_turn = Duration::from_nanos(stop.budget_ns) / stop.max_samples.max(1);
    let least_sample = in_turn.clamp(MIN_SAMPLE, BETWEEN_READINGS);
    let Warm { warmup, number } =
        warm_up(policy, first, least_sample, |calls| watched.time(calls))?;
    let mut all = Sampler::new(stop);
    let mut slowdowns = Vec::new();
    let mut before = slowdown;
    let stopped = loop {
        let between = samples_between(watched, number, &all)?;
        let after = watched.slowdown()?;
        for timing in between {
            slowdowns.push(before.max(after));
            all.push(timing);
        }
        before = after;
        if let Some(reason) = all.out_of() {
            break reason;
        }
    };
    let least = MIN_FOR_INTERVAL.max(stop.min_samples as usize);
    let bound = quiet_bound(&slowdowns, least);
    let counting = all.samples().times().zip(&slowdowns);
    let (samples, around): (Samples, Vec<f64>) =
        counting.filter(|(_, slowdown)| **slowdown <= bound).unzip();
    Ok(Quiet {
        left_out: (slowdowns.len() - samples.len()) as u64,
        slowdown: around.into_iter().fold(1.0, f64::max),
        taken: Taken {
            samples,
            number,
            warmup,
            stopped,
        },
    })
}

/// Samples until the next reading of the reference kernel is due.
fn samples_between<W: Watched>(
    watched: &mut W,
    number: u32,
    all: &Sampler,
) -> Result<Vec<Timing>, W::Error> {
    let mut samples = Vec::new();
    let mut spent = Duration::ZERO;
    while spent < BETWEEN_READINGS && (samples.is_empty() || samples.len() < all.left()) {
        let elapsed = watched.time(number)?;
        spent += elapsed;
        samples.push(Timing {
            ns: Nanos::per_call(elapsed, number),
            spent: elapsed,
        });
    }
    Ok(samples)
}

/// The bound on the slowdowns that count: that of a quiet moment, or the lowest that lets `least` of them count.
pub fn quiet_bound(slowdowns: &[f64], least: usize) -> f64 {
    let mut ascending = slowdowns.to_vec();
    ascending.sort_by(f64::total_cmp);
    let last = ascending.iter().take(least).next_back();
    last.copied().unwrap_or(1.0).max(QUIET)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::stats::{StopReason, StopRule};

    /// 10 ms a call, and with a slowdown of d, d times that; the slowdowns of its readings in turn; the last repeats.
    struct Machine {
        slowdowns: Vec<f64>,
        reading: usize,
    }

    impl Machine {
        fn drift_at(&self, reading: usize) -> f64 {
            self.slowdowns[reading.min(self.slowdowns.len() - 1)]
        }
    }

    impl Watched for Machine {
        type Error = Infallible;

        fn time(&mut self, calls: u32) -> Result<Duration, Infallible> {
            let slowdown = self.drift_at(self.reading);
            Ok(Duration::from_millis(10).mul_f64(slowdown) * calls)
        }

        fn slowdown(&mut self) -> Result<f64, Infallible> {
            self.reading += 1;
            Ok(self.drift_at(self.reading - 1))
        }
    }

    fn taken(slowdowns: &[f64]) -> Quiet {
        let policy = TimingPolicy {
            warmup: 1,
            number: None,
            stop: StopRule {
                ci_target: 0.03,
                min_samples: 10,
                max_samples: 1000,
                budget_ns: 1_000_000_000,
            },
        };
        let mut machine = Machine {
            slowdowns: slowdowns.to_vec(),
            reading: 0,
        };
        let first = Duration::from_millis(10);
        take_quiet(policy, first, slowdowns[0], &mut machine).unwrap()
    }

    fn median_ms(quiet: &Quiet) -> f64 {
        quiet.taken.median().as_secs_f64() * 1e3
    }

    #[test]
    fn samples_take_the_whole_time_however_alike_they_are() {
        let quiet = taken(&[1.0]);
        assert_eq!((quiet.taken.samples.len(), quiet.left_out), (100, 0));
        assert_eq!(quiet.taken.stopped, StopReason::TimeSpent);
        assert_eq!((quiet.taken.number, quiet.slowdown), (1, 1.0));
    }

    #[test]
    fn samples_beside_a_disturbed_reading_do_not_count() {
        // Disturbed until the 30th reading: the sample after it stands between a disturbed and a quiet one.
        let mut slowdowns = vec![1.5; 30];
        slowdowns.push(1.0);
        let quiet = taken(&slowdowns);
        assert_eq!((quiet.taken.samples.len(), quiet.left_out), (54, 31));
        assert_eq!((median_ms(&quiet), quiet.slowdown), (10.0, 1.0));
    }

    #[test]
    fn where_it_is_never_quiet_the_least_disturbed_count_and_time_ends_it() {
        let slowdowns: Vec<f64> = (0..200)
            .map(|reading| {
                if (20..40).contains(&reading) {
                    1.3
                } else {
                    2.0
                }
            })
            .collect();
        let quiet = taken(&slowdowns);
        assert_eq!(quiet.taken.stopped, StopReason::TimeSpent);
        assert_eq!((quiet.taken.samples.len(), quiet.slowdown), (19, 1.3));
        assert_eq!(median_ms(&quiet), 13.0);
        let always = taken(&[1.7]);
        assert_eq!((always.slowdown, always.left_out), (1.7, 0));
    }

    #[test]
    fn short_samples_share_a_reading() {
        struct Short(usize);
        impl Watched for Short {
            type Error = Infallible;
            fn time(&mut self, calls: u32) -> Result<Duration, Infallible> {
                Ok(Duration::from_micros(10) * calls)
            }
            fn slowdown(&mut self) -> Result<f64, Infallible> {
                self.0 += 1;
                Ok(2.0)
            }
        }
        let mut policy = TimingPolicy {
            warmup: 0,
            number: None,
            stop: StopRule {
                ci_target: 0.0,
                min_samples: 1,
                max_samples: 230,
                budget_ns: 23_000_000,
            },
        };
        let take = |policy| {
            let mut short = Short(0);
            let quiet = take_quiet(policy, Duration::from_micros(10), 1.0, &mut short).unwrap();
            (
                quiet.taken.number,
                quiet.taken.samples.len(),
                quiet.taken.stopped,
                short.0,
            )
        };
        // 23 ms: 10 calls a sample, 50 samples a reading.
        assert_eq!(take(policy), (10, 230, StopReason::SamplesSpent, 5));
        // As long as 5 ms, and no longer.
        policy.stop.budget_ns = 10_000_000_000;
        assert_eq!(take(policy), (500, 230, StopReason::SamplesSpent, 230));
        policy.number = Some(5);
        assert_eq!(take(policy), (5, 230, StopReason::SamplesSpent, 3));
    }
}
