//! A server in a worker: its clock, its threads, and a reference kernel that runs there.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use opdata::CacheState;
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::rpc::{Repetition, Timed};
use tvm_bridge::vm::{Linked, VirtualMachine};
use tvm_bridge::{Device, KernelModule, Result, Target, Tensor};

use super::DeviceThere;
use super::compiler::{RemoteCompiler, Upload, machine_code};
use super::connect::Server;
use super::equal::Equality;
use super::meter::{Meter, RemoteTimer};
use crate::calibrate::reference_kernel;
use crate::device::{
    AreEqual, Conditions, Instruments, Kernel, KernelCompiler, OpenCounters, Session,
};
use crate::measure::caches::Place;
use crate::measure::{CacheControl, Timer};
use crate::schedule::Templates;

/// A worker that measures on another machine.
pub(super) struct RemoteSession {
    there: DeviceThere,
    /// The target of the kernels that compute expected outputs.
    host: Target,
    device: Device,
    upload: Arc<Upload>,
    timer: RemoteTimer,
    reference: Reference,
    flusher: FlushedThere,
    /// How outputs are compared there; `None` on an accelerator.
    equality: Option<Rc<Equality>>,
    /// Number of threads that the server has been set to, which takes several messages.
    threads: Cell<Option<u32>>,
}

impl RemoteSession {
    pub fn open(
        server: Server,
        there: DeviceThere,
        linker: PathBuf,
    ) -> anyhow::Result<RemoteSession> {
        let device = server.session.device(there.kind);
        if let Some(accelerator) = &there.accelerator {
            accelerator.check(device)?;
        }
        let upload = Arc::new(Upload {
            server,
            linker,
            folder: tempfile::tempdir().context("a folder for objects")?,
            next: Default::default(),
        });
        Ok(RemoteSession {
            reference: Reference::load(&upload, &there, device)?,
            host: Target::llvm(&tvm_bridge::target::host_cpu()?, 1)?,
            equality: match there.accelerator {
                Some(_) => None,
                None => Some(Rc::new(Equality::load(&upload, &there.target, device)?)),
            },
            there,
            device,
            upload,
            timer: RemoteTimer {
                meter: Meter::new(),
                flush: false,
            },
            flusher: FlushedThere,
            threads: Cell::new(None),
        })
    }
}

impl Session for RemoteSession {
    fn target(&self) -> &Target {
        &self.there.target
    }

    fn server(&self) -> Option<String> {
        Some(self.upload.server.address.clone())
    }

    fn plain_target(&self) -> &Target {
        &self.host
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        Arc::new(RemoteCompiler {
            target: self.there.target.clone(),
            upload: Arc::clone(&self.upload),
            meter: self.timer.meter.clone(),
            device: self.device,
            accelerator: self.there.accelerator.clone(),
        })
    }

    fn templates(&self) -> Box<dyn Templates> {
        (self.there.templates)()
    }

    fn tensors(&self) -> Device {
        self.device
    }

    fn release(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, at: &Conditions) -> Result<()> {
        if self.threads.get() != Some(at.threads) {
            let session = &self.upload.server.session;
            session.use_threads(at.threads as usize)?;
            self.threads.set(Some(at.threads));
        }
        Ok(())
    }

    fn slowdown(&mut self) -> Result<f64> {
        self.reference.slowdown()
    }

    fn after_failure(&mut self) {
        self.upload.server.end_if_lost();
    }

    fn instruments(&mut self, _kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_> {
        self.timer.flush = at.cache == CacheState::Flushed;
        let caches = match self.timer.flush {
            true => CacheControl::Evict(&mut self.flusher),
            false => CacheControl::Repeat,
        };
        (&mut self.timer, caches)
    }

    fn equality(&self) -> Option<AreEqual> {
        let equality = Rc::clone(self.equality.as_ref()?);
        Some(Box::new(move |found, known| equality.holds(found, known)))
    }

    fn counters(&self) -> OpenCounters {
        let session = self.upload.server.session.clone();
        Box::new(move |request| super::counters::open(&session, request))
    }

    fn model_clock(&mut self, _at: &Conditions) -> &mut dyn Timer {
        self.timer.flush = false;
        &mut self.timer
    }

    fn start(&self, linked: Linked, kernels: &[KernelModule]) -> anyhow::Result<VirtualMachine> {
        let there = &self.there;
        let mut compile = |source: &str| {
            machine_code(there.accelerator.as_ref(), source, None).map(|(code, _)| code)
        };
        let library = self
            .upload
            .load(|folder| Ok(linked.export(kernels, &there.target, folder, &mut compile)?))?;
        let (meter, device) = (self.timer.meter.clone(), self.device);
        let timed: RefCell<Option<Timed>> = RefCell::default();
        let run_by = move |machine: &KernelModule, name: &str, run: &dyn Fn() -> Result<()>| {
            let mut timed = timed.borrow_mut();
            // A model has one entry.
            let timed = timed.get_or_insert_with(|| {
                Timed::new(machine, tvm_bridge::vm::RUN, Some(name), device)
            });
            meter.call(timed, &[], run)
        };
        Ok(VirtualMachine::of_library(
            &library,
            device,
            Box::new(run_by),
        )?)
    }
}

/// The server flushes before each sample by itself.
struct FlushedThere;

impl Place for FlushedThere {
    fn place(&mut self, _tensors: &[Tensor]) -> Result<()> {
        Ok(())
    }
}

/// A fixed piece of arithmetic on the device there: on one core of a processor.
struct Reference {
    timed: Timed,
    tensors: Vec<Tensor>,
    /// The fastest reading of this connection, seconds.
    best: f64,
}

/// Readings before the first that counts: processors wake, caches fill.
const FIRST_READINGS: u32 = 5;

impl Reference {
    fn load(upload: &Upload, there: &DeviceThere, device: Device) -> anyhow::Result<Reference> {
        let accelerator = there.accelerator.as_ref();
        let (function, arguments) = match accelerator {
            Some(accelerator) => accelerator.reference()?,
            None => reference_kernel(&there.target)?,
        };
        let lowered = Lowered::new(&function.to_module()?, &there.target, Asserts::Kept)?;
        let module = upload.load_kernel(lowered, accelerator)?;
        let tensors = arguments.into_iter().map(|t| t.into_device(device));
        let mut reference = Reference {
            timed: Timed::new(&module, tvm_bridge::ir::ENTRY, None, device),
            tensors: tensors.collect::<Result<_>>()?,
            best: f64::INFINITY,
        };
        for _ in 0..FIRST_READINGS {
            reference.slowdown()?;
        }
        Ok(reference)
    }

    /// Its time now over its fastest.
    fn slowdown(&mut self) -> Result<f64> {
        let once = Repetition {
            number: 1,
            repeat: 1,
            flush: false,
        };
        let seconds = self.timed.time(&self.tensors, once)?;
        let now = seconds.first().copied().unwrap_or(f64::NAN);
        self.best = self.best.min(now);
        Ok(now / self.best)
    }
}
