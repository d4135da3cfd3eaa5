//! The CPU in the worker: TVM's thread pool, the machine's clock, `clflush` and the reference kernel.

use std::rc::Rc;
use std::sync::Arc;

use opdata::CacheState;
use serde_json::Value;
use tvm_bridge::threads::Pool;
use tvm_bridge::{Result, Target};

use super::cross_core::CrossCoreTransfer;
use super::flush::Flusher;
use super::schedule::CpuTemplates;
use crate::device::{Conditions, HostCompiler, Instruments, Kernel, KernelCompiler, Session};
use crate::env::{Cores, Root, is_virtual};
use crate::interference::reference_kernel::ReferenceKernel;
use crate::measure::caches::Place;
use crate::measure::timer::WallClock;
use crate::measure::{CacheControl, Timer};
use crate::schedule::Templates;

/// A worker that measures on the CPU.
pub(super) struct CpuSession {
    target: Target,
    templates: CpuTemplates,
    pool: Rc<Pool>,
    cross_core: CrossCoreTransfer,
    reference_kernel: ReferenceKernel,
    /// Made when it is first needed.
    flusher: Option<Flusher>,
    timer: WallClock,
    /// Whether other virtual machines share the last-level cache.
    neighbours: bool,
}

impl CpuSession {
    pub fn open(dictionary: &Value, max_threads: usize) -> Result<CpuSession> {
        let target = Target::new(dictionary)?;
        let pool = Rc::new(Pool::start(max_threads)?);
        Ok(CpuSession {
            cross_core: CrossCoreTransfer::new(Rc::clone(&pool)),
            templates: CpuTemplates::of(&target)?,
            target,
            pool,
            reference_kernel: ReferenceKernel::new(
                max_threads,
                own_cores(&Cores::read(&Root::system())),
            ),
            flusher: None,
            timer: WallClock,
            neighbours: is_virtual(&Root::system()),
        })
    }
}

/// Threads that certainly have a core each. Where cores have several hardware threads, neighbours may be on one.
fn own_cores(cores: &Cores) -> usize {
    if cores.physical == Some(cores.online) {
        cores.usable() as usize
    } else {
        1
    }
}

impl Session for CpuSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        HostCompiler::shared(&self.target)
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(self.templates)
    }

    fn release(&self) -> Result<()> {
        // Builders inherit this thread's processors.
        self.pool.release()
    }

    fn processors(&self) -> &[usize] {
        self.pool.allowed()
    }

    fn prepare(&self, at: &Conditions) -> Result<()> {
        self.pool.use_threads(at.threads as usize)
    }

    fn slowdown(&mut self) -> Result<f64> {
        self.reference_kernel.slowdown(&self.pool)
    }

    fn wait_for_quiet(&mut self, now: f64) -> Result<Option<f64>> {
        let slowdown = self.reference_kernel.wait_for_quiet(now, &self.pool)?;
        Ok(Some(slowdown))
    }

    fn instruments(&mut self, _kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_> {
        let caches = match at.cache {
            // One thread leaves everything in its own core's cache, in the model as in a repeated call.
            CacheState::Model => CacheControl::Rotate {
                activations: (at.threads > 1).then_some(&mut self.cross_core as &mut dyn Place),
                neighbours: self.neighbours,
            },
            CacheState::Hot => CacheControl::Repeat,
            CacheState::Flushed => {
                CacheControl::Evict(self.flusher.get_or_insert_with(Flusher::new))
            }
        };
        (&mut self.timer, caches)
    }

    fn model_clock(&mut self, _at: &Conditions) -> &mut dyn Timer {
        &mut self.timer
    }
}
