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

/// A module that went through the lowering passes and waits for code generation.
#[derive(Debug)]
pub struct Lowered {
    module: IrModule,
    /// Names under which the functions will be found.
    functions: Vec<String>,
    target: Target,
    took: Duration,
}

/// Compiles every exported function of `module` for a CPU target.
///
/// # Errors
/// A pass refuses the program, or LLVM does.
pub fn compile(module: &IrModule, target: &Target, asserts: Asserts) -> Result<Compiled> {
    Lowered::new(module, target, asserts)?.build()
}

impl Lowered {
    /// Lowers every function of `module` for a CPU target.
    ///
    /// # Errors
    /// A pass refuses the program.
    pub fn new(module: &IrModule, target: &Target, asserts: Asserts) -> Result<Lowered> {
        let _context = Context::enter(&[])?;
        let start = Instant::now();
        let lowered = lower(module, target, asserts, Pipeline::Cpu)?;
        Ok(Lowered {
            functions: module.function_names()?,
            module: lowered,
            target: target.clone(),
            took: start.elapsed(),
        })
    }

    /// A hash of what will be compiled: equal for modules whose code is equal, however they were scheduled.
    ///
    /// # Errors
    /// TVM's.
    pub fn structural_hash(&self) -> Result<u64> {
        self.module.structural_hash()
    }

    /// Number of statements after unrolling, which decides what LLVM will cost; counting stops beyond `limit`.
    ///
    /// # Errors
    /// TVM's.
    pub fn statements(&self, limit: u64) -> Result<u64> {
        crate::inspect::statements(&self.module, limit)
    }

    /// Generates code and loads it.
    ///
    /// # Errors
    /// LLVM refuses the program.
    pub fn build(self) -> Result<Compiled> {
        let _context = Context::enter(&[])?;
        let start = Instant::now();
        let built = KernelModule {
            handle: call(
                &format!("target.build.{}", self.target.kind()),
                &[&self.module.handle, &self.target.handle],
            )?,
        };
        let after_codegen = Instant::now();
        // The JIT works when a function is asked for the first time.
        for name in &self.functions {
            built.function(name)?;
        }
        let times = StageTimes {
            lower: self.took,
            codegen: after_codegen - start,
            jit: after_codegen.elapsed(),
        };
        Ok(Compiled {
            module: built,
            times,
        })
    }
}
