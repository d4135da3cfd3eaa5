//! The device in the worker: its clock, which counts symbols, and no templates.

use std::sync::Arc;

use tvm_bridge::{PrimFunc, Result, Schedule, Target};

use super::program::{TapeCompiler, Tapes};
use crate::device::{
    Conditions, HostCompiler, Instruments, Kernel, KernelCompiler, OpenCounters, Session,
};
use crate::measure::counters::Opened;
use crate::measure::mock::ScriptedTimer;
use crate::measure::{CacheControl, Timer};
use crate::schedule::{Choice, Space, Templates};

/// The condition that says how fast the head runs.
pub(super) const SPEED: &str = "speed";
/// Time of a symbol with the head at `slow`.
const SYMBOL_NS: u64 = 1_000_000;
/// Time of a whole model with the head at `slow`.
const MODEL_NS: u64 = 8_000_000;

/// A worker that measures on the device.
pub(super) struct TapeSession {
    target: Target,
    timer: ScriptedTimer,
    tapes: Tapes,
}

impl TapeSession {
    pub fn open() -> Result<TapeSession> {
        Ok(TapeSession {
            target: Target::new(&serde_json::json!({ "kind": "llvm", "num-cores": 1 }))?,
            timer: ScriptedTimer::new([SYMBOL_NS]),
            tapes: Tapes::default(),
        })
    }
}

/// Speed of the head relative to `slow`.
fn speed(at: &Conditions) -> u64 {
    match at.device.get(SPEED).map(String::as_str) {
        Some("fast") => 4,
        _ => 1,
    }
}

/// No templates: every function stays as TVM's operator library wrote it.
#[derive(Debug)]
struct NoTemplates;

impl Templates for NoTemplates {
    fn suggest(&self, _schedule: &Schedule, _attempt: usize) -> Option<Result<Choice>> {
        None
    }

    fn apply(&self, _schedule: &Schedule, choice: &Choice) -> Result<Choice> {
        Ok(choice.clone())
    }

    fn space(&self, _function: &PrimFunc) -> Result<Space> {
        Ok(Space::fixed(Choice::unscheduled()))
    }
}

impl Session for TapeSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        Arc::new(TapeCompiler {
            host: HostCompiler::shared(&self.target),
            tapes: Arc::clone(&self.tapes),
        })
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(NoTemplates)
    }

    fn slowdown(&mut self) -> Result<f64> {
        Ok(1.0)
    }

    fn instruments(&mut self, kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_> {
        let symbols = self
            .tapes
            .lock()
            .ok()
            .and_then(|tapes| tapes.get(kernel.symbol).copied());
        self.timer = ScriptedTimer::new([symbols.unwrap_or(1) * SYMBOL_NS / speed(at)]);
        (&mut self.timer, CacheControl::Repeat)
    }

    fn counters(&self) -> OpenCounters {
        Box::new(|_| Opened::default())
    }

    fn model_clock(&mut self, at: &Conditions) -> &mut dyn Timer {
        self.timer = ScriptedTimer::new([MODEL_NS / speed(at)]);
        &mut self.timer
    }
}
