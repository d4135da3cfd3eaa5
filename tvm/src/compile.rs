//! The path from a scheduled operator to a running kernel, and the duration of each stage.
//!
//! Schedule → lower (passes) → code generation (`target.build.llvm`: LLVM IR, optimised) → JIT (machine code, in
//! memory). For a device other than the host, lowering splits the kernels off. They go through their own code generator
//! and are attached to the host's module. No shared library is written and no process is started. For a packed 64×56×56
//! 3×3 conv2d on one core the stages take about 2, 7, 15 and 8 ms; `docs/decisions.md` has the table and the alternatives that
//! were tried. The module may be compiled on any thread; stages of several operators run side by side without a common
//! lock.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::call::{Obj, call, text, value};
use crate::error::Result;
use crate::ir::IrModule;
use crate::kernel::KernelModule;
use crate::launch::{KernelLaunch, launches};
use crate::lower::{HostAndDevice, lower};
use crate::pack::{self, DeviceCompiler};
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
    /// Durations of the stages.
    pub times: StageTimes,
}

/// A module that went through the lowering passes and waits for code generation.
#[derive(Debug)]
pub struct Lowered {
    parts: HostAndDevice,
    /// Names under which the functions will be found.
    functions: Vec<String>,
    target: Target,
    took: Duration,
}

/// Generated code that is not loaded yet.
#[derive(Debug)]
pub struct Generated {
    host: Obj,
    device: Option<Obj>,
    functions: Vec<String>,
    target: Target,
    times: StageTimes,
}

/// The kernels of a device as source in the target's language, with nothing compiled for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSource {
    /// The text of all kernels.
    pub text: String,
    /// Durations of lowering and code generation.
    pub times: StageTimes,
}

/// Compiles every exported function of `module` for the target's device.
///
/// # Errors
/// Fails if a pass refuses the program, or the code generator does.
pub fn compile(module: &IrModule, target: &Target, asserts: Asserts) -> Result<Compiled> {
    Lowered::new(module, target, asserts)?.build()
}

impl Lowered {
    /// Lowers every function of `module` for the target's device.
    ///
    /// # Errors
    /// Fails if a pass refuses the program.
    pub fn new(module: &IrModule, target: &Target, asserts: Asserts) -> Result<Lowered> {
        let _context = Context::enter(&[])?;
        let start = Instant::now();
        Ok(Lowered {
            parts: lower(module, target, asserts)?,
            functions: module.function_names()?,
            target: target.clone(),
            took: start.elapsed(),
        })
    }

    /// A hash of the lowered module: equal for modules with equal code, however they were scheduled.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn structural_hash(&self) -> Result<u64> {
        // The hash of the host's part depends on names in the device's module. The host only starts the kernels, so
        // theirs suffices.
        let program = self.parts.device.as_ref().unwrap_or(&self.parts.host);
        program.structural_hash()
    }

    /// Number of statements after unrolling, which decides what the code generator will cost; counting stops beyond
    /// `limit`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn statements(&self, limit: u64) -> Result<u64> {
        let host = crate::inspect::statements(&self.parts.host, limit)?;
        match &self.parts.device {
            Some(device) if host <= limit => {
                Ok(host + crate::inspect::statements(device, limit - host)?)
            }
            _ => Ok(host),
        }
    }

    /// The device's kernels as TVMScript. `None` if the host runs everything.
    ///
    /// # Errors
    /// Fails if the printer does.
    pub fn device_script(&self) -> Result<Option<String>> {
        let device = self.parts.device.as_ref();
        device.map(|d| crate::ir::script(&d.handle)).transpose()
    }

    /// Generates code and loads it.
    ///
    /// # Errors
    /// As [`Lowered::generate`] and [`Generated::load`].
    pub fn build(self) -> Result<Compiled> {
        self.generate()?.load()
    }

    /// The launch parameters of the device's kernels. Empty if the host runs everything.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn launches(&self) -> Result<Vec<KernelLaunch>> {
        self.parts.device.as_ref().map_or(Ok(Vec::new()), launches)
    }

    /// Generates the source of the device's kernels alone. `None` if the host runs everything.
    ///
    /// # Errors
    /// Fails if the code generator refuses the program, or TVM keeps no source for this kind of target.
    pub fn device_source(&self) -> Result<Option<DeviceSource>> {
        let _context = Context::enter(&[])?;
        let Some(kernels) = &self.parts.device else {
            return Ok(None);
        };
        let start = Instant::now();
        let text = source(&code(kernels, &self.target)?, &self.target)?;
        let times = StageTimes {
            lower: self.took,
            codegen: start.elapsed(),
            jit: Duration::ZERO,
        };
        Ok(Some(DeviceSource { text, times }))
    }

    /// Generates code: of the device's kernels, where there are any, and of the host's part.
    ///
    /// # Errors
    /// Fails if a code generator refuses the program, or TVM has none for the target.
    pub fn generate(self) -> Result<Generated> {
        let _context = Context::enter(&[])?;
        let start = Instant::now();
        let device = self.parts.device.as_ref();
        let device = device.map(|kernels| code(kernels, &self.target));
        let device = device.transpose()?;
        let host = code(&self.parts.host, self.target.host())?;
        Ok(Generated {
            host,
            device,
            functions: self.functions,
            target: self.target,
            times: StageTimes {
                lower: self.took,
                codegen: start.elapsed(),
                jit: Duration::ZERO,
            },
        })
    }
}

fn code(module: &IrModule, target: &Target) -> Result<Obj> {
    let generator = format!("target.build.{}", target.kind());
    call(&generator, &[&module.handle, &target.handle])
}

fn source(code: &Obj, target: &Target) -> Result<String> {
    const NAME: &str = "ffi.ModuleInspectSource";
    let source = call(NAME, &[code, &text(target.kind())])?;
    let source: tvm_ffi::String = value(NAME, source)?;
    Ok(source.as_str().to_owned())
}

impl Generated {
    /// Source of the device's kernels in the target's language. `None` if the host runs everything.
    ///
    /// # Errors
    /// Fails if TVM keeps no source for this kind of target.
    pub fn device_source(&self) -> Result<Option<String>> {
        let device = self.device.as_ref();
        device.map(|code| source(code, &self.target)).transpose()
    }

    /// Durations of the stages so far.
    pub fn times(&self) -> StageTimes {
        self.times
    }

    /// The code as it is, to be linked with others: no function of it can be called here.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn into_module(self) -> Result<KernelModule> {
        if let Some(device) = &self.device {
            call("ffi.ModuleImportModule", &[&self.host, device])?;
        }
        Ok(KernelModule::compiled(self.host))
    }

    /// Writes the host's part as an object file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if the code generator writes no such files.
    pub fn write_object(&self, file: &Path) -> Result<()> {
        KernelModule::compiled(self.host.clone()).write_object(file)
    }

    /// Writes the code as objects of a shared library into a folder; returns the files. `compile` is asked for the machine
    /// code of the device's kernels, if there are any.
    ///
    /// # Errors
    /// Fails if a file cannot be written, if the code generator writes no such files, or if the source is refused.
    pub fn write_objects(
        self,
        folder: &Path,
        compile: &mut DeviceCompiler<'_>,
    ) -> Result<Vec<PathBuf>> {
        let mut files = vec![folder.join("host.o")];
        self.write_object(&files[0])?;
        if let Some(device) = &self.device {
            call("ffi.ModuleImportModule", &[&self.host, device])?;
            files.push(folder.join("device.o"));
            pack::write(&self.host, self.target.host(), compile, &files[1])?;
        }
        Ok(files)
    }

    /// The host's part in assembly.
    ///
    /// # Errors
    /// Fails if the code generator has none.
    pub fn assembly(&self) -> Result<String> {
        const NAME: &str = "ffi.ModuleInspectSource";
        let source = call(NAME, &[&self.host, &text("asm")])?;
        let source: tvm_ffi::String = value(NAME, source)?;
        Ok(source.as_str().to_owned())
    }

    /// Loads the code with kernels that were compiled into a shared library for the host in place of the device's.
    ///
    /// # Errors
    /// Fails if the library cannot be loaded, or the JIT refuses the host's part.
    pub fn load_with_kernels(self, library: &Path) -> Result<Compiled> {
        let path = text(&library.to_string_lossy());
        let device = call("ffi.ModuleLoadFromFile", &[&path])?;
        let replaced = Generated {
            device: Some(device),
            ..self
        };
        replaced.load()
    }

    /// Loads the code, so that its functions can be called. Without the device's runtime, loading succeeds and calls
    /// fail.
    ///
    /// # Errors
    /// Fails if the JIT refuses the host's part.
    pub fn load(self) -> Result<Compiled> {
        let start = Instant::now();
        if let Some(device) = &self.device {
            call("ffi.ModuleImportModule", &[&self.host, device])?;
        }
        let module = KernelModule::compiled(self.host);
        // The JIT works when a function is asked for the first time.
        for name in &self.functions {
            module.function(name)?;
        }
        let jit = start.elapsed();
        Ok(Compiled {
            module,
            times: StageTimes { jit, ..self.times },
        })
    }
}
