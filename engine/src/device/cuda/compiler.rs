//! From a lowered program to CUDA source, machine code, and what its kernels take of the device.
//!
//! Source is TVM's, machine code NVRTC's, which compiles in processes of its own ([`super::nvrtc`]). What a kernel takes
//! comes from the assembler's report and the cubin; occupancy is computed from it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::compile::Lowered;
use tvm_bridge::{KernelLaunch, StageTimes};

use super::arch::{self, Arch};
use super::nvrtc::{Cubin, Nvrtc};
use super::occupancy::{self, Demand};
use super::{cubin, target};
use crate::device::{CompiledKernel, KernelCompiler, Opening, Program};

/// Compiles without a GPU: kernels are described, and not loaded.
#[derive(Debug)]
pub(super) struct OfflineCompiler {
    nvrtc: Arc<Nvrtc>,
    arch: Arch,
    /// The architecture by name, as the target has it.
    arch_name: String,
    keep: Option<PathBuf>,
}

impl OfflineCompiler {
    /// For the architecture of the opening's target.
    ///
    /// # Errors
    /// The target has no architecture that is known here, or the folder of kept kernels cannot be made.
    pub fn new(nvrtc: Arc<Nvrtc>, opening: &Opening) -> anyhow::Result<OfflineCompiler> {
        let name = opening.dictionary[target::ARCH].as_str();
        let arch_name = name.context("the target has no architecture")?.to_owned();
        if let Some(folder) = &opening.keep_kernels {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(OfflineCompiler {
            nvrtc,
            arch: arch::named(&arch_name)
                .with_context(|| format!("there is no architecture {arch_name}"))?,
            arch_name,
            keep: opening.keep_kernels.clone(),
        })
    }

    /// Describes the kernels of a source that was compiled.
    fn describe(&self, launches: &[KernelLaunch], made: &Cubin) -> Vec<DeviceKernel> {
        let reports = cubin::reports(&made.log);
        let sizes = cubin::code_sizes(&made.bytes);
        let mut instructions = self.disassembled(&made.bytes);
        let describe = |launch: &KernelLaunch| {
            let report = reports.get(&launch.name).copied().unwrap_or_default();
            let dynamic = launch.dynamic_shared_bytes.unsigned_abs();
            let mut kernel = DeviceKernel {
                name: launch.name.clone(),
                threads_per_block: launch.threads_per_block().unsigned_abs(),
                blocks: launch.block_count().unsigned_abs(),
                code_bytes: sizes.get(&launch.name).copied(),
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

    /// Instructions by kernel; nothing where there is no disassembler, or no room for a temporary file.
    fn disassembled(
        &self,
        cubin_bytes: &[u8],
    ) -> std::collections::BTreeMap<String, std::collections::BTreeMap<String, u64>> {
        let Some(disassembler) = self.nvrtc.toolkit().disassembler() else {
            return Default::default();
        };
        let written = tempfile::NamedTempFile::new().and_then(|mut file| {
            file.write_all(cubin_bytes)?;
            Ok(file)
        });
        written.map_or_else(
            |_| Default::default(),
            |file| cubin::instructions(&disassembler, file.path()),
        )
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

impl KernelCompiler for OfflineCompiler {
    fn compile(&self, program: Program<'_>, lowered: Lowered) -> anyhow::Result<CompiledKernel> {
        let launches = lowered.launches()?;
        let source = lowered.device_source()?;
        let source = source.context("the program has no kernel for the device")?;
        let start = Instant::now();
        let made = self.nvrtc.compile(&self.arch_name, &source.text)?;
        let jit = start.elapsed();
        if let Some(folder) = &self.keep {
            self.keep(folder, program, &source.text, &made)?;
        }
        Ok(CompiledKernel {
            kernel: None,
            times: StageTimes {
                jit,
                ..source.times
            },
            device_kernels: self.describe(&launches, &made),
        })
    }
}
