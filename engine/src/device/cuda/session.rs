//! The GPU in the worker.

use std::sync::Arc;

use anyhow::anyhow;
use tvm_bridge::{Result, Target};

use super::compiler::OfflineCompiler;
use super::nvrtc::{HOW_TO_GET_IT, Nvrtc, Toolkit};
use super::target;
use super::templates::{CudaTemplates, Limits};
use crate::device::{Conditions, Kernel, KernelCompiler, Opening, Session};
use crate::measure::timer::WallClock;
use crate::measure::{CacheControl, Instruments, Timer};
use crate::schedule::Templates;

/// A worker that compiles for a GPU.
pub(super) struct CudaSession {
    target: Target,
    compiler: Arc<dyn KernelCompiler>,
    timer: WallClock,
}

impl CudaSession {
    pub fn open(opening: &Opening) -> anyhow::Result<CudaSession> {
        let toolkit = Toolkit::find().map_err(|missing| anyhow!("{missing}; {HOW_TO_GET_IT}"))?;
        let nvrtc = Nvrtc::new(toolkit, opening.compile_limit)?;
        Ok(CudaSession {
            target: target::parsed(&opening.dictionary)?,
            compiler: Arc::new(OfflineCompiler::new(Arc::new(nvrtc), opening)?),
            timer: WallClock,
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
            limits: Limits::of(self.target.json()),
        })
    }

    fn tensors(&self) -> tvm_bridge::Device {
        tvm_bridge::Device::first(tvm_bridge::DeviceKind::Cuda)
    }

    fn release(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _at: &Conditions) -> Result<()> {
        Ok(())
    }

    fn drift(&mut self) -> f64 {
        1.0
    }

    fn instruments(
        &mut self,
        _kernel: Kernel<'_>,
        _at: &Conditions,
    ) -> (Instruments<'_>, CacheControl<'_>) {
        (Instruments::clock(&mut self.timer), CacheControl::Repeat)
    }

    fn model_clock(&mut self, _threads: u32) -> &mut dyn Timer {
        &mut self.timer
    }
}
