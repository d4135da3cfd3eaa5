//! The scripted device in the worker: its clock and its counter.

use std::cell::Cell;
use std::sync::Arc;

use tvm_bridge::{Result, Target};

use super::grid::{Grid, GridTemplate, Style};
use crate::device::{
    Conditions, HostCompiler, Instruments, Kernel, KernelCompiler, OpenCounters, Session,
};
use crate::measure::counters::Opened;
use crate::measure::mock::{ScriptedCounter, ScriptedTimer};
use crate::measure::{CacheControl, Timer};
use crate::schedule::Templates;

/// The condition that says how fast the clock runs.
pub(super) const CLOCK: &str = "clock";
/// Time of the plainest kernel on one thread with the clock at `low`.
const BASE_NS: u64 = 800_000;
/// Time of a whole model on one thread with the clock at `low`.
const MODEL_NS: u64 = 5_000_000;
/// Counts of a sample.
const TICKS: f64 = 4_096.0;
/// Number of threads on which the reference kernel always takes twice its idle time.
const DISTURBED_THREADS: u32 = 7;

/// A worker that measures on the device.
pub(super) struct ScriptedSession {
    target: Target,
    timer: ScriptedTimer,
    /// Threads of the conditions that were prepared.
    threads: Cell<u32>,
}

impl ScriptedSession {
    pub fn open() -> Result<ScriptedSession> {
        Ok(ScriptedSession {
            target: Target::new(&serde_json::json!({ "kind": "llvm", "num-cores": 1 }))?,
            timer: ScriptedTimer::new([BASE_NS]),
            threads: Cell::new(1),
        })
    }
}

/// Time of a call of a kernel: less with larger pieces, with the clock at `high` and with more threads.
fn time_ns(kernel: Kernel<'_>, at: &Conditions) -> u64 {
    let grid = Grid::of(kernel.choice).ok();
    let grain = grid.map_or(1, |g| g.grain.max(1) as u64);
    let deep = grid.is_some_and(|g| g.style == Style::Deep);
    BASE_NS / (grain * speed(at)) + if deep { 1_000 } else { 0 }
}

/// Speed relative to one thread with the clock at `low`.
fn speed(at: &Conditions) -> u64 {
    let fast = at.device.get(CLOCK).is_some_and(|clock| clock == "high");
    u64::from(at.threads.max(1)) * if fast { 2 } else { 1 }
}

impl Session for ScriptedSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        HostCompiler::shared(&self.target)
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(GridTemplate)
    }

    fn prepare(&self, at: &Conditions) -> Result<()> {
        self.threads.set(at.threads);
        Ok(())
    }

    fn slowdown(&mut self) -> Result<f64> {
        Ok(match self.threads.get() {
            DISTURBED_THREADS => 2.0,
            _ => 1.0,
        })
    }

    /// Interference grows meanwhile, so that a test sees whether a measurement waited.
    fn wait_for_quiet(&mut self, now: f64) -> Result<Option<f64>> {
        Ok(Some(now * now))
    }

    fn instruments(&mut self, kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_> {
        self.timer = ScriptedTimer::new([time_ns(kernel, at)]);
        (&mut self.timer, CacheControl::Repeat)
    }

    fn counters(&self) -> OpenCounters {
        Box::new(|request| match request.is_none() {
            true => Opened::default(),
            false => Opened {
                meters: vec![Box::new(ScriptedCounter::new("ticks", [TICKS]))],
                ..Opened::default()
            },
        })
    }

    fn model_clock(&mut self, at: &Conditions) -> &mut dyn Timer {
        self.timer = ScriptedTimer::new([MODEL_NS / speed(at)]);
        &mut self.timer
    }
}
