//! A device in the worker: what builds and measures kernels on it.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use opdata::contract::RemoteAddress;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tvm_bridge::vm::{Linked, VirtualMachine};
use tvm_bridge::{KernelModule, Target, Tensor};

use super::{Conditions, KernelCompiler};
use crate::measure::counters::request::CounterRequest;
use crate::measure::counters::{self, Opened, Side};
use crate::measure::timer::WallMarks;
use crate::measure::{CacheControl, Marks, Timer};
use crate::schedule::{Choice, Templates};

/// The use of the kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Kernels are run, checked and timed.
    #[default]
    Measure,
    /// Kernels are compiled and described; the device need not be there.
    Compile,
}

/// Arguments for opening a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// The device's dictionary of the target, for the compiler.
    pub dictionary: Value,
    /// Maximum number of threads of a kernel.
    pub max_threads: usize,
    /// The use of the kernels.
    pub purpose: Purpose,
    /// Longest time that a compiler beside TVM may take for one kernel.
    pub compile_limit: Duration,
    /// Where source and machine code of device kernels are kept, if they are.
    pub keep_kernels: Option<PathBuf>,
    /// Number of the device's unit to measure on ([`super::DeviceHost::units`]).
    pub unit: u32,
    /// The servers of another machine, if it is measured on one.
    pub remote: Option<RemoteAddress>,
    /// Servers of it that answered wrongly.
    pub avoid: Vec<String>,
}

impl Opening {
    /// Opens a device to measure on up to this many threads.
    pub fn measuring(dictionary: Value, max_threads: usize) -> Opening {
        const COMPILE_LIMIT: Duration = Duration::from_secs(60);
        Opening {
            dictionary,
            max_threads,
            purpose: Purpose::Measure,
            compile_limit: COMPILE_LIMIT,
            keep_kernels: None,
            unit: 0,
            remote: None,
            avoid: Vec::new(),
        }
    }
}

/// The state that a device reports. Facts that it does not report are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Clock of its processors.
    pub clock_mhz: Option<u32>,
    /// Temperature of its chip.
    pub temperature_c: Option<u32>,
    /// Reasons for a reduced clock, joined with `;`, or `none`.
    pub held_back_by: Option<String>,
    /// Number of samples, since the state was last asked, whose calls were not all queued before the device began.
    #[serde(default)]
    pub late_samples: Option<u64>,
}

/// A simulator's results for a run of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedRun {
    /// Time of the run, nanoseconds.
    pub total_ns: f64,
    /// The part of it on the device's host, nanoseconds.
    pub host_ns: f64,
    /// Cycles of the device's clock.
    pub cycles: f64,
    /// Bytes that the device reads from memory.
    pub bytes_read: u64,
    /// Bytes that it writes.
    pub bytes_written: u64,
    /// The resource that limits the run, in a word.
    pub limit: String,
    /// Parts of the operator that the device does not run; the time does not include them.
    #[serde(default)]
    pub cpu_side: Vec<String>,
    /// How numbers were quantised, if they were.
    #[serde(default)]
    pub quantisation: Option<Value>,
}

/// A run of a whole model on a device that computes with approximate numbers of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Approximation {
    /// Simulated time of the run, nanoseconds.
    pub device_ns: f64,
    /// The device's work for each of its operators, by function.
    pub layers: Vec<(String, Value)>,
}

/// A kernel that is to be timed.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'a> {
    /// The operator's function.
    pub symbol: &'a str,
    /// Its schedule.
    pub choice: &'a Choice,
}

/// Nanoseconds of simulated time since the device was opened.
pub type SimulatedClock = Rc<dyn Fn() -> u64>;

/// The clock of a kernel's calls, and what is done to the caches between them.
pub type Instruments<'a> = (&'a mut dyn Timer, CacheControl<'a>);

/// Opens the sources that a request names.
pub type OpenCounters = Box<dyn Fn(&CounterRequest) -> Opened>;

/// Whether each tensor equals its counterpart, compared on the device. `false` also if that cannot be determined.
pub type AreEqual = Box<dyn Fn(&[Tensor], &[Tensor]) -> tvm_bridge::Result<bool>>;

/// A device opened in this process, for compiling or for measuring.
pub trait Session {
    /// The target that kernels are compiled for.
    fn target(&self) -> &Target;
    /// The target of the kernels that compute expected outputs: they run in this process.
    fn plain_target(&self) -> &Target {
        self.target().host()
    }
    /// Starts a model whose functions were compiled.
    ///
    /// # Errors
    /// Fails if a kernel is missing, or the device is lost.
    fn start(&self, linked: Linked, kernels: &[KernelModule]) -> anyhow::Result<VirtualMachine> {
        Ok(linked.start(kernels, self.target(), self.tensors())?)
    }
    /// The server that kernels run on, if it is another machine.
    fn server(&self) -> Option<String> {
        None
    }
    /// Whether calls inside a running model can be watched from here.
    fn watches(&self) -> bool {
        self.tensors().session.is_none()
    }
    /// The compiler of its kernels, for use on any thread.
    fn compiler(&self) -> Arc<dyn KernelCompiler>;
    /// Its schedule templates for the target.
    fn templates(&self) -> Box<dyn Templates>;
    /// Where arguments lie: in this machine's memory, unless the device has its own.
    fn tensors(&self) -> tvm_bridge::Device {
        tvm_bridge::Device::cpu()
    }

    /// Lets the threads that build kernels use the whole machine, if this thread is bound to some processors.
    ///
    /// # Errors
    /// Fails if TVM does.
    fn release(&self) -> tvm_bridge::Result<()> {
        Ok(())
    }
    /// Numbers of this machine's processors that kernels may run on, as the operating system counts them. Empty if they
    /// run elsewhere.
    fn processors(&self) -> &[usize] {
        &[]
    }
    /// Sets the conditions of a measurement: threads, and conditions of the device's own. Devices that take the conditions
    /// with each measurement do nothing here.
    ///
    /// # Errors
    /// Fails if the device does not have these conditions.
    fn prepare(&self, _at: &Conditions) -> tvm_bridge::Result<()> {
        Ok(())
    }
    /// Time of a fixed piece of work now, over its idle time under the conditions that were prepared, at least 1. It
    /// shows interference on the device. There is no default, so that no device counts as quiet unless it says so.
    ///
    /// # Errors
    /// Fails if the work fails.
    fn slowdown(&mut self) -> tvm_bridge::Result<f64>;
    /// Waits a short while for a quiet moment after the reading `now`, and returns the slowdown then. `None` from a
    /// device that does not wait, because its disturbances last longer.
    ///
    /// # Errors
    /// Fails as [`Session::slowdown`] does.
    fn wait_for_quiet(&mut self, _now: f64) -> tvm_bridge::Result<Option<f64>> {
        Ok(None)
    }
    /// Ends the process if the device itself failed, because nothing would run on it any more.
    fn after_failure(&mut self) {}
    /// Compares outputs on the device, if copying them to this machine takes long.
    fn equality(&self) -> Option<AreEqual> {
        None
    }
    /// The state that the device reports now, if it reports one. It is asked right after samples were taken.
    fn state(&mut self) -> Option<DeviceState> {
        None
    }
    /// The clock for a kernel under the prepared conditions, and the control of its caches.
    fn instruments(&mut self, kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_>;
    /// The device's approximation in the last whole-model run, if it computes with numbers of its own.
    fn approximation(&self) -> Option<Approximation> {
        None
    }
    /// The simulated time of whole models so far, if the device is a simulator.
    fn simulated_clock(&self) -> Option<SimulatedClock> {
        None
    }
    /// Begins or ends calibration: runs of a whole model between the two widen the ranges of its quantised numbers. Returns
    /// whether the device quantises at all.
    fn calibrate(&self, _on: bool) -> bool {
        false
    }
    /// Opens the counters of a kernel's calls, for the threads that exist then. It opens none where kernels do not run
    /// on threads of this machine, unless the device has counters of its own.
    fn counters(&self) -> OpenCounters {
        match self.tensors().is_host() {
            true => Box::new(|request| counters::open(request, Side::Host)),
            false => Box::new(|_| Opened::default()),
        }
    }
    /// The clock for a whole model under conditions that were prepared.
    fn model_clock(&mut self, at: &Conditions) -> &mut dyn Timer;
    /// Records when the operators of a whole model begin and end.
    ///
    /// # Errors
    /// Fails if the device does.
    fn marks(&self) -> anyhow::Result<Box<dyn Marks>> {
        Ok(Box::new(WallMarks::default()))
    }
}
