//! A GPU of another machine, behind a server of TVM's RPC: machine code is made here, by NVRTC, and run there.

use anyhow::{Context as _, bail};
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::nest::{Buffer, Index, LoopKind, Parameter, Stmt, function};
use tvm_bridge::{DType, Device, KernelLaunch, PrimFunc, Result, Tensor};

use super::compiler::MachineCode;
use super::{arch, runs_on};
use crate::device::Program;
use crate::device::remote::RemoteDevice;

/// Blocks and threads of the reference kernel: enough to fill every GPU.
const GRID: [i64; 2] = [1024, 256];
/// Multiply-adds of each of its threads, one after the other: about 100 us on a GPU of 2020.
const STEPS: i64 = 4096;

/// Machine code for one architecture, for a server.
pub(super) struct RemoteGpu(pub MachineCode);

impl RemoteDevice for RemoteGpu {
    fn check(&self, device: Device) -> anyhow::Result<()> {
        if !device.exists()? {
            bail!("the server has no NVIDIA GPU, or its TVM has no CUDA runtime");
        }
        let version = device.compute_version()?;
        let capability = version.replace('.', "").parse::<u32>();
        let capability =
            capability.with_context(|| format!("the GPU's compute capability {version}"))?;
        let wanted = self.0.arch_name();
        let runs = arch::named(wanted).is_some_and(|wanted| runs_on(wanted.capability, capability));
        anyhow::ensure!(
            runs,
            "the server's GPU ({}) is sm_{capability} and runs no code for {wanted}; give -arch=sm_{capability}",
            device.name().unwrap_or_default(),
        );
        Ok(())
    }

    fn compile(
        &self,
        source: &str,
        of: Option<(Program<'_>, &[KernelLaunch])>,
    ) -> anyhow::Result<(Vec<u8>, Vec<DeviceKernel>)> {
        let made = self.0.of(source)?;
        let kernels = match of {
            Some((program, launches)) => self.0.finish(program, launches, source, &made)?,
            None => Vec::new(),
        };
        Ok((made.bytes, kernels))
    }

    /// Arithmetic on all multiprocessors: `out = in + in + …` in each thread.
    fn reference(&self) -> Result<(PrimFunc, Vec<Tensor>)> {
        let [blocks, threads] = GRID;
        let buffer = |name| Buffer::new(name, &[blocks * threads]);
        let (data, out) = (buffer("data")?, buffer("out")?);
        let body = Stmt::bound("blockIdx.x", &Index::constant(blocks)?, |block| {
            Stmt::bound("threadIdx.x", &Index::constant(threads)?, |thread| {
                let own = [block.times(&Index::constant(threads)?)?.plus(thread)?];
                Stmt::repeat("step", LoopKind::Serial, &Index::constant(STEPS)?, |_| {
                    let now = out.load(&own)?.plus(&data.load(&own)?)?;
                    out.store(&now, &own)
                })
            })
        })?;
        let reference = function(&[Parameter::Data(&data), Parameter::Data(&out)], &body)?;
        let tensor = || Tensor::zeros(Device::cpu(), &[blocks * threads], DType::Float32);
        Ok((reference, vec![tensor()?, tensor()?]))
    }
}
