//! A gate in the GPU's queue: work after it waits until the host has put all of it there.
//!
//! An event is passed as soon as the GPU comes to it. Where the queue is empty, the first kernel after it comes some
//! microseconds later from the host, and further ones one by one. A time between two events is then the time to start
//! kernels, not to run them. The effect is larger for a single call than in a model that keeps the queue full. The gate
//! is a host function on the stream (`cudaLaunchHostFunc` of the CUDA Runtime API), which returns when the host says
//! so.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::status::{CudaError, DEFAULT_STREAM, Status, Stream, done};

/// `cudaHostFn_t`.
type OnHost = unsafe extern "C" fn(*mut c_void);
/// `cudaLaunchHostFunc`.
pub(super) type LaunchOnHost = unsafe extern "C" fn(Stream, OnHost, *mut c_void) -> Status;

/// Maximum time that work is held back. The queue has room for about a thousand kernels: starting more blocks the host until
/// the first are done. Freeing memory blocks it too.
const LONGEST: Duration = Duration::from_millis(5);

/// How often gates were closed, and opened again, in this process.
static CLOSED: AtomicU64 = AtomicU64::new(0);
static OPENED: AtomicU64 = AtomicU64::new(0);
/// Gates that opened because their time was up, since the last call of [`take_late`].
static LATE: AtomicU64 = AtomicU64::new(0);

/// Number of gates since the last call that opened before all their work was queued. The times of these samples include
/// waits for the host.
pub(super) fn take_late() -> u64 {
    LATE.swap(0, Ordering::Relaxed)
}

/// A gate on the default stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    launch: LaunchOnHost,
}

impl Gate {
    /// An open one.
    pub fn new(launch: LaunchOnHost) -> Gate {
        Gate { launch }
    }

    /// Holds back all work that starts from now on, until the answer is dropped or [`LONGEST`] is over.
    ///
    /// # Errors
    /// Fails with CUDA's error.
    pub fn close(self) -> Result<Closed, CudaError> {
        let number = CLOSED.fetch_add(1, Ordering::Relaxed) + 1;
        let closed = Closed { number };
        // SAFETY: the function takes its argument for a number, and calls nothing of CUDA's.
        let status = unsafe { (self.launch)(DEFAULT_STREAM, wait_for, number as *mut c_void) };
        done("cudaLaunchHostFunc", status)?;
        Ok(closed)
    }
}

/// A closed gate; dropping it opens it.
#[derive(Debug)]
pub(super) struct Closed {
    number: u64,
}

impl Drop for Closed {
    fn drop(&mut self) {
        OPENED.fetch_max(self.number, Ordering::Release);
    }
}

/// A callback that the stream waits for. It returns when the gate of this number opens, or when its time is up.
unsafe extern "C" fn wait_for(number: *mut c_void) {
    let begun = Instant::now();
    while OPENED.load(Ordering::Acquire) < number as u64 {
        if begun.elapsed() >= LONGEST {
            LATE.fetch_add(1, Ordering::Relaxed);
            return;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of its own for each function, as a thread.
    unsafe extern "C" fn on_a_thread(_: Stream, call: OnHost, argument: *mut c_void) -> Status {
        let argument = argument as usize;
        // SAFETY: `wait_for` takes a number.
        std::thread::spawn(move || unsafe { call(argument as *mut c_void) });
        0
    }

    unsafe extern "C" fn refused(_: Stream, _: OnHost, _: *mut c_void) -> Status {
        700
    }

    #[test]
    fn work_waits_until_the_gate_is_opened_and_never_for_ever() {
        let closed = Gate::new(on_a_thread).close().unwrap();
        let behind = closed.number as usize;
        let waiting = |number: usize| {
            std::thread::spawn(move || {
                let begun = Instant::now();
                // SAFETY: as above.
                unsafe { wait_for(number as *mut c_void) };
                begun.elapsed()
            })
        };
        assert!(waiting(behind).join().unwrap() >= LONGEST, "its time is up");
        assert!(take_late() >= 1);
        drop(closed);
        assert!(OPENED.load(Ordering::Acquire) >= behind as u64);
        assert!(Gate::new(refused).close().is_err());
    }
}
