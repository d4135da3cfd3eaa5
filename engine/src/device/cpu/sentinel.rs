//! A fixed piece of work that tells how fast the machine is at the moment.
//!
//! It is taken before and after every point, on as many threads as the point runs on. Its time over its usual time on the
//! quiet machine (the lower decile of the readings with as many threads) is the point's drift: 1.00 on a quiet machine,
//! more when something else takes a core, the clock or the cache away. One thread alone would not see a virtual machine
//! whose processors have come to share a core; where that lasts, the usual time on one thread still tells.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tvm_bridge::Result;
use tvm_bridge::threads::Pool;

/// Elements of the vector worked on: half of a 32 KiB first-level cache.
const ELEMENTS: usize = 4096;
/// Passes over the vector in one run, about 100 µs in all.
const PASSES: usize = 128;
/// Runs of which the fastest counts, so that one interrupt is not taken for drift.
const RUNS: usize = 5;
/// Readings on a number of threads before the first that counts.
const FIRST_READINGS: usize = 10;
/// Share of the readings that are faster than the baseline: the very fastest are luck, not the machine's usual state.
const BASELINE_SHARE: f64 = 0.1;
/// Slower by this factor than one thread, several threads on cores of their own do not share those cores only with each
/// other: what all cores lose in clock rate is less.
const MOST_SLOWDOWN: f64 = 1.5;
/// Most readings kept; beyond them the baseline is settled.
const MOST_READINGS: usize = 1024;

/// The sentinel with its baselines.
#[derive(Debug)]
pub(super) struct Sentinel {
    /// What each thread works on.
    data: Vec<Mutex<Vec<f32>>>,
    /// Threads that have a core each.
    cores: usize,
    /// Readings so far in nanoseconds, ascending, by number of threads.
    readings: BTreeMap<usize, Vec<f64>>,
}

impl Sentinel {
    /// For up to `threads` threads, of which as many as `cores` have a core each.
    pub fn new(threads: usize, cores: usize) -> Sentinel {
        let data = || Mutex::new(vec![1.0; ELEMENTS]);
        Sentinel {
            data: (0..threads).map(|_| data()).collect(),
            cores,
            readings: BTreeMap::new(),
        }
    }

    /// Time of the work on the threads in use now over its usual time there on the quiet machine, at least 1.
    ///
    /// # Errors
    /// The pool's.
    pub fn drift(&mut self, pool: &Pool) -> Result<f64> {
        let threads = pool.in_use()?;
        // The first readings are of cores that wake up.
        while self.count(1) < FIRST_READINGS {
            let now = fastest(|| Ok(self.run_alone_ns()))?;
            self.keep(1, now);
        }
        while self.count(threads) < FIRST_READINGS {
            let now = fastest(|| self.run_ns(pool))?;
            self.keep(threads, now);
        }
        let now = fastest(|| self.run_ns(pool))?;
        self.keep(threads, now);
        Ok((now / self.baseline_ns(threads)).max(1.0))
    }

    fn count(&self, threads: usize) -> usize {
        self.readings.get(&threads).map_or(0, Vec::len)
    }

    fn keep(&mut self, threads: usize, reading: f64) {
        let readings = self.readings.entry(threads).or_default();
        if readings.len() < MOST_READINGS {
            let place = readings.partition_point(|r| *r < reading);
            readings.insert(place, reading);
        }
    }

    /// The usual time on so many threads.
    fn baseline_ns(&self, threads: usize) -> f64 {
        let usual = |threads| {
            let readings = self.readings.get(&threads).map_or(&[][..], |r| r);
            let place = (readings.len() as f64 * BASELINE_SHARE) as usize;
            readings.get(place).copied().unwrap_or(f64::INFINITY)
        };
        if threads <= self.cores {
            usual(threads).min(MOST_SLOWDOWN * usual(1))
        } else {
            usual(threads)
        }
    }

    /// Time on the calling thread.
    fn run_alone_ns(&self) -> f64 {
        let first = self.data.first().map(Mutex::lock);
        first.map_or(1.0, |data| {
            work_ns(&mut data.unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Time of the thread in use that took longest.
    fn run_ns(&self, pool: &Pool) -> Result<f64> {
        let slowest = Mutex::new(1.0);
        pool.run(&|thread, _| {
            let Some(data) = self.data.get(thread) else {
                return;
            };
            let mut data = data.lock().unwrap_or_else(PoisonError::into_inner);
            let took = work_ns(&mut data);
            let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
            *slowest = took.max(*slowest);
        })?;
        Ok(slowest.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The fastest of a few runs.
fn fastest(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        fastest = fastest.min(run()?);
    }
    Ok(fastest)
}

/// Does the work once; what that took.
fn work_ns(data: &mut [f32]) -> f64 {
    let start = Instant::now();
    for _ in 0..PASSES {
        for v in black_box(&mut *data).iter_mut() {
            // Not `mul_add`: without the instruction in the baseline that is a call of the C library.
            *v = *v * 0.999 + 0.001;
        }
    }
    start.elapsed().as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_relative_to_the_usual_on_as_many_threads_and_never_below_one() {
        let pool = Pool::start(2).unwrap();
        let mut sentinel = Sentinel::new(2, 1);
        for threads in [2, 1] {
            pool.use_threads(threads).unwrap();
            assert!((0..20).all(|_| sentinel.drift(&pool).unwrap() >= 1.0));
        }
        let faster = |readings: &mut Vec<f64>| readings.iter_mut().for_each(|r| *r /= 10.0);
        faster(sentinel.readings.get_mut(&2).unwrap());
        pool.use_threads(2).unwrap();
        let drift = sentinel.drift(&pool).unwrap();
        assert!(
            drift > 5.0,
            "a machine ten times slower than the baseline has drifted"
        );
    }

    #[test]
    fn threads_that_share_a_core_from_the_beginning_are_noticed_unless_the_machine_has_no_more() {
        let drift = |cores| {
            let mut sentinel = Sentinel::new(2, cores);
            sentinel.keep(1, 100.0);
            sentinel.keep(2, 210.0);
            210.0 / sentinel.baseline_ns(2)
        };
        assert_eq!(drift(1), 1.0);
        assert_eq!(drift(2), 1.4);
    }
}
