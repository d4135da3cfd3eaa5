//! TVM's thread pool.
//!
//! The pool belongs to the thread that starts it and never grows, and by itself it takes half the hardware threads on
//! x86. [`Pool`] starts it at the size wanted, one pool thread a core, and then sets how many of its threads parallel
//! loops use. Once a pool has started, the process must not fork: children would wait for threads they do not have.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::call::{Obj, array, call, int, text, value};
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// `ThreadGroup::kSpecifyOneCorePerThread` of TVM's runtime.
const ONE_CORE_PER_THREAD: i64 = -2;

/// The pool of the thread that started it.
#[derive(Debug)]
pub struct Pool {
    /// Processor number for each pool thread.
    processors: Vec<usize>,
    /// What was set last.
    in_use: Cell<usize>,
    _bound_to_thread: PhantomData<*const ()>,
}

impl Pool {
    /// Starts this thread's pool with `threads` threads (the caller's is one of them), on the processors that the
    /// process may use; with more threads than processors, they share.
    ///
    /// # Errors
    /// TVM cannot be loaded, `threads` is zero, or this thread's pool had started before with fewer threads.
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
        let pool = Pool {
            processors,
            in_use: Cell::new(0),
            _bound_to_thread: PhantomData,
        };
        pool.use_threads(threads)?;
        Ok(pool)
    }

    /// Makes parallel loops use `threads` of the pool's threads from now on.
    ///
    /// # Errors
    /// `threads` is zero or more than the pool has.
    pub fn use_threads(&self, threads: usize) -> Result<()> {
        let Some(processors) = self.processors.get(..threads).filter(|p| !p.is_empty()) else {
            let reason = format!("{threads} threads of a pool of {}", self.processors.len());
            return Err(Error::unexpected("Pool::use_threads", reason));
        };
        if self.in_use.get() == threads {
            return Ok(());
        }
        let names: Vec<Obj> = processors.iter().map(|p| text(&p.to_string())).collect();
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
                self.in_use.set(threads);
                Ok(())
            }
            now => Err(Error::unexpected(
                "runtime.config_threadpool",
                format!("{now} threads instead of {threads}"),
            )),
        }
    }

    /// Number of threads that parallel loops use at present.
    ///
    /// # Errors
    /// TVM's.
    pub fn in_use(&self) -> Result<usize> {
        const NAME: &str = "runtime.NumThreads";
        let n: i64 = value(NAME, call(NAME, &[])?)?;
        Ok(n.max(0) as usize)
    }
}

/// The processors that this thread may run on, as the kernel numbers them.
fn allowed_processors() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is valid, and the call writes at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
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
