//! Taking samples of a bound kernel.
//!
//! A sample is the mean of `number` calls back to back, `number` being chosen so that a sample is long against the
//! clock's resolution. With evicted caches it is always one call, and evicting is not part of it.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tvm_bridge::Tensor;

use super::TimingPolicy;
use super::caches::Place;
use super::timer::Timer;
use crate::stats::{Nanos, Samples, StopReason, Timing, collect};

/// Shortest sample worth taking: a thousand times the clock's resolution.
pub(crate) const MIN_SAMPLE: Duration = Duration::from_micros(50);
/// Maximum number of calls in one sample.
const MAX_NUMBER: u32 = 10_000;
/// Warm-up ends early once it has taken this long: the caches are as warm as they get.
const WARM_UP_LIMIT: Duration = Duration::from_millis(200);

/// State of the caches at the start of a sample.
pub enum Caches<'a> {
    /// Caches stay as the previous call left them.
    Kept,
    /// The tensors that the function returns are placed anew before each sample, which is a single call.
    Placed(&'a mut dyn Place, &'a dyn Fn() -> &'a [Tensor]),
}

/// The samples of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// One call's time by sample, in the order taken.
    pub samples: Samples,
    /// Calls in each sample.
    pub number: u32,
    /// Calls before the first sample.
    pub warmup: u32,
    /// Why sampling ended.
    pub stopped: StopReason,
}

impl Taken {
    /// Median time of a call; zero without samples.
    pub fn median(&self) -> Duration {
        let summary = self.samples.summary();
        summary.map_or(Duration::ZERO, |s| {
            Duration::from_nanos(s.median.get().round() as u64)
        })
    }

    /// Estimated duration of all samples, from their median.
    pub fn duration(&self) -> Duration {
        let calls = self.samples.len() as f64 * f64::from(self.number);
        self.median().mul_f64(calls)
    }
}

/// A limit beyond which a kernel is not worth its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pruned {
    /// Duration of the kernel's first run.
    pub first: Duration,
    /// Runs that take longer than this are pruned.
    pub limit: Duration,
}

/// Times `number` calls of `run`.
///
/// # Errors
/// Fails with the first error of `run`; later calls are not made.
pub fn time_calls<E>(
    timer: &mut dyn Timer,
    number: u32,
    run: impl FnMut() -> Result<(), E>,
) -> Result<Duration, E> {
    around_calls(number, run, |calls| timer.time(number, calls))
}

/// The result of `time` for `number` calls of `run`.
fn around_calls<T, E>(
    number: u32,
    mut run: impl FnMut() -> Result<(), E>,
    time: impl FnOnce(&mut dyn FnMut()) -> T,
) -> Result<T, E> {
    let mut result = Ok(());
    let timed = time(&mut || {
        for _ in 0..number {
            result = run();
            if result.is_err() {
                break;
            }
        }
    });
    result.map(|()| timed)
}

/// Times a kernel once more if its first run was beyond the limit. `None` if the first or the second run is within it.
///
/// # Errors
/// Fails if `run` does.
pub fn take_if_pruned<E>(
    pruned: Pruned,
    timer: &mut dyn Timer,
    run: impl FnMut() -> Result<(), E>,
) -> Result<Option<Taken>, E> {
    if pruned.first <= pruned.limit {
        return Ok(None);
    }
    let elapsed = time_calls(timer, 1, run)?;
    Ok((elapsed > pruned.limit).then(|| Taken {
        samples: [Nanos::per_call(elapsed, 1)].into_iter().collect(),
        number: 1,
        warmup: 1,
        stopped: StopReason::Pruned,
    }))
}

/// Warms up and takes samples of `run`, whose first run has taken `first`, as the policy says.
///
/// # Errors
/// Fails with the first error of `run`, or of placing tensors.
pub fn take<E: From<tvm_bridge::Error>>(
    policy: TimingPolicy,
    first: Duration,
    timer: &mut dyn Timer,
    caches: &mut Caches<'_>,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Taken, E> {
    let Warm { warmup, number } = warm_up(policy, first, MIN_SAMPLE, |calls| {
        time_calls(timer, calls, &mut run)
    })?;
    let number = match caches {
        Caches::Placed(..) => 1,
        Caches::Kept => number,
    };
    let mut ahead = Vec::new().into_iter();
    let (samples, stopped) = collect(policy.stop, || {
        let mut placing = Duration::ZERO;
        let elapsed = match ahead.next() {
            Some(elapsed) => elapsed,
            None => {
                placing = place(caches)?;
                ahead = around_calls(number, &mut run, |calls| timer.samples(number, calls))?
                    .into_iter();
                ahead.next().unwrap_or_default()
            }
        };
        Ok::<_, E>(Timing {
            ns: Nanos::per_call(elapsed, number),
            spent: placing + elapsed,
        })
    })?;
    Ok(Taken {
        samples,
        number,
        warmup,
        stopped,
    })
}

/// The state before the first sample.
pub(crate) struct Warm {
    /// Calls so far.
    pub warmup: u32,
    /// Calls of a sample.
    pub number: u32,
}

/// Warms up by single calls of a kernel whose first run took `first`. A sample takes at least `least_sample`, unless
/// the policy sets the number of its calls.
pub(crate) fn warm_up<E>(
    policy: TimingPolicy,
    first: Duration,
    least_sample: Duration,
    mut time: impl FnMut(u32) -> Result<Duration, E>,
) -> Result<Warm, E> {
    let mut warmup = 0;
    let mut warmed = Duration::ZERO;
    let mut shortest = first;
    while warmup < policy.warmup && (warmup == 0 || warmed < WARM_UP_LIMIT) {
        let elapsed = time(1)?;
        warmed += elapsed;
        shortest = shortest.min(elapsed);
        warmup += 1;
    }
    let number = match policy.number {
        Some(number) => number.max(1),
        None => calls_per_sample(shortest, least_sample),
    };
    Ok(Warm { warmup, number })
}

/// Places the tensors if that was requested, and returns how long it took.
pub(super) fn place(caches: &mut Caches<'_>) -> tvm_bridge::Result<Duration> {
    let Caches::Placed(place, tensors) = caches else {
        return Ok(Duration::ZERO);
    };
    let start = Instant::now();
    place.place(tensors())?;
    Ok(start.elapsed())
}

fn calls_per_sample(call: Duration, least_sample: Duration) -> u32 {
    let calls = least_sample.as_nanos().div_ceil(call.as_nanos().max(1));
    u32::try_from(calls)
        .unwrap_or(MAX_NUMBER)
        .clamp(1, MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::mock::ScriptedTimer;
    use crate::stats::StopRule;

    fn policy(number: Option<u32>) -> TimingPolicy {
        TimingPolicy {
            warmup: 2,
            number,
            stop: StopRule {
                ci_target: 0.0,
                min_samples: 1,
                max_samples: 3,
                budget_ns: 1_000_000_000,
            },
        }
    }

    fn sampled(timer: &mut ScriptedTimer, number: Option<u32>) -> (tvm_bridge::Result<Taken>, u32) {
        let mut calls = 0;
        let first = Duration::from_nanos(10_000);
        let taken = take(policy(number), first, timer, &mut Caches::Kept, || {
            calls += 1;
            Ok(())
        });
        (taken, calls)
    }

    #[test]
    fn a_pruned_kernel_costs_one_run_more_and_an_unlucky_one_its_samples() {
        let limit = Duration::from_millis(1);
        let first = 3 * limit;
        let pruned = |first, ns| {
            let mut timer = ScriptedTimer::new([ns]);
            take_if_pruned(Pruned { first, limit }, &mut timer, || Ok::<(), ()>(())).unwrap()
        };
        let taken = pruned(first, 2_000_000).unwrap();
        assert_eq!(
            (taken.samples.len(), taken.stopped),
            (1, StopReason::Pruned)
        );
        assert_eq!(pruned(first, 900_000), None, "the first run was unlucky");
        assert_eq!(
            pruned(limit, 2_000_000),
            None,
            "a first run within the limit costs nothing"
        );
    }

    #[test]
    fn samples_of_short_kernels_hold_many_calls() {
        assert_eq!(calls_per_sample(Duration::from_millis(1), MIN_SAMPLE), 1);
        assert_eq!(calls_per_sample(Duration::from_micros(1), MIN_SAMPLE), 50);
        assert_eq!(calls_per_sample(Duration::ZERO, MIN_SAMPLE), MAX_NUMBER);
    }

    #[test]
    fn a_scripted_clock_decides_every_number() {
        let mut timer = ScriptedTimer::new([9_000, 8_000, 5_000, 6_000, 7_000]);
        let (taken, calls) = sampled(&mut timer, None);
        let taken = taken.unwrap();
        // The fastest of the first and the two warm-up runs fits seven times into 50 µs.
        assert_eq!((taken.warmup, taken.number), (2, 7));
        assert_eq!(calls, 2 + 3 * 7);
        let times: Vec<f64> = taken.samples.times().map(Nanos::get).collect();
        assert_eq!(times, [5_000.0, 6_000.0, 7_000.0]);
    }
}
