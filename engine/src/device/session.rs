//! A device in the worker: what builds and measures kernels on it.

use tvm_bridge::Target;

use super::Conditions;
use crate::measure::{CacheControl, Instruments, Timer};
use crate::schedule::{Choice, Templates};

/// A kernel that is to be timed.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'a> {
    /// The operator's function.
    pub symbol: &'a str,
    /// Its schedule.
    pub choice: &'a Choice,
}

/// A device that is measured on in this process.
pub trait Session {
    /// What kernels are compiled for.
    fn target(&self) -> &Target;
    /// Its schedule templates for the target.
    fn templates(&self) -> Box<dyn Templates>;
    /// Where arguments lie.
    fn tensors(&self) -> tvm_bridge::Device;

    /// Lets the threads that build kernels use the whole machine.
    ///
    /// # Errors
    /// TVM's.
    fn release(&self) -> tvm_bridge::Result<()>;
    /// Brings the device into the state that a point is measured at: threads, and conditions of its own.
    ///
    /// # Errors
    /// The device has no such state.
    fn prepare(&self, at: &Conditions) -> tvm_bridge::Result<()>;
    /// Time of a fixed piece of work now over its usual time under the conditions that were prepared, at least 1: how
    /// disturbed the device is.
    ///
    /// # Errors
    /// The work fails.
    fn drift(&mut self) -> tvm_bridge::Result<f64>;
    /// What a kernel is measured with under conditions that were prepared, and how its caches are.
    fn instruments(
        &mut self,
        kernel: Kernel<'_>,
        at: &Conditions,
    ) -> (Instruments<'_>, CacheControl<'_>);
    /// The clock for a whole model on so many threads.
    fn model_clock(&mut self, threads: u32) -> &mut dyn Timer;
}
