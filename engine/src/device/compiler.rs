//! The seam behind which a device compiles: from a scheduled function to a kernel that can be called, or only described.

use std::sync::Arc;

use anyhow::Context as _;
use opdata::contract::device_kernel::DeviceKernel;

use super::session::SimulatedRun;
use tvm_bridge::compile::{Asserts, Lowered, compile};
use tvm_bridge::{IrModule, Kernel, KernelModule, PrimFunc, StageTimes, Target};

/// The program of a candidate, and its names.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The operator's function.
    pub symbol: &'a str,
    /// Structural hash of its scheduled form.
    pub hash: u64,
}

/// The result of compiling a program.
#[derive(Debug)]
pub struct CompiledKernel {
    /// The kernel. `None` if it was compiled without being loaded.
    pub kernel: Option<Kernel>,
    /// Durations of the stages.
    pub times: StageTimes,
    /// The kernels of the device in the order of its source; empty where the host runs everything.
    pub device_kernels: Vec<DeviceKernel>,
    /// The simulation of a run. `None` if kernels are timed.
    pub simulation: Option<Simulation>,
}

/// A kernel's simulation. It is the same at every run, and complete after the first.
#[derive(Clone)]
pub struct Simulation(Arc<dyn Fn() -> SimulatedRun + Send + Sync>);

impl Simulation {
    /// One that `run` describes.
    pub fn of(run: impl Fn() -> SimulatedRun + Send + Sync + 'static) -> Simulation {
        Simulation(Arc::new(run))
    }

    /// The simulated run.
    pub fn run(&self) -> SimulatedRun {
        (self.0)()
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.run().fmt(f)
    }
}

/// The compiler of a device, which takes scheduled functions. It compiles kernels on several threads at once.
///
/// A device that TVM generates code for lowers by TVM's passes ([`Lowered`]). Another one brings a lowering of its own.
pub trait KernelCompiler: Send + Sync {
    /// Lowers a scheduled function. This is much cheaper than compiling it, so candidates that lower to the same
    /// program end here.
    ///
    /// # Errors
    /// Fails if the program is refused.
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>>;

    /// Compiles and loads functions of a whole model, which check their arguments at every call.
    ///
    /// # Errors
    /// Fails if a function is refused.
    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule>;

    /// A kernel on the host that computes the expected outputs of an operator. `None` if TVM compiles it from the
    /// function in plain loops: only a device with its own arithmetic has its own.
    ///
    /// # Errors
    /// The value holds errors of the device.
    fn reference(&self, _symbol: &str, _function: &PrimFunc) -> Option<anyhow::Result<Kernel>> {
        None
    }
}

/// A program between lowering and code generation.
pub trait LoweredProgram {
    /// A hash that is equal for programs whose code would be equal.
    ///
    /// # Errors
    /// Fails if the device refuses the program.
    fn structural_hash(&self) -> anyhow::Result<u64>;

    /// Number of statements after unrolling, by which the cost of compiling is judged; counting stops beyond `limit`.
    ///
    /// # Errors
    /// Fails if the device refuses the program.
    fn statements(&self, limit: u64) -> anyhow::Result<u64>;

    /// Generates code.
    ///
    /// # Errors
    /// Fails if the program is refused; [`TooLong`] if the compiler was stopped.
    fn compile(self: Box<Self>, program: Program<'_>) -> anyhow::Result<CompiledKernel>;
}

/// A device runs no part of an operator. The text is the reason, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it runs on the CPU beside the device, and has no time there: {0}")]
pub struct NotOnDevice(pub String);

/// A compiler did not end in time and was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{compiler} did not end within {seconds} s; allow more with --compile-timeout")]
pub struct TooLong {
    /// The compiler's name.
    pub compiler: &'static str,
    /// Its time limit.
    pub seconds: u64,
}

/// The compiler of devices whose programs run entirely on the host.
#[derive(Debug, Clone)]
pub struct HostCompiler {
    target: Target,
}

impl HostCompiler {
    /// The compiler for a target of LLVM.
    pub fn shared(target: &Target) -> Arc<dyn KernelCompiler> {
        Arc::new(HostCompiler {
            target: target.clone(),
        })
    }
}

impl KernelCompiler for HostCompiler {
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
        let lowered = Lowered::new(module, &self.target, Asserts::Dropped)?;
        Ok(Box::new(HostProgram(lowered)))
    }

    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
        Ok(compile(module, &self.target, Asserts::Kept)?.module)
    }
}

/// A program of the host.
struct HostProgram(Lowered);

impl LoweredProgram for HostProgram {
    fn structural_hash(&self) -> anyhow::Result<u64> {
        Ok(self.0.structural_hash()?)
    }

    fn statements(&self, limit: u64) -> anyhow::Result<u64> {
        Ok(self.0.statements(limit)?)
    }

    fn compile(self: Box<Self>, _program: Program<'_>) -> anyhow::Result<CompiledKernel> {
        let compiled = self.0.build()?;
        let kernel = compiled.module.function(tvm_bridge::ir::ENTRY);
        Ok(CompiledKernel {
            kernel: Some(kernel.context("the compiled module")?),
            times: compiled.times,
            device_kernels: Vec::new(),
            simulation: None,
        })
    }
}
