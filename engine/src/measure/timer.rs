//! Taking samples of a bound kernel.
//!
//! A sample is the mean of `number` calls back to back, `number` being chosen so that a sample is long against the
//! clock's resolution. With flushed caches it is always one call, and flushing is not part of it.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tvm_bridge::Tensor;

use super::flush::Flusher;
use crate::measure::TimingPolicy;
use crate::stats::{Nanos, Samples, StopReason, Timing, collect};

/// Shortest sample worth taking: a thousand times the clock's resolution.
const MIN_SAMPLE: Duration = Duration::from_micros(50);
/// Most calls in one sample.
const MAX_NUMBER: u32 = 10_000;
/// Warm-up ends early once it has taken this long: the caches are as warm as they get.
const WARM_UP_LIMIT: Duration = Duration::from_millis(200);

/// State of the caches at the start of a sample.
#[derive(Debug)]
pub enum Caches<'a> {
    /// As the previous call left them.
    Kept,
    /// Without the kernel's arguments.
    Flushed(&'a mut Flusher, &'a [Tensor]),
}

/// The samples of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Time of one call, by sample, in the order taken.
    pub samples: Samples,
    /// Calls in each sample.
    pub number: u32,
    /// Calls before the first sample.
    pub warmup: u32,
    /// Why sampling ended.
    pub stopped: StopReason,
}

/// A limit beyond which a kernel is not worth its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pruned {
    /// What the kernel's first run took.
    pub first: Duration,
    /// Runs that take longer than this are pruned.
    pub limit: Duration,
}

/// Times a kernel whose first run was beyond the limit once more; nothing if that run is not.
///
/// # Errors
/// The error of `run`.
pub fn take_if_pruned<E>(
    pruned: Pruned,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Option<Taken>, E> {
    if pruned.first <= pruned.limit {
        return Ok(None);
    }
    let start = Instant::now();
    run()?;
    let elapsed = start.elapsed();
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
/// The first error of `run`.
pub fn take<E>(
    policy: TimingPolicy,
    first: Duration,
    mut caches: Caches<'_>,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Taken, E> {
    let begin = Instant::now();
    let mut warmup = 0;
    let mut shortest = first;
    while warmup < policy.warmup && (warmup == 0 || begin.elapsed() < WARM_UP_LIMIT) {
        let start = Instant::now();
        run()?;
        shortest = shortest.min(start.elapsed());
        warmup += 1;
    }
    let number = match (&caches, policy.number) {
        (Caches::Flushed(..), _) => 1,
        (Caches::Kept, Some(number)) => number.max(1),
        (Caches::Kept, None) => calls_per_sample(shortest),
    };
    let (samples, stopped) = collect(policy.stop, || {
        let begin = Instant::now();
        if let Caches::Flushed(flusher, tensors) = &mut caches {
            flusher.flush(tensors);
        }
        let start = Instant::now();
        for _ in 0..number {
            run()?;
        }
        let elapsed = start.elapsed();
        Ok(Timing {
            per_call: Nanos::per_call(elapsed, number),
            spent: begin.elapsed(),
        })
    })?;
    Ok(Taken {
        samples,
        number,
        warmup,
        stopped,
    })
}

fn calls_per_sample(call: Duration) -> u32 {
    let calls = MIN_SAMPLE.as_nanos().div_ceil(call.as_nanos().max(1));
    u32::try_from(calls)
        .unwrap_or(MAX_NUMBER)
        .clamp(1, MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hopeless_kernel_costs_one_run_more_and_an_unlucky_one_its_samples() {
        let limit = Duration::from_millis(1);
        let slow = || -> Result<(), ()> {
            std::thread::sleep(2 * limit);
            Ok(())
        };
        let first = 3 * limit;
        let taken = take_if_pruned(Pruned { first, limit }, slow)
            .unwrap()
            .unwrap();
        assert_eq!(
            (taken.samples.len(), taken.stopped),
            (1, StopReason::Pruned)
        );
        let quick = take_if_pruned(Pruned { first, limit }, || Ok::<(), ()>(())).unwrap();
        assert_eq!(quick, None);
        let never = take_if_pruned(
            Pruned {
                first: limit,
                limit,
            },
            || Err(()),
        )
        .unwrap();
        assert_eq!(never, None, "a first run within the limit costs nothing");
    }

    #[test]
    fn samples_of_short_kernels_hold_many_calls() {
        assert_eq!(calls_per_sample(Duration::from_millis(1)), 1);
        assert_eq!(calls_per_sample(Duration::from_micros(1)), 50);
        assert_eq!(calls_per_sample(Duration::ZERO), MAX_NUMBER);
    }
}
