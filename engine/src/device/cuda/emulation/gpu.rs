//! A device in the worker whose kernels are emulated: what a whole model needs of one.

use std::sync::Arc;

use anyhow::{Result, bail};
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::{IrModule, KernelModule, Target};

use crate::device::cuda::target;
use crate::device::cuda::templates::{CudaTemplates, Limits};
use crate::device::{Conditions, Instruments, Kernel, KernelCompiler, LoweredProgram, Session};
use crate::measure::timer::WallClock;
use crate::measure::{CacheControl, Timer};
use crate::schedule::Templates;

/// The device.
pub(crate) struct EmulatedGpu {
    target: Target,
    clock: WallClock,
}

impl EmulatedGpu {
    /// An emulated GPU of compute capability 8.0.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn open() -> tvm_bridge::Result<EmulatedGpu> {
        let dictionary = serde_json::json!({
            "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
            "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
        });
        Ok(EmulatedGpu {
            target: target::parsed(&dictionary)?,
            clock: WallClock,
        })
    }
}

/// Compiles kernels for the host.
struct Compiler {
    target: Target,
}

impl KernelCompiler for Compiler {
    fn lower(&self, _module: &IrModule) -> Result<Box<dyn LoweredProgram + '_>> {
        bail!("single kernels are emulated by `run`")
    }

    fn load(&self, module: &IrModule) -> Result<KernelModule> {
        super::load(Lowered::new(module, &self.target, Asserts::Kept)?)
    }
}

impl Session for EmulatedGpu {
    fn target(&self) -> &Target {
        &self.target
    }

    fn compiler(&self) -> Arc<dyn KernelCompiler> {
        Arc::new(Compiler {
            target: self.target.clone(),
        })
    }

    fn templates(&self) -> Box<dyn Templates> {
        Box::new(CudaTemplates {
            limits: Limits::of(self.target.json()),
        })
    }

    fn tensors(&self) -> tvm_bridge::Device {
        tvm_bridge::Device::first(tvm_bridge::DeviceKind::Cuda)
    }

    fn slowdown(&mut self) -> tvm_bridge::Result<f64> {
        Ok(1.0)
    }

    fn instruments(&mut self, _kernel: Kernel<'_>, _at: &Conditions) -> Instruments<'_> {
        (&mut self.clock, CacheControl::Repeat)
    }

    fn model_clock(&mut self, _at: &Conditions) -> &mut dyn Timer {
        &mut self.clock
    }
}
