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

pub use child::ChildLauncher;
pub use opdata::contract::WorkerPolicy;
pub use outcome::{Failure, Made};
pub use pool::WorkerPool;
pub use supervisor::Supervisor;
pub use transport::{Launch, LineChannel, Transport, WorkerError, connect};

use crate::interrupt::Interrupt;
use crate::protocol::{ContentId, MeasureSpec, Measured, Setup};

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
    fn runner(&self, order: RunnerOrder, log: &Path) -> WorkerPool;
}

/// Runners whose workers are child processes of this one.
#[derive(Debug, Clone)]
pub struct ChildRunners {
    /// The program; it is run with the one argument `worker`.
    pub program: PathBuf,
}

impl RunnerFactory for ChildRunners {
    fn runner(&self, mut order: RunnerOrder, log: &Path) -> WorkerPool {
        // Without a module that can be read, the worker refuses its setup and says why.
        order.setup.module = ContentId::of_module(&order.contents).unwrap_or_default();
        let launch = ChildLauncher {
            program: self.program.clone(),
            log: log.to_owned(),
            contents: order.contents.clone(),
        };
        WorkerPool::new(Arc::new(launch), order)
    }
}
