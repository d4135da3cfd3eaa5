//! Compiling for another machine: code here, a shared library by the linker, which is uploaded and loaded there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::rpc::Timed;
use tvm_bridge::{Device, IrModule, Kernel, KernelLaunch, KernelModule, StageTimes, Target};

use super::RemoteDevice;
use super::connect::Server;
use super::link::link;
use super::meter::Meter;
use crate::device::{CompiledKernel, KernelCompiler, LoweredProgram, Program};

/// The compiler for one server.
pub(super) struct RemoteCompiler {
    pub target: Target,
    pub upload: Arc<Upload>,
    pub meter: Meter,
    pub device: Device,
    pub accelerator: Option<Arc<dyn RemoteDevice>>,
}

/// Machine code of a device's kernels from their source.
///
/// # Errors
/// Fails if the source is refused, or if the device has no source.
pub(super) fn machine_code(
    accelerator: Option<&Arc<dyn RemoteDevice>>,
    source: &str,
    of: Option<(Program<'_>, &[KernelLaunch])>,
) -> Result<(Vec<u8>, Vec<DeviceKernel>), String> {
    let accelerator = accelerator.ok_or("kernels of a device in a program of the processor")?;
    let made = accelerator.compile(source, of);
    made.map_err(|error| format!("{error:#}"))
}

/// Brings libraries to a server.
pub(super) struct Upload {
    pub server: Server,
    pub linker: PathBuf,
    /// Objects and libraries on their way.
    pub folder: tempfile::TempDir,
    /// Names so far.
    pub next: AtomicU64,
}

impl Upload {
    /// Links objects that `write` makes in a folder, uploads the library and loads it there.
    pub fn load(
        &self,
        write: impl FnOnce(&Path) -> anyhow::Result<Vec<PathBuf>>,
    ) -> anyhow::Result<KernelModule> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(number.to_string());
        std::fs::create_dir(&folder).context("a folder for objects")?;
        let name = format!("lib{number}.so");
        let library = folder.join(&name);
        let objects = write(&folder)?;
        link(&self.linker, &objects, &library)?;
        let bytes = std::fs::read(&library).context("the linked library")?;
        std::fs::remove_dir_all(&folder).context("the folder of objects")?;
        let session = &self.server.session;
        let brought = session.upload(&name, &bytes).and_then(|()| {
            let module = session.load(&name)?;
            // It is mapped there; nobody needs the file any more.
            session.remove(&name)?;
            Ok(module)
        });
        if brought.is_err() {
            self.server.end_if_lost();
        }
        Ok(brought?)
    }

    /// Brings a kernel of our own, which has no description.
    pub fn load_kernel(
        &self,
        lowered: Lowered,
        accelerator: Option<&Arc<dyn RemoteDevice>>,
    ) -> anyhow::Result<KernelModule> {
        let generated = lowered.generate()?;
        self.load(|folder| {
            let mut compile =
                |source: &str| machine_code(accelerator, source, None).map(|(code, _)| code);
            Ok(generated.write_objects(folder, &mut compile)?)
        })
    }
}

impl KernelCompiler for RemoteCompiler {
    fn lower(&self, module: &IrModule) -> anyhow::Result<Box<dyn LoweredProgram + '_>> {
        Ok(Box::new(RemoteProgram {
            compiler: self,
            lowered: Lowered::new(module, &self.target, Asserts::Dropped)?,
        }))
    }

    /// The code is linked with the rest of the model, so it is not loaded by itself.
    fn load(&self, module: &IrModule) -> anyhow::Result<KernelModule> {
        let lowered = Lowered::new(module, &self.target, Asserts::Kept)?;
        Ok(lowered.generate()?.into_module()?)
    }
}

/// A lowered operator.
struct RemoteProgram<'c> {
    compiler: &'c RemoteCompiler,
    lowered: Lowered,
}

impl LoweredProgram for RemoteProgram<'_> {
    fn structural_hash(&self) -> anyhow::Result<u64> {
        Ok(self.lowered.structural_hash()?)
    }

    fn statements(&self, limit: u64) -> anyhow::Result<u64> {
        Ok(self.lowered.statements(limit)?)
    }

    fn compile(self: Box<Self>, program: Program<'_>) -> anyhow::Result<CompiledKernel> {
        let RemoteCompiler {
            upload,
            meter,
            device,
            accelerator,
            ..
        } = self.compiler;
        let launches = self.lowered.launches()?;
        let mut device_kernels = Vec::new();
        let generated = self.lowered.generate()?;
        let times = generated.times();
        let start = Instant::now();
        let module = upload.load(|folder| {
            let mut compile = |source: &str| {
                let of = Some((program, &launches[..]));
                let (code, kernels) = machine_code(accelerator.as_ref(), source, of)?;
                device_kernels = kernels;
                Ok(code)
            };
            Ok(generated.write_objects(folder, &mut compile)?)
        })?;
        let jit = start.elapsed();
        let entry = module.function(tvm_bridge::ir::ENTRY)?;
        let timed = Timed::new(&module, tvm_bridge::ir::ENTRY, None, *device);
        let meter = meter.clone();
        let kernel = Kernel::native(program.symbol, move |tensors| {
            let called = meter.call(&timed, tensors, || entry.bind(tensors).call());
            called.map_err(|error| error.to_string())
        });
        Ok(CompiledKernel {
            kernel: Some(kernel),
            // Linking and uploading here take the place of the JIT on this machine.
            times: StageTimes { jit, ..times },
            device_kernels,
            simulation: None,
        })
    }
}
