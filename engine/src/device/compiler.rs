//! The seam behind which a device compiles: from a lowered program to a kernel that can be called, or only described.

use std::sync::Arc;

use anyhow::Context as _;
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::compile::Lowered;
use tvm_bridge::{Kernel, KernelModule, StageTimes};

/// The program of a candidate, by what it is known by.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The operator's function.
    pub symbol: &'a str,
    /// Structural hash of its scheduled form.
    pub hash: u64,
}

/// What a compiler made of a program.
#[derive(Debug)]
pub struct CompiledKernel {
    /// The kernel; none where it was compiled without being loaded.
    pub kernel: Option<Kernel>,
    /// What the stages took.
    pub times: StageTimes,
    /// The kernels of the device in the order of its source; empty where the host runs everything.
    pub device_kernels: Vec<DeviceKernel>,
}

/// The compiler of a device. Kernels are compiled on several threads at once.
pub trait KernelCompiler: Send + Sync {
    /// Compiles a lowered program.
    ///
    /// # Errors
    /// The program is refused; [`TooLong`] if the compiler was stopped.
    fn compile(&self, program: Program<'_>, lowered: Lowered) -> anyhow::Result<CompiledKernel>;

    /// Compiles and loads functions of a whole model.
    ///
    /// # Errors
    /// A function is refused.
    fn load(&self, lowered: Lowered) -> anyhow::Result<KernelModule> {
        Ok(lowered.build()?.module)
    }
}

/// A compiler did not end in time and was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{compiler} did not end within {seconds} s; allow more with --compile-timeout")]
pub struct TooLong {
    /// Which compiler.
    pub compiler: &'static str,
    /// What it was allowed.
    pub seconds: u64,
}

/// The compiler of devices whose whole program is code of the host.
#[derive(Debug, Clone, Copy)]
pub struct HostCompiler;

impl HostCompiler {
    /// The compiler.
    pub fn shared() -> Arc<dyn KernelCompiler> {
        Arc::new(HostCompiler)
    }
}

impl KernelCompiler for HostCompiler {
    fn compile(&self, _program: Program<'_>, lowered: Lowered) -> anyhow::Result<CompiledKernel> {
        let compiled = lowered.build()?;
        let kernel = compiled.module.function(tvm_bridge::ir::ENTRY);
        Ok(CompiledKernel {
            kernel: Some(kernel.context("the compiled module")?),
            times: compiled.times,
            device_kernels: Vec::new(),
        })
    }
}
