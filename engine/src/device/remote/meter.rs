//! Times of remote kernels, by the clock of the server.
//!
//! A clock here runs around calls; a call over a connection takes longer than the kernel. So while a [`RemoteTimer`] runs,
//! the kernel's first call asks the server for the time of all calls together. The other calls are not made. One message
//! asks for several samples: before the first of a message TVM's evaluator runs the function once more, untimed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tvm_bridge::Tensor;
use tvm_bridge::rpc::{Repetition, Timed};

use crate::measure::Timer;

/// What a call does.
#[derive(Debug, Clone)]
enum Mode {
    /// Run once, untimed.
    Run,
    /// Ask for the time of calls.
    Time(Repetition),
    /// Timed on request; the times wait here.
    Timed(Vec<Duration>),
}

/// Number of samples that one message requests. Up to three of the last message may be unused, so a larger number
/// wastes more than it saves.
const SAMPLES_A_MESSAGE: u32 = 4;

/// State that kernels share with their timer.
#[derive(Debug, Clone)]
pub(super) struct Meter(Arc<Mutex<Mode>>);

impl Meter {
    pub fn new() -> Meter {
        Meter(Arc::new(Mutex::new(Mode::Run)))
    }

    /// Does a call: by `run`, or by timing what `timed` describes.
    pub fn call(
        &self,
        timed: &Timed,
        tensors: &[Tensor],
        run: impl FnOnce() -> tvm_bridge::Result<()>,
    ) -> tvm_bridge::Result<()> {
        let mut mode = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *mode {
            Mode::Run => {
                drop(mode);
                run()
            }
            Mode::Timed(_) => Ok(()),
            Mode::Time(repetition) => {
                // Whatever happens, the other calls of the sample are not made.
                *mode = Mode::Timed(Vec::new());
                let seconds = timed.time(tensors, repetition)?;
                let all_calls = |one: f64| {
                    let all = one * f64::from(repetition.number);
                    Duration::try_from_secs_f64(all).unwrap_or_default()
                };
                *mode = Mode::Timed(seconds.into_iter().map(all_calls).collect());
                Ok(())
            }
        }
    }

    fn set(&self, mode: Mode) -> Mode {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, mode)
    }
}

/// The server's clock.
pub(super) struct RemoteTimer {
    pub meter: Meter,
    /// Whether data are driven out of the caches before each sample.
    pub flush: bool,
}

impl RemoteTimer {
    fn ask(&self, number: u32, repeat: u32, calls: &mut dyn FnMut()) -> Vec<Duration> {
        self.meter.set(Mode::Time(Repetition {
            number,
            repeat,
            flush: self.flush,
        }));
        calls();
        match self.meter.set(Mode::Run) {
            Mode::Timed(samples) => samples,
            Mode::Run | Mode::Time(_) => Vec::new(),
        }
    }
}

impl Timer for RemoteTimer {
    fn time(&mut self, number: u32, calls: &mut dyn FnMut()) -> Duration {
        self.ask(number, 1, calls).into_iter().sum()
    }

    fn samples(&mut self, number: u32, calls: &mut dyn FnMut()) -> Vec<Duration> {
        self.ask(number, SAMPLES_A_MESSAGE, calls)
    }
}
