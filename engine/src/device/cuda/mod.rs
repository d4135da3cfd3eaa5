//! NVIDIA GPUs, through TVM's CUDA code generator and NVRTC.
//!
//! | module | for |
//! | --- | --- |
//! | [`arch`], [`target`] | the architectures, and targets for them |
//! | [`templates`] | schedule templates: blocks, threads, shared memory |
//! | [`nvrtc`] | NVIDIA's compiler, in processes of its own |
//! | [`cubin`], [`disassembler`], [`occupancy`] | the resources of a multiprocessor that kernels need |
//! | [`compiler`] | from a lowered program to source, machine code and the resources that it needs |
//! | [`events`], [`gate`] | timing on the GPU, and its cache |
//! | [`session`], [`columns`] | the device in the worker; its columns of rows |
//! | [`remote`] | a GPU behind a server of TVM's RPC |
//!
//! Compiling needs no GPU; measuring does.

mod arch;
mod columns;
mod compiler;
mod cubin;
mod disassembler;
#[cfg(test)]
pub(crate) mod emulation;
mod events;
mod findings;
mod gate;
mod nvrtc;
mod occupancy;
mod remote;
mod session;
mod status;
mod target;
mod templates;

use std::ffi::OsString;
use std::sync::Arc;

use anyhow::Context as _;
use opdata::contract::Environment;
use opdata::{CacheState, DeviceKind, Row};
use serde_json::Value;
use tvm_bridge::rpc::server::Answer;

use super::remote::DeviceThere;
use super::{
    DeviceHost, DevicePlan, DeviceSchedules, Finding, Opening, Purpose, Session, Target,
    TargetOption, TargetProblem,
};
use crate::nvidia::driver::{self, NoGpu};
use crate::schedule::{Choice, Combined, FactorInfo, FactorSettings, Space};
use compiler::MachineCode;
use nvrtc::{Toolkit, ToolkitMissing};
use remote::RemoteGpu;
use templates::{CudaTemplates, Knobs, Limits};

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Cuda;

impl DevicePlan for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn title(&self) -> &'static str {
        "NVIDIA GPUs, through CUDA; kernels are compiled without one (--compile-only)"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::CUDA
    }

    fn has_host_threads(&self) -> bool {
        false
    }

    fn check_remote(&self, target: &Target) -> Result<(), TargetProblem> {
        match target.value(target::ARCH) {
            Some(_) => Ok(()),
            None => Err(TargetProblem {
                problem: "the architecture of another machine's GPU is not known here".to_owned(),
                next: format!("give it, as in \"{} -arch=sm_87\"", self.name()),
            }),
        }
    }

    fn remote_cache_states(&self) -> &'static [CacheState] {
        // TVM's servers flush the processor's cache only.
        &[CacheState::Hot]
    }

    fn options(&self) -> &'static [TargetOption] {
        const {
            &[
                TargetOption::one(target::ARCH, "sm_NN"),
                TargetOption::one(target::MTRIPLE, "TRIPLE"),
            ]
        }
    }

    fn check(&self, target: &Target) -> Result<(), TargetProblem> {
        target::check(target)
    }

    fn dictionary(&self, target: &Target, machine: &Environment) -> Value {
        target::dictionary(target, machine)
    }

    fn describe_target(&self, dictionary: &Value) -> String {
        let arch = dictionary[target::ARCH].as_str().unwrap_or_default();
        format!("{} -{}={arch}", self.name(), target::ARCH)
    }

    fn hardware(&self, _machine: &Environment) -> String {
        match driver::driver() {
            Ok(driver) => driver.words(),
            Err(_) => "no GPU".to_owned(),
        }
    }

    fn cache_states(&self) -> &'static [CacheState] {
        &[CacheState::Model, CacheState::Hot, CacheState::Flushed]
    }

    fn fill_target(&self, row: &mut Row, dictionary: &Value) {
        row.target_cpu = dictionary[target::ARCH].as_str().map(str::to_owned);
    }
}

impl DeviceSchedules for Cuda {
    fn factors(&self) -> &'static [FactorInfo] {
        templates::factors::FACTORS
    }

    fn read_choice(&self, choice: Choice) -> Result<Choice, serde_json::Error> {
        Knobs::of(&choice).map(|knobs| knobs.choice())
    }

    fn combine(&self, space: &Space, settings: &FactorSettings<'_>) -> Combined {
        templates::combine(space, settings)
    }

    fn fill_schedule(&self, row: &mut Row, choice: &Choice) {
        columns::fill(row, choice);
    }
}

impl DeviceHost for Cuda {
    fn units(&self) -> Vec<u32> {
        driver::driver()
            .as_ref()
            .map_or(vec![0], |driver| driver.like_the_first())
    }

    fn limit_memory(&self, _mib: u64) -> std::io::Result<()> {
        // The CUDA driver reserves address space far beyond what it uses, which the limit would count.
        Ok(())
    }

    fn check_machine(&self, target: &Target, purpose: Purpose) -> Result<(), TargetProblem> {
        let lacking = |problem: String| TargetProblem {
            problem,
            next: nvrtc::HOW_TO_GET_IT.to_owned(),
        };
        if purpose == Purpose::Measure && target.value(target::MTRIPLE).is_some() {
            return Err(TargetProblem {
                problem: format!("-{} is for a GPU of another machine", target::MTRIPLE),
                next: "leave it out, or say which machine: --host, --key".to_owned(),
            });
        }
        if purpose == Purpose::Measure {
            check_gpu(target)?;
            nvrtc::runtime().map_err(|missing| lacking(missing.to_string()))?;
        }
        let toolkit = Toolkit::find();
        toolkit.map(drop).map_err(|m| lacking(m.to_string()))
    }

    fn findings(&self) -> Vec<Finding> {
        findings::of_machine()
    }

    fn serve(&self) -> anyhow::Result<Vec<Answer>> {
        if driver::driver().is_ok() {
            session::load_runtime()?;
        }
        Ok(Vec::new())
    }

    fn serve_compiler(&self, arguments: &[OsString]) -> anyhow::Result<()> {
        let folder = arguments
            .first()
            .context("the toolkit's folder is not given")?;
        let toolkit = Toolkit::at(folder.as_ref()).ok_or(ToolkitMissing)?;
        nvrtc::serve(&toolkit, std::io::stdin().lock(), std::io::stdout().lock())
    }

    fn open(&self, opening: &Opening) -> anyhow::Result<Box<dyn Session>> {
        if let Some(address) = &opening.remote {
            let target = target::elsewhere(&opening.dictionary)?;
            let limits = Limits::of_machine(target.json());
            let device = DeviceThere {
                target,
                kind: tvm_bridge::DeviceKind::Cuda,
                templates: Box::new(move || Box::new(CudaTemplates { limits })),
                accelerator: Some(Arc::new(RemoteGpu(MachineCode::new(opening)?))),
            };
            return super::remote::open(address, device, opening);
        }
        Ok(Box::new(session::CudaSession::open(opening)?))
    }
}

/// Checks that this machine's first GPU runs code for a target.
fn check_gpu(target: &Target) -> Result<(), TargetProblem> {
    const WITHOUT: &str = "compile without running anything: --compile-only";
    let driver = driver::driver().as_ref().map_err(|no_gpu| TargetProblem {
        problem: no_gpu.to_string(),
        next: match no_gpu {
            NoGpu::OldDriver(_) => {
                format!(
                    "update it to {} or later, or {WITHOUT}",
                    driver::NEEDED_DRIVER
                )
            }
            _ => format!("measure on a machine with an NVIDIA GPU, or {WITHOUT}"),
        },
    })?;
    check_arch(target, &driver.gpus[0]).map_err(|(problem, next)| TargetProblem {
        problem,
        next: format!("{next}{WITHOUT}"),
    })
}

/// Whether a GPU runs code for a compute capability; both as in 86 for 8.6.
fn runs_on(wanted: u32, gpu: u32) -> bool {
    wanted / 10 == gpu / 10 && wanted <= gpu
}

/// Checks that a GPU can run a target's code: it must be of the same generation, and not older within it.
fn check_arch(target: &Target, gpu: &driver::Gpu) -> Result<(), (String, &'static str)> {
    let is_unknown = arch::named(&gpu.arch()).is_none();
    let wanted = target.value(target::ARCH);
    if wanted.is_none() && is_unknown {
        let known = arch::names().join(", ");
        let problem = format!(
            "{} is {}, and NVRTC compiles for {known}",
            gpu.name,
            gpu.arch()
        );
        return Err((problem, ""));
    }
    match wanted.and_then(arch::named) {
        Some(wanted) if !runs_on(wanted.capability, gpu.capability) => {
            let gpu = format!("{} is {}", gpu.name, gpu.arch());
            Err((
                format!("{gpu} and runs no code for {target}"),
                "leave -arch out, or ",
            ))
        }
        _ => Ok(()),
    }
}
