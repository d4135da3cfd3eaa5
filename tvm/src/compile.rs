//! The road from a scheduled operator to a running kernel, and what each stage costs.
//!
//! Schedule → lower (passes) → code generation (`target.build.llvm`: LLVM IR, optimised) → JIT (machine code, in
//! memory). No shared library is written and no process is started. For a packed 64×56×56 3×3 conv2d on one core the
//! stages take about 2, 7, 15 and 8 ms; `docs/decisions.md` has the table and the roads that were tried. The module may
//! be compiled on any thread; stages of several operators run side by side without a common lock.

use std::time::{Duration, Instant};

use crate::call::call;
use crate::error::Result;
use crate::ir::IrModule;
use crate::kernel::KernelModule;
use crate::lower::{Pipeline, lower};
use crate::pass::Context;
use crate::target::Target;

pub use crate::lower::Asserts;

/// Wall time of the stages of one compilation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Lowering passes.
    pub lower: Duration,
    /// LLVM IR generation and optimisation.
    pub codegen: Duration,
    /// Machine code generation and linking in memory.
    pub jit: Duration,
}

/// A compiled module with the cost of compiling it.
#[derive(Debug)]
pub struct Compiled {
    /// The module, its functions ready to be called.
    pub module: KernelModule,
    /// What the stages took.
    pub times: StageTimes,
}

/// Compiles every exported function of `module` for a CPU target.
///
/// # Errors
/// A pass refuses the program, or LLVM does.
pub fn compile(module: &IrModule, target: &Target, asserts: Asserts) -> Result<Compiled> {
    compile_with(module, target, asserts, Pipeline::Cpu)
}

pub(crate) fn compile_with(
    module: &IrModule,
    target: &Target,
    asserts: Asserts,
    pipeline: Pipeline,
) -> Result<Compiled> {
    let _context = Context::enter(&[])?;
    let start = Instant::now();
    let lowered = lower(module, target, asserts, pipeline)?;
    let after_lower = Instant::now();
    let built = KernelModule {
        handle: call(
            &format!("target.build.{}", target.kind()),
            &[&lowered.handle, &target.handle],
        )?,
    };
    let after_codegen = Instant::now();
    // The JIT works when a function is asked for the first time.
    for name in module.function_names()? {
        built.function(&name)?;
    }
    let times = StageTimes {
        lower: after_lower - start,
        codegen: after_codegen - after_lower,
        jit: after_codegen.elapsed(),
    };
    Ok(Compiled {
        module: built,
        times,
    })
}
