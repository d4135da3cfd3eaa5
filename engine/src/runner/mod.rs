//! The parent's side of measuring: keeps workers alive and turns their failures into outcomes of single points.
//!
//! A kernel can crash, hang or exhaust memory. So it runs in a worker ([`crate::worker`]), and such a kernel costs its
//! own row and a restart, never the run. [`Supervisor`] finds the kernel to blame, over a [`Transport`] to one worker;
//! [`WorkerPool`] hands points to several. Workers are child processes ([`ChildLauncher`]), started with exec, because
//! TVM's thread pool does not survive a fork. Another way to reach them is another [`Launch`].

mod child;
mod memory;
mod outcome;
mod pool;
mod supervisor;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use child::ChildLauncher;
pub use opdata::contract::WorkerPolicy;
pub use outcome::{Failure, Made};
pub use pool::WorkerPool;
pub use supervisor::Supervisor;
pub use transport::{Launch, LineChannel, Transport, WorkerError, connect};

use crate::device::Conditions;
use crate::interrupt::Interrupt;
use crate::measure::TimingPolicy;
use crate::protocol::{
    ContentId, Counting, KernelSpec, MeasureSpec, Measured, ProfileSpec, Profiled, Setup,
    SideBySideDone, SideBySideOrder, WholeModelMeasured, WholeModelReady, WholeModelSpec,
};
use crate::schedule::Space;

/// Where kernels and whole models are built, checked and timed.
pub trait Runner {
    /// The template spaces of operators, in their order.
    ///
    /// # Errors
    /// Fails if they cannot be described.
    fn spaces(&mut self, symbols: &[String]) -> Result<Vec<Space>, Failure>;

    /// Builds kernels, reporting each as it ends.
    fn build(&mut self, kernels: &[KernelSpec], report: &mut dyn FnMut(u64, Result<Made, Failure>));

    /// Checks and times a kernel that was built.
    ///
    /// # Errors
    /// Fails if it was not measured.
    fn measure(&mut self, point: &MeasureSpec) -> Result<Measured, Failure>;

    /// Measures what `queue` hands out until it has nothing left; several points at once where there are several workers.
    fn measure_all(&mut self, queue: &mut dyn PointQueue) {
        while let Some(point) = queue.next() {
            let result = self.measure(&point);
            queue.done(result);
        }
    }

    /// Frees kernels that will not be measured again.
    fn forget(&mut self, ids: &[u64]);

    /// Builds the whole model and checks its output.
    ///
    /// # Errors
    /// Fails if it cannot be built, or the worker was lost.
    fn build_whole_model(&mut self, spec: WholeModelSpec) -> Result<WholeModelReady, Failure>;

    /// Frees the whole model, so that operators are measured without it in memory.
    fn forget_whole_model(&mut self);

    /// Times the whole model.
    ///
    /// # Errors
    /// Fails if it was not built, or the worker was lost.
    fn measure_whole_model(
        &mut self,
        at: &Conditions,
        policy: TimingPolicy,
        counting: Counting,
    ) -> Result<WholeModelMeasured, Failure>;

    /// Profiles the whole model, which was built to be watched; `timeout` is for all of its runs.
    ///
    /// # Errors
    /// Fails if it was not built, its calls change from run to run, or the worker was lost.
    fn profile_whole_model(
        &mut self,
        spec: ProfileSpec,
        timeout: Duration,
    ) -> Result<Profiled, Failure>;

    /// Does something with calls of models that run at the same time, within `timeout`.
    ///
    /// # Errors
    /// Fails if it cannot be done, or the worker was lost, and with it the models that were loaded.
    fn side_by_side(
        &mut self,
        order: SideBySideOrder,
        timeout: Duration,
    ) -> Result<SideBySideDone, Failure>;

    /// Ends the workers, with all that is in their memory; the next request starts them again.
    fn rest(&mut self);
}

/// Points to measure, decided one at a time, so that what was measured can decide what comes next.
pub trait PointQueue {
    /// The next point. `None` if there is none now; it is asked again after the next [`PointQueue::done`].
    fn next(&mut self) -> Option<MeasureSpec>;

    /// The result of the oldest point without one. Results come in the order of the points, also when several are
    /// measured at once.
    fn done(&mut self, result: Result<Measured, Failure>);
}

/// Settings of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOrder {
    /// Settings of its workers; the factory adds the module.
    pub setup: Setup,
    /// Folder with the files that workers read. A factory whose workers are on another machine sends them there.
    pub contents: PathBuf,
    /// Limits of its workers.
    pub policy: WorkerPolicy,
    /// Number of threads to build on.
    pub jobs: usize,
    /// The unit of each worker, one at least; the workers measure at the same time and must not disturb each other.
    pub units: Vec<u32>,
    /// Whether the user wants to stop.
    pub interrupt: Interrupt,
}

/// Makes runners, so that a run need not know where its workers are.
pub trait RunnerFactory {
    /// A runner whose workers append their standard error to the file `log`.
    fn runner(&self, order: RunnerOrder, log: &Path) -> Box<dyn Runner>;
}

/// Runners whose workers are child processes of this one.
#[derive(Debug, Clone)]
pub struct ChildRunners {
    /// The program; it is run with the one argument `worker`.
    pub program: PathBuf,
}

impl RunnerFactory for ChildRunners {
    fn runner(&self, mut order: RunnerOrder, log: &Path) -> Box<dyn Runner> {
        // Without a module that can be read, the worker refuses its setup and says why.
        order.setup.module = ContentId::of_module(&order.contents).unwrap_or_default();
        let launch = ChildLauncher {
            program: self.program.clone(),
            log: log.to_owned(),
            contents: order.contents.clone(),
        };
        Box::new(WorkerPool::new(Arc::new(launch), order))
    }
}
