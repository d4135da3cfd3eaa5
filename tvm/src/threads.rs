//! TVM's thread pool.
//!
//! The pool belongs to the thread that starts it and never grows, and by itself it takes half the hardware threads on
//! x86. [`Pool`] starts it at the size wanted, one pool thread a core, and then sets how many of its threads parallel
//! loops use. Once a pool has started, the process must not fork: children would wait for threads they do not have.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Obj, array, call, int, text, value};
use crate::error::{Error, Result};
use crate::libs::Libraries;
use crate::tasks::{Group, parallel_launch};

/// `ThreadGroup::kSpecifyOneCorePerThread` of TVM's runtime.
const ONE_CORE_PER_THREAD: i64 = -2;

thread_local! {
    /// Whether this thread has started a pool.
    static HAS_POOL: Cell<bool> = const { Cell::new(false) };
}

/// The pool of the thread that started it.
#[derive(Debug)]
pub struct Pool {
    /// The processors that the process may use.
    allowed: Vec<usize>,
    /// Processor number for each pool thread, the caller's first.
    processors: Vec<usize>,
    /// The last setting.
    in_use: Cell<usize>,
    _bound_to_thread: PhantomData<*const ()>,
}

impl Pool {
    /// Starts this thread's pool with `threads` threads (the caller's is one of them), on the processors that the
    /// process may use. With more threads than processors, they share.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded, `threads` is zero, or this thread's pool had started before with fewer threads.
    pub fn start(threads: usize) -> Result<Pool> {
        Libraries::load()?;
        if threads == 0 {
            return Err(Error::unexpected(
                "Pool::start",
                "a pool needs at least one thread",
            ));
        }
        let allowed = allowed_processors();
        let processors = allowed.iter().copied().cycle().take(threads).collect();
        Pool::on(allowed, processors)
    }

    /// Starts this thread's pool with one thread on each of these processors, the caller's on the first.
    ///
    /// # Errors
    /// Fails as [`Pool::start`] does.
    pub fn start_on(processors: &[usize]) -> Result<Pool> {
        Libraries::load()?;
        Pool::on(processors.to_vec(), processors.to_vec())
    }

    fn on(allowed: Vec<usize>, processors: Vec<usize>) -> Result<Pool> {
        let threads = processors.len();
        let pool = Pool {
            allowed,
            processors,
            in_use: Cell::new(0),
            _bound_to_thread: PhantomData,
        };
        pool.use_threads(threads)?;
        HAS_POOL.set(true);
        Ok(pool)
    }

    /// Makes parallel loops use `threads` of the pool's threads from now on, each on a processor of its own as far as
    /// possible. The calling thread, which is one of them, stays on the first until [`Pool::release`].
    ///
    /// # Errors
    /// Fails if `threads` is zero or more than the pool has, or the system refuses.
    pub fn use_threads(&self, threads: usize) -> Result<()> {
        if !(1..=self.processors.len()).contains(&threads) {
            let reason = format!("{threads} threads of a pool of {}", self.processors.len());
            return Err(Error::unexpected("Pool::use_threads", reason));
        }
        if self.in_use.get() == threads {
            return Ok(());
        }
        // All processors, whatever the number of threads in use. With fewer processors than threads TVM binds every thread
        // to all of these processors. At one thread, the others would then look for work on the caller's processor.
        let processors = self.processors.iter();
        let names: Vec<Obj> = processors.map(|p| text(&p.to_string())).collect();
        call(
            "runtime.config_threadpool",
            &[
                &int(ONE_CORE_PER_THREAD),
                &int(threads as i64),
                &array(&names)?,
            ],
        )?;
        match self.in_use()? {
            now if now == threads => {
                // TVM lets the calling thread move over all of these processors. From time to time the system keeps it
                // on the processor that a pool thread is bound to, and both share its time.
                bind_this_thread(&self.processors[..1])?;
                self.in_use.set(threads);
                Ok(())
            }
            now => Err(Error::unexpected(
                "runtime.config_threadpool",
                format!("{now} threads instead of {threads}"),
            )),
        }
    }

    /// Lets the calling thread run on all processors of the process again, and threads that it starts with it.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn release(&self) -> Result<()> {
        self.in_use.set(0);
        bind_this_thread(&self.allowed)
    }

    /// Calls `task(number, of)` once on each of the threads in use, as a kernel's parallel loop would be. Task 0 runs
    /// on this thread, the others on the pool's. Returns when all have ended.
    ///
    /// # Errors
    /// Fails if TVM has no such function, or if a task panicked.
    pub fn run<F: Fn(usize, usize) + Sync>(&self, task: &F) -> Result<()> {
        launch(task)
    }

    /// The processors that the process may use, as the kernel numbers them.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Number of threads that parallel loops use at present.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn in_use(&self) -> Result<usize> {
        const NAME: &str = "runtime.NumThreads";
        let n: i64 = value(NAME, call(NAME, &[])?)?;
        Ok(n.max(0) as usize)
    }
}

/// Calls `task(number, of)` once on each thread that parallel loops of this thread use. The same thread has the same
/// number every time; on this thread alone if it has no [`Pool`].
///
/// # Errors
/// Fails as [`Pool::run`] does.
pub fn on_each<F: Fn(usize, usize) + Sync>(task: &F) -> Result<()> {
    if !HAS_POOL.get() {
        task(0, 1);
        return Ok(());
    }
    launch(task)
}

fn launch<F: Fn(usize, usize) + Sync>(task: &F) -> Result<()> {
    /// A task, and whether one of its calls panicked: with one thread, TVM drops what a task returns.
    struct Shared<'a, F> {
        task: &'a F,
        panicked: AtomicBool,
    }

    unsafe extern "C" fn call_task<F: Fn(usize, usize) + Sync>(
        number: i32,
        group: *const Group,
        shared: *const c_void,
    ) -> i32 {
        // SAFETY: TVM passes back the pointer given below, and a group that lives through the call.
        let (shared, of) = unsafe { (&*shared.cast::<Shared<'_, F>>(), (*group).num_task) };
        let run = || (shared.task)(number.max(0) as usize, of.max(1) as usize);
        // No panic may cross into TVM.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        0
    }

    let launch = parallel_launch()?;
    let shared = Shared {
        task,
        panicked: AtomicBool::new(false),
    };
    // SAFETY: what is shared outlives the launch, which returns when all tasks have ended.
    let code = unsafe { launch(call_task::<F>, std::ptr::from_ref(&shared).cast(), 0) };
    if code != 0 || shared.panicked.load(Ordering::Relaxed) {
        return Err(Error::unexpected(
            "TVMBackendParallelLaunch",
            "a task failed",
        ));
    }
    Ok(())
}

/// The processors that this thread may run on, as the operating system numbers them.
fn allowed_processors() -> Vec<usize> {
    processors_of(0)
}

/// The processors that a thread of this process may run on, by the operating system's number for it; 0 is this thread.
fn processors_of(thread: libc::pid_t) -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is valid, and the call writes at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(thread, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: every index is below CPU_SETSIZE, the number of bits in the set.
    let found: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        .filter(|&i| unsafe { libc::CPU_ISSET(i, &set) })
        .collect();
    if found.is_empty() { vec![0] } else { found }
}

/// Lets this thread run on these processors alone.
fn bind_this_thread(processors: &[usize]) -> Result<()> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is valid. Processor numbers came from such a set, so they are
    // below its size. The call reads at most its size.
    let code = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &processor in processors {
            libc::CPU_SET(processor, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match code {
        0 => Ok(()),
        _ => Err(Error::unexpected(
            "sched_setaffinity",
            std::io::Error::last_os_error().to_string(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_thread_in_use_has_a_processor_of_its_own_and_release_frees_the_caller() {
        let allowed = allowed_processors();
        let pool = Pool::start(2).unwrap();
        for threads in [2, 1, 2] {
            pool.use_threads(threads).unwrap();
            let seen = Mutex::new(Vec::new());
            pool.run(&|number, _| seen.lock().unwrap().push((number, allowed_processors())))
                .unwrap();
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            let processors = allowed.iter().cycle().take(threads);
            let expected: Vec<_> = processors.map(|&p| vec![p]).enumerate().collect();
            assert_eq!(seen, expected);
        }
        pool.release().unwrap();
        assert_eq!(allowed_processors(), allowed);
    }

    #[test]
    fn a_thread_that_is_not_in_use_stays_off_the_callers_processor() {
        let allowed = allowed_processors();
        let pool = Pool::start(2).unwrap();
        let second = Mutex::new(0);
        pool.run(&|number, _| {
            if number == 1 {
                // SAFETY: it has no arguments and cannot fail.
                *second.lock().unwrap() = unsafe { libc::gettid() };
            }
        })
        .unwrap();
        pool.use_threads(1).unwrap();
        let its_own = allowed[1 % allowed.len()];
        assert_eq!(processors_of(second.into_inner().unwrap()), [its_own]);
    }

    #[test]
    fn a_task_runs_once_on_each_thread_in_use_and_a_panic_is_an_error() {
        let pool = Pool::start(2).unwrap();
        for threads in [2, 1] {
            pool.use_threads(threads).unwrap();
            let seen = Mutex::new((HashSet::new(), Vec::new()));
            pool.run(&|number, of| {
                let mut seen = seen.lock().unwrap();
                seen.0.insert(std::thread::current().id());
                seen.1.push((number, of));
            })
            .unwrap();
            let (ids, mut tasks) = seen.into_inner().unwrap();
            tasks.sort_unstable();
            let expected: Vec<_> = (0..threads).map(|number| (number, threads)).collect();
            assert_eq!((ids.len(), tasks), (threads, expected));
        }
        let error = pool.run(&|_, _| panic!("on purpose")).unwrap_err();
        assert!(error.to_string().contains("a task failed"), "{error}");
    }
}
