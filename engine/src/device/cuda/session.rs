//! The GPU in the worker: to compile for it, or to measure on it.
//!
//! Measuring has not been run yet on a GPU (see `docs/cuda.md`); it is kept small for that. A worker sees one GPU alone.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use opdata::CacheState;
use tvm_bridge::{Result, Target};

use super::compiler::{CudaCompiler, Loading, MachineCode};
use super::events::{EventMarks, EventTimer, Flusher, ReferenceKernel, Runtime};
use super::gate;
use super::nvrtc::{HOW_TO_GET_IT, runtime};
use super::target;
use super::templates::{CudaTemplates, Limits};
use crate::device::{
    Conditions, DeviceState, Instruments, Kernel, KernelCompiler, OpenCounters, Opening, Purpose,
    Session,
};
use crate::measure::counters::{self, Side};
use crate::measure::timer::{WallClock, WallMarks};
use crate::measure::{CacheControl, Marks, Timer};
use crate::nvidia::driver;
use crate::nvidia::dynamic::Library;
use crate::nvidia::nvml::{Nvml, State, Telemetry as _, Throttling};
use crate::schedule::Templates;

/// The device to measure on.
const GPU: tvm_bridge::Device = tvm_bridge::Device::first(tvm_bridge::DeviceKind::Cuda);

/// A worker that compiles for a GPU, and measures if it was opened for that.
pub(super) struct CudaSession {
    target: Target,
    compiler: Arc<dyn KernelCompiler>,
    clock: WallClock,
    /// The resources of a measurement. `None` if kernels are only compiled.
    gpu: Option<Gpu>,
}

/// The resources of a measurement.
struct Gpu {
    timer: EventTimer,
    flusher: Flusher,
    reference_kernel: ReferenceKernel,
    /// NVML's readings of the GPU, where there are any.
    throttling: Option<Throttling<Nvml>>,
}

impl CudaSession {
    pub fn open(opening: &Opening) -> anyhow::Result<CudaSession> {
        let code = MachineCode::new(opening)?;
        let (gpu, loading) = match opening.purpose {
            Purpose::Compile => (None, Loading::DescribeOnly),
            Purpose::Measure => {
                driver::choose(opening.unit);
                (Some(Gpu::open()?), Loading::Load)
            }
        };
        let target = target::parsed(&opening.dictionary)?;
        let compiler = CudaCompiler::new(code, &target, loading)?;
        Ok(CudaSession {
            target,
            compiler: Arc::new(compiler),
            clock: WallClock,
            gpu,
        })
    }
}

/// Loads CUDA's runtime, and TVM's above it.
///
/// # Errors
/// Fails if one is not installed, or finds no GPU.
pub(super) fn load_runtime() -> anyhow::Result<Runtime> {
    let library = runtime().map_err(|missing| anyhow!("{missing}; {HOW_TO_GET_IT}"))?;
    // TVM's CUDA runtime needs it and does not know where it is.
    let runtime = Runtime::of(Library::open(&library)?)?;
    tvm_bridge::cuda::load_runtime()?;
    if !GPU.exists()? {
        bail!("TVM's CUDA runtime finds no GPU");
    }
    Ok(runtime)
}

impl Gpu {
    fn open() -> anyhow::Result<Gpu> {
        let runtime = load_runtime()?;
        let mut timer = EventTimer::new(runtime)?;
        Ok(Gpu {
            flusher: Flusher::new(runtime),
            reference_kernel: ReferenceKernel::new(runtime, &mut timer)?,
            throttling: Nvml::of(&runtime.bus_id()?).ok().map(Throttling::new),
            timer,
        })
    }
}

impl Session for CudaSession {
    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        Arc::clone(&self.compiler)
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(CudaTemplates {
            limits: Limits::of_machine(self.target.json()),
        })
    }

    fn tensors(&self) -> tvm_bridge::Device {
        GPU
    }

    fn slowdown(&mut self) -> Result<f64> {
        let Some(gpu) = &mut self.gpu else {
            return Ok(1.0);
        };
        let fill = gpu.reference_kernel.slowdown(&mut gpu.timer);
        // Kernels slow down with the multiprocessors' clock. The reference kernel does not, because it fills memory.
        let throttled = gpu.throttling.as_mut().map_or(1.0, Throttling::slowdown);
        Ok(fill.max(throttled))
    }

    fn after_failure(&mut self) {
        if let Some(gpu) = &mut self.gpu {
            gpu.timer.check();
        }
    }

    fn state(&mut self) -> Option<DeviceState> {
        let gpu = self.gpu.as_mut()?;
        let throttling = gpu.throttling.as_mut();
        let now = throttling.map_or_else(State::default, |t| t.telemetry().state());
        Some(DeviceState {
            late_samples: Some(gate::take_late()),
            clock_mhz: now.clock_mhz,
            temperature_c: now.temperature_c,
            held_back_by: now.held_back_by(),
        })
    }

    fn counters(&self) -> OpenCounters {
        Box::new(|request| counters::open(request, Side::Device))
    }

    fn instruments(&mut self, _kernel: Kernel<'_>, at: &Conditions) -> Instruments<'_> {
        let Some(gpu) = &mut self.gpu else {
            return (&mut self.clock, CacheControl::Repeat);
        };
        let caches = match at.cache {
            CacheState::Model => CacheControl::Rotate {
                activations: None,
                neighbours: false,
            },
            CacheState::Hot => CacheControl::Repeat,
            CacheState::Flushed => CacheControl::Evict(&mut gpu.flusher),
        };
        (&mut gpu.timer, caches)
    }

    fn model_clock(&mut self, _at: &Conditions) -> &mut dyn Timer {
        match &mut self.gpu {
            Some(gpu) => &mut gpu.timer,
            None => &mut self.clock,
        }
    }

    fn marks(&self) -> anyhow::Result<Box<dyn Marks>> {
        Ok(match &self.gpu {
            Some(gpu) => Box::new(EventMarks::new(gpu.timer.runtime())),
            None => Box::new(WallMarks::default()),
        })
    }
}
