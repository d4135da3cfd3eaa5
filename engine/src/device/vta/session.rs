//! The simulated accelerator in a worker. Nothing is timed: a kernel's time is what the simulator says.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tvm_bridge::Target;
use vtasim::Profile;

use super::chip::Chip;
use super::compiler::{Known, VtaCompiler};
use super::knobs::VtaTemplate;
use crate::device::remote::connect::Server;
use crate::device::{
    Approximation, Conditions, HostCompiler, Instruments, Kernel, KernelCompiler, OpenCounters,
    Session, SimulatedClock,
};
use crate::measure::counters::Opened;
use crate::measure::{CacheControl, Marks, Timer};
use crate::schedule::Templates;

/// A worker that simulates.
pub(super) struct VtaSession {
    profile: Arc<Profile>,
    chip: Chip,
    /// The server that programs run on, if there is one.
    server: Option<Server>,
    target: Target,
    known: Arc<Known>,
    clock: ModelClock,
}

impl VtaSession {
    pub fn open(profile: Profile, server: Option<Server>) -> anyhow::Result<VtaSession> {
        let chip = match &server {
            Some(server) => Chip::There(server.session.clone()),
            None => Chip::Here,
        };
        let known = Arc::<Known>::default();
        Ok(VtaSession {
            profile: Arc::new(profile),
            chip,
            server,
            target: Target::llvm(&tvm_bridge::target::host_cpu()?, 1)?,
            clock: ModelClock(Arc::clone(&known)),
            known,
        })
    }
}

impl Session for VtaSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn server(&self) -> Option<String> {
        self.server.as_ref().map(|server| server.address.clone())
    }

    fn after_failure(&mut self) {
        if let Some(server) = &self.server {
            server.end_if_lost();
        }
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        Arc::new(VtaCompiler {
            profile: Arc::clone(&self.profile),
            chip: self.chip.clone(),
            host: HostCompiler::shared(&self.target),
            known: Arc::clone(&self.known),
        })
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(VtaTemplate::new(Arc::clone(&self.profile)))
    }

    fn slowdown(&mut self) -> tvm_bridge::Result<f64> {
        Ok(1.0)
    }

    fn instruments(&mut self, _kernel: Kernel<'_>, _at: &Conditions) -> Instruments<'_> {
        (&mut self.clock, CacheControl::Repeat)
    }

    fn counters(&self) -> OpenCounters {
        Box::new(|_| Opened::default())
    }

    fn approximation(&self) -> Option<Approximation> {
        Some(self.known.approximation())
    }

    fn simulated_clock(&self) -> Option<SimulatedClock> {
        let known = Arc::clone(&self.known);
        Some(Rc::new(move || known.model_ns.load(Ordering::Relaxed)))
    }

    fn calibrate(&self, on: bool) -> bool {
        self.known.calibrating.store(on, Ordering::Relaxed);
        // The time of the calibration belongs to no run.
        self.known.model_ns.store(0, Ordering::Relaxed);
        true
    }

    fn model_clock(&mut self, _at: &Conditions) -> &mut dyn Timer {
        &mut self.clock
    }

    fn marks(&self) -> anyhow::Result<Box<dyn Marks>> {
        Ok(Box::new(SimulatedMarks {
            known: Arc::clone(&self.known),
            marks: Vec::new(),
        }))
    }
}

/// The simulated time of calls inside whole models.
struct ModelClock(Arc<Known>);

impl Timer for ModelClock {
    fn time(&mut self, _number: u32, calls: &mut dyn FnMut()) -> Duration {
        let before = self.0.model_ns.load(Ordering::Relaxed);
        calls();
        Duration::from_nanos(self.0.model_ns.load(Ordering::Relaxed) - before)
    }
}

/// Moments on the same clock.
struct SimulatedMarks {
    known: Arc<Known>,
    marks: Vec<u64>,
}

impl Marks for SimulatedMarks {
    fn mark(&mut self) {
        self.marks.push(self.known.model_ns.load(Ordering::Relaxed));
    }

    fn take(&mut self) -> Vec<Duration> {
        let first = self.marks.first().copied().unwrap_or_default();
        self.marks
            .drain(..)
            .map(|mark| Duration::from_nanos(mark - first))
            .collect()
    }
}
