//! Taking samples of a bound kernel.
//!
//! A sample is the mean of `number` calls back to back, `number` being chosen so that a sample is long against the
//! clock's resolution. With flushed caches it is always one call, and flushing is not part of it.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tvm_bridge::Tensor;

use super::flush::Flusher;
use crate::plan::TimingPolicy;
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

/// Warms up and takes samples of `run` as the policy says.
///
/// # Errors
/// The first error of `run`.
pub fn take<E>(
    policy: TimingPolicy,
    mut caches: Caches<'_>,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Taken, E> {
    let begin = Instant::now();
    let mut warmup = 0;
    let mut shortest = Duration::MAX;
    // One call at least, to size the samples.
    while warmup < policy.warmup.max(1) && (warmup == 0 || begin.elapsed() < WARM_UP_LIMIT) {
        let start = Instant::now();
        run()?;
        shortest = shortest.min(start.elapsed());
        warmup += 1;
    }
    let number = match caches {
        Caches::Kept => calls_per_sample(shortest),
        Caches::Flushed(..) => 1,
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
    fn samples_of_short_kernels_hold_many_calls() {
        assert_eq!(calls_per_sample(Duration::from_millis(1)), 1);
        assert_eq!(calls_per_sample(Duration::from_micros(1)), 50);
        assert_eq!(calls_per_sample(Duration::ZERO), MAX_NUMBER);
    }
}
