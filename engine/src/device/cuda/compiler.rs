//! From a scheduled function to CUDA source, machine code, and the resources that its kernels need.
//!
//! Source is TVM's, machine code NVRTC's, which compiles in processes of its own ([`super::nvrtc`]). What a kernel takes
//! comes from the assembler's report and the cubin; occupancy is computed from it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::compile::{Asserts, Lowered, compile};
use tvm_bridge::{IrModule, KernelLaunch, KernelModule, StageTimes, Target};

use super::arch::{self, Arch};
use super::cubin;
use super::disassembler::Disassembler;
use super::nvrtc::{Cubin, HOW_TO_GET_IT, Nvrtc, Toolkit};
use super::occupancy::{self, Demand};
use super::target::ARCH;
use crate::device::{CompiledKernel, KernelCompiler, LoweredProgram, Opening, Program};

/// The use of the machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loading {
    /// The kernel is described, which needs no GPU.
    DescribeOnly,
    /// It is loaded, so that it can be run.
    Load,
}

/// Machine code for one architecture, and the resources of its kernels.
pub(super) struct MachineCode {
    nvrtc: Nvrtc,
    disassembler: Disassembler,
    arch: Arch,
    /// The architecture by name, as the target has it.
    arch_name: String,
    keep: Option<PathBuf>,
}

/// The compiler for one architecture.
pub(super) struct CudaCompiler {
    target: Target,
    code: Arc<MachineCode>,
    loading: Loading,
}

/// NVRTC's result for the last source that TVM passed on this thread: TVM asks for code and takes no report.
type Made = (String, Cubin);

thread_local! {
    static MADE: RefCell<Option<Made>> = const { RefCell::new(None) };
}

impl MachineCode {
    /// Compiles for the architecture of the opening's target.
    ///
    /// # Errors
    /// Fails if NVRTC is not installed, the target has no architecture that is known here, or the folder of kept
    /// kernels cannot be made.
    pub fn new(opening: &Opening) -> anyhow::Result<MachineCode> {
        let toolkit = Toolkit::find().map_err(|missing| anyhow!("{missing}; {HOW_TO_GET_IT}"))?;
        let nvrtc = Nvrtc::new(toolkit, opening.compile_limit)?;
        let name = opening.dictionary[ARCH].as_str();
        let arch_name = name.context("the target has no architecture")?.to_owned();
        if let Some(folder) = &opening.keep_kernels {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(MachineCode {
            disassembler: Disassembler::new(nvrtc.toolkit().disassembler()),
            nvrtc,
            arch: arch::named(&arch_name)
                .with_context(|| format!("there is no architecture {arch_name}"))?,
            arch_name,
            keep: opening.keep_kernels.clone(),
        })
    }

    /// The architecture.
    pub fn arch_name(&self) -> &str {
        &self.arch_name
    }

    /// Compiles source.
    ///
    /// # Errors
    /// Fails if NVRTC refuses it, or does not end in time.
    pub fn of(&self, source: &str) -> anyhow::Result<Cubin> {
        self.nvrtc.compile(&self.arch_name, source)
    }

    /// Describes the kernels of a compiled program, and keeps its source and machine code if requested.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn finish(
        &self,
        program: Program<'_>,
        launches: &[KernelLaunch],
        source: &str,
        made: &Cubin,
    ) -> anyhow::Result<Vec<DeviceKernel>> {
        if let Some(folder) = &self.keep {
            self.keep(folder, program, source, made)?;
        }
        Ok(self.describe(launches, made))
    }

    /// Describes the kernels of a source that was compiled.
    fn describe(&self, launches: &[KernelLaunch], made: &Cubin) -> Vec<DeviceKernel> {
        let reports = cubin::reports(&made.log);
        let code = cubin::code(&made.bytes);
        let mut instructions = self.disassembler.instructions(&made.bytes);
        let describe = |launch: &KernelLaunch| {
            let report = reports.get(&launch.name).copied().unwrap_or_default();
            let dynamic = launch.dynamic_shared_bytes.unsigned_abs();
            let mut kernel = DeviceKernel {
                name: launch.name.clone(),
                threads_per_block: launch.threads_per_block().unsigned_abs(),
                blocks: launch.block_count().unsigned_abs(),
                code_bytes: code.get(&launch.name).map(|code| code.len() as u64),
                registers_per_thread: report.registers,
                shared_bytes_per_block: report.shared_bytes.map(|bytes| bytes + dynamic),
                local_bytes_per_thread: report.stack_bytes,
                spill_store_bytes: report.spill_store_bytes,
                spill_load_bytes: report.spill_load_bytes,
                instructions: instructions.remove(&launch.name).unwrap_or_default(),
                ..DeviceKernel::default()
            };
            if let (Some(registers), Some(shared_bytes)) =
                (kernel.registers_per_thread, kernel.shared_bytes_per_block)
            {
                let demand = Demand {
                    threads: kernel.threads_per_block,
                    registers,
                    shared_bytes,
                };
                let occupancy = occupancy::of(self.arch, demand);
                kernel.occupancy = Some(occupancy.share);
                kernel.occupancy_limiter = Some(occupancy.limiters.join(";"));
            }
            kernel
        };
        launches.iter().map(describe).collect()
    }

    fn keep(
        &self,
        folder: &Path,
        program: Program<'_>,
        source: &str,
        made: &Cubin,
    ) -> anyhow::Result<()> {
        let name = format!(
            "{}-{:016x}-{}",
            program.symbol, program.hash, self.arch_name
        );
        for (extension, bytes) in [("cu", source.as_bytes()), ("cubin", &made.bytes)] {
            let path = folder.join(format!("{name}.{extension}"));
            std::fs::write(&path, bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl CudaCompiler {
    /// A compiler for a target. Loading kernels needs TVM's CUDA runtime in this process.
    ///
    /// # Errors
    /// Fails if another compiler was set in this process.
    pub fn new(
        code: MachineCode,
        target: &Target,
        loading: Loading,
    ) -> anyhow::Result<CudaCompiler> {
        let code = Arc::new(code);
        if loading == Loading::Load {
            let code = Arc::clone(&code);
            tvm_bridge::cuda::set_compiler(move |source| {
                let made = code.of(source).map_err(|e| format!("{e:#}"))?;
                let bytes = made.bytes.clone();
                MADE.with_borrow_mut(|last| *last = Some((source.to_owned(), made)));
                Ok(bytes)
            })?;
        }
        Ok(CudaCompiler {
            target: target.clone(),
            code,
            loading,
        })
    }
}

impl KernelCompiler for CudaCompiler {
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
        Ok(Box::new(CudaProgram {
            lowered: Lowered::new(module, &self.target, Asserts::Dropped)?,
            compiler: self,
        }))
    }

    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
        Ok(compile(module, &self.target, Asserts::Kept)?.module)
    }
}

/// A program with its kernels split off.
struct CudaProgram<'c> {
    lowered: Lowered,
    compiler: &'c CudaCompiler,
}

impl LoweredProgram for CudaProgram<'_> {
    fn structural_hash(&self) -> anyhow::Result<u64> {
        Ok(self.lowered.structural_hash()?)
    }

    fn statements(&self, limit: u64) -> anyhow::Result<u64> {
        Ok(self.lowered.statements(limit)?)
    }

    fn compile(self: Box<Self>, program: Program<'_>) -> anyhow::Result<CompiledKernel> {
        let CudaProgram { lowered, compiler } = *self;
        let launches = lowered.launches()?;
        let (kernel, times, (source, made)) = match compiler.loading {
            Loading::DescribeOnly => {
                let source = lowered.device_source()?;
                let source = source.context("the program has no kernel for the device")?;
                let start = Instant::now();
                let made = compiler.code.of(&source.text)?;
                let jit = start.elapsed();
                let times = StageTimes {
                    jit,
                    ..source.times
                };
                (None, times, (source.text, made))
            }
            Loading::Load => {
                // TVM calls the compiler that was set above, on this thread.
                MADE.with_borrow_mut(Option::take);
                let compiled = lowered.build()?;
                let made = MADE.with_borrow_mut(Option::take);
                let made = made.context("TVM did not ask for machine code")?;
                let kernel = compiled.module.function(tvm_bridge::ir::ENTRY)?;
                (Some(kernel), compiled.times, made)
            }
        };
        let code = &compiler.code;
        Ok(CompiledKernel {
            kernel,
            times,
            device_kernels: code.finish(program, &launches, &source, &made)?,
            simulation: None,
        })
    }
}
