//! The reference kernel: a fixed piece of work whose time shows how fast the machine is at the moment.
//!
//! It runs before and after every point, on as many threads as the point. The *slowdown* is its time over its time on
//! the idle machine. It is 1.00 if nothing else runs, and more if something takes a core, the clock or the cache away.
//! The idle time is about the fastest reading on as many threads, of this process and of those of the last day. One
//! thread alone would not see that two virtual processors share a core; several threads compared with one do.
//!
//! The work has to slow down as operators do. Seen on a rented virtual machine, whose four processors the host moves about:
//! - Products of small matrices, as in convolutions, take 1.3 times as long while another virtual machine works on the
//!   same core. They take twice as long while two threads share one. A pass over a vector, which waits for its stores, was
//!   slowed 1.8 times by the first, and hardly more by the second.
//! - Threads read what other threads have written, because operators find their inputs in that state. Between two
//!   processors on different dies, a line takes 150 instead of 25 ns, and small operators take twice their time.

mod baseline;
mod kept;
mod work;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tvm_bridge::Result;
use tvm_bridge::threads::Pool;

use self::baseline::{Baseline, ReferenceTimes};
use self::kept::Kept;
use self::work::Work;
use crate::interference::quiet::QUIET;

/// Maximum number of runs of a reading. The fastest counts, so that one interrupt is not taken for slowdown. A run that
/// shows a quiet moment is the last.
const RUNS: usize = 5;
/// Readings on a number of threads before the first that counts, where no earlier process kept an idle time.
const FIRST_READINGS: usize = 15;
/// Readings where an earlier process kept an idle time, one right after the other: enough for cores to wake up.
const WAKING_READINGS: usize = 3;
/// Time between two of the first readings, and between two that wait for a quiet moment. Other virtual machines come and
/// go within a tenth of a second. The pool's threads must have time to fall asleep: the host then places the idle
/// processors anew.
const PAUSE: Duration = Duration::from_millis(20);
/// Readings before the first pause.
const AT_ONCE: usize = 4;
/// Maximum number of readings while waiting for the end of interference.
const MOST_WAITS: usize = 10;
/// After this many readings on a number of threads the idle times are kept for other processes.
const KEPT_AFTER: [usize; 4] = [FIRST_READINGS, 60, 250, 1000];
/// If several threads on cores of their own are slower than one thread by this factor, something else uses those cores.
/// The lower clock rate with all cores busy costs less.
const MOST_SLOWDOWN: f64 = 1.5;

/// The reference kernel with its baselines.
#[derive(Debug)]
pub(crate) struct ReferenceKernel {
    /// The data of each thread.
    work: Vec<Mutex<Box<Work>>>,
    /// Threads that have a core each.
    cores: usize,
    baseline: Baseline,
    kept: Kept,
    /// Readings that wait for the next quiet moment, by number of threads: fewer after each time in vain, as some machines
    /// are not quiet for hours. A quiet moment makes them more again. On one thread it says nothing about two, whose
    /// processors the host may keep far apart.
    waits: BTreeMap<usize, usize>,
}

impl ReferenceKernel {
    /// Measures on up to `threads` threads; the first `cores` of them have a core each.
    pub fn new(threads: usize, cores: usize) -> ReferenceKernel {
        ReferenceKernel::after(threads, cores, Kept::of_installation())
    }

    /// The reference kernel with the idle times that earlier processes kept.
    fn after(threads: usize, cores: usize, kept: Kept) -> ReferenceKernel {
        let work = || Mutex::new(Box::new(Work::new()));
        ReferenceKernel {
            work: (0..threads).map(|_| work()).collect(),
            cores,
            baseline: Baseline::after(kept.idle().into_iter()),
            kept,
            waits: BTreeMap::new(),
        }
    }

    /// Time of the work on the threads in use now over its idle time there, at least 1.
    ///
    /// # Errors
    /// Fails if the pool does.
    pub fn slowdown(&mut self, pool: &Pool) -> Result<f64> {
        let threads = pool.in_use()?;
        // The first readings are of cores that wake up. Without earlier ones, a disturbance must not last through all.
        let (readings, pause) = self.first_readings(1);
        while self.baseline.count(1) < readings {
            std::thread::sleep(pause);
            let alone = || Ok(self.products_alone());
            self.keep(1, fastest(alone, |_| false)?);
        }
        let (readings, pause) = self.first_readings(threads);
        while self.baseline.count(threads) < readings {
            std::thread::sleep(pause);
            self.keep(threads, fastest(|| self.read(pool, threads), |_| false)?);
        }
        let is_quiet = |now| self.slowdown_of(now, threads) <= QUIET;
        let now = fastest(|| self.read(pool, threads), is_quiet)?;
        self.keep(threads, now);
        Ok(self.slowdown_of(now, threads))
    }

    /// Number of readings before the first that counts, and the time between two of them.
    fn first_readings(&self, threads: usize) -> (usize, Duration) {
        match self.baseline.knows_earlier(threads) {
            true => (WAKING_READINGS, Duration::ZERO),
            false => (FIRST_READINGS, PAUSE),
        }
    }

    /// Waits for a quiet moment, a quarter of a second at most, after a reading that was not quiet; the slowdown then.
    ///
    /// # Errors
    /// Fails if the pool does.
    pub fn wait_for_quiet(&mut self, now: f64, pool: &Pool) -> Result<f64> {
        let threads = pool.in_use()?;
        let waits = self.waits.get(&threads).copied().unwrap_or(MOST_WAITS);
        let mut slowdown = now;
        let mut readings = 0;
        while slowdown > QUIET && readings < AT_ONCE + waits {
            // A processor that was idle is slow for a millisecond, and would be idle again in a pause: work wakes it.
            if readings >= AT_ONCE {
                std::thread::sleep(PAUSE);
            }
            slowdown = self.slowdown(pool)?;
            readings += 1;
        }
        let waits = match slowdown <= QUIET {
            true if readings > AT_ONCE => MOST_WAITS.min(2 * waits),
            true => waits.max(1),
            false => waits / 2,
        };
        self.waits.insert(threads, waits);
        Ok(slowdown)
    }

    fn keep(&mut self, threads: usize, reading: ReferenceTimes) {
        self.baseline.keep(threads, reading);
        if KEPT_AFTER.contains(&self.baseline.count(threads)) {
            self.kept.keep(self.baseline.own());
        }
    }

    fn slowdown_of(&self, now: ReferenceTimes, threads: usize) -> f64 {
        let Some(mut idle) = self.baseline.idle(threads) else {
            return 1.0;
        };
        if let Some(alone) = self.baseline.idle(1)
            && threads <= self.cores
        {
            idle.products = idle.products.min(MOST_SLOWDOWN * alone.products);
        }
        (now.total() / idle.total()).max(1.0)
    }

    fn products_alone(&self) -> ReferenceTimes {
        ReferenceTimes {
            products: self.lock(0).map_or(1.0, |mut work| work.products_ns()),
            transfer: 0.0,
        }
    }

    fn read(&self, pool: &Pool, threads: usize) -> Result<ReferenceTimes> {
        let products = slowest(pool, |thread| {
            let mut work = self.lock(thread)?;
            let took = work.products_ns();
            work.write();
            Some(took)
        })?;
        let transfer = match threads {
            1 => 0.0,
            _ => slowest(pool, |thread| {
                Some(self.lock((thread + 1) % threads)?.read_ns())
            })?,
        };
        Ok(ReferenceTimes { products, transfer })
    }

    /// The work of a thread of the pool.
    fn lock(&self, thread: usize) -> Option<MutexGuard<'_, Box<Work>>> {
        let work = self.work.get(thread)?;
        Some(work.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Time of the thread that took longest, ns; threads without a time do not count.
fn slowest(pool: &Pool, time_ns: impl Fn(usize) -> Option<f64> + Sync) -> Result<f64> {
    let slowest = Mutex::new(1.0);
    pool.run(&|thread, _| {
        let took = time_ns(thread).unwrap_or(1.0);
        let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
        *slowest = took.max(*slowest);
    })?;
    Ok(slowest.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The fastest of a few runs; the last is the first one that is `enough`.
fn fastest(
    mut run: impl FnMut() -> Result<ReferenceTimes>,
    enough: impl Fn(ReferenceTimes) -> bool,
) -> Result<ReferenceTimes> {
    let mut fastest = run()?;
    for _ in 1..RUNS {
        if enough(fastest) {
            break;
        }
        fastest = fastest.faster(run()?);
    }
    Ok(fastest)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn reading(products: f64, transfer: f64) -> ReferenceTimes {
        ReferenceTimes { products, transfer }
    }

    #[test]
    fn the_slowdown_is_relative_to_the_idle_time_on_as_many_threads_and_never_below_one() {
        let pool = Pool::start(2).unwrap();
        let mut reference_kernel = ReferenceKernel::after(2, 1, Kept::nowhere());
        for threads in [2, 1] {
            pool.use_threads(threads).unwrap();
            assert!((0..20).all(|_| reference_kernel.slowdown(&pool).unwrap() >= 1.0));
        }
        let transfer = |threads| Some(reference_kernel.baseline.idle(threads)?.transfer);
        assert!(transfer(2) > Some(1.0));
        assert_eq!(transfer(1), Some(0.0));
    }

    #[test]
    fn threads_that_share_a_core_from_the_beginning_are_noticed_unless_the_machine_has_no_more() {
        let slowdown = |cores| {
            let mut reference_kernel = ReferenceKernel::after(2, cores, Kept::nowhere());
            reference_kernel.keep(1, reading(100.0, 0.0));
            reference_kernel.keep(2, reading(210.0, 0.0));
            reference_kernel.slowdown_of(reading(210.0, 0.0), 2)
        };
        assert_eq!(slowdown(1), 1.0);
        assert_eq!(slowdown(2), 1.4);
    }

    #[test]
    fn a_reading_ends_with_its_first_quiet_run() {
        let mut times = [200.0, 150.0, 104.0, 90.0, 300.0].into_iter();
        let mut read = |quiet| {
            let run = || Ok(reading(times.next().unwrap(), 0.0));
            fastest(run, |now| now.total() <= quiet).unwrap().total()
        };
        assert_eq!(read(105.0), 104.0);
        assert_eq!(read(105.0), 90.0);
        assert_eq!(times.next(), Some(300.0));
        let mut times = [120.0, 110.0, 130.0, 115.0, 140.0, 100.0].into_iter();
        let run = || Ok(reading(times.next().unwrap(), 0.0));
        assert_eq!(fastest(run, |_| false).unwrap().total(), 110.0);
        assert_eq!(times.next(), Some(100.0), "five runs at most");
    }

    #[test]
    fn a_transfer_that_takes_longer_is_a_slowdown() {
        let mut reference_kernel = ReferenceKernel::after(2, 2, Kept::nowhere());
        reference_kernel.keep(1, reading(100.0, 0.0));
        reference_kernel.keep(2, reading(100.0, 50.0));
        assert_eq!(reference_kernel.slowdown_of(reading(100.0, 50.0), 2), 1.0);
        assert_eq!(reference_kernel.slowdown_of(reading(100.0, 125.0), 2), 1.5);
        assert_eq!(reference_kernel.slowdown_of(reading(90.0, 40.0), 2), 1.0);
    }

    #[test]
    fn a_moment_that_is_not_quiet_is_waited_for_but_not_for_ever() {
        let pool = Pool::start(1).unwrap();
        let mut reference_kernel = ReferenceKernel::after(1, 1, Kept::nowhere());
        // No reading will be as fast as these.
        for _ in 0..1000 {
            reference_kernel.keep(1, reading(1.0, 0.0));
        }
        let start = Instant::now();
        for left in [5, 2, 1, 0, 0] {
            assert!(reference_kernel.wait_for_quiet(2.0, &pool).unwrap() > QUIET);
            assert_eq!(reference_kernel.waits, BTreeMap::from([(1, left)]));
        }
        assert!(start.elapsed() >= PAUSE * (10 + 5 + 2 + 1));
        // Every reading is faster than these.
        reference_kernel.baseline = Baseline::default();
        for _ in 0..1000 {
            reference_kernel.keep(1, reading(1e12, 0.0));
        }
        for now in [1.0, 2.0] {
            reference_kernel.waits = BTreeMap::from([(1, 0), (2, 5)]);
            assert_eq!(reference_kernel.wait_for_quiet(now, &pool).unwrap(), 1.0);
            let waits = [(1, 1), (2, 5)];
            assert_eq!(
                reference_kernel.waits,
                waits.into(),
                "it can be quiet again"
            );
        }
    }
}
