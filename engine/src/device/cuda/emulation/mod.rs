//! Running generated CUDA on the CPU, for tests: TVM's kernels compiled by the host's C++ compiler with a shim of our own,
//! and started by TVM's own host code.
//!
//! `shim.h` describes how threads run, which faults it finds and which it cannot find. It needs a C++ compiler, and a
//! process in which TVM's CUDA runtime is not loaded.

mod gpu;
mod kernels;

pub(crate) use gpu::EmulatedGpu;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::ir::ENTRY;
use tvm_bridge::{Device, DeviceKind, IrModule, KernelModule, Target, Tensor};

/// The host's C++ compiler.
const COMPILER: &str = "g++";

/// Why this machine cannot do it, if it cannot.
fn obstacle() -> Option<String> {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        return Some(format!("there is no {COMPILER}"));
    }
    tvm_bridge::cuda::emulate_memory()
        .err()
        .map(|e| format!("TVM's CUDA runtime is loaded: {e}"))
}

/// Runs the function of `module` as scheduled on `tensors`, outputs last; returns them as it left them.
///
/// # Errors
/// Fails if the program cannot be compiled for the GPU or its emulation. Also fails if a kernel touches memory outside
/// its arguments, waits for threads that never come, or has results that depend on the order of its threads.
pub(super) fn run(module: &IrModule, target: &Target, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let loaded = load(Lowered::new(module, target, Asserts::Dropped)?)?;
    let device = Device::first(DeviceKind::Cuda);
    let tensors = tensors
        .iter()
        .map(|t| Tensor::from_bytes(device, t.shape(), t.dtype(), &t.bytes()?))
        .collect::<tvm_bridge::Result<Vec<_>>>()?;
    loaded.function(ENTRY)?.bind(&tensors).call()?;
    let back = |t: &Tensor| Tensor::from_bytes(Device::cpu(), t.shape(), t.dtype(), &t.bytes()?);
    Ok(tensors
        .iter()
        .map(back)
        .collect::<tvm_bridge::Result<_>>()?)
}

/// Loads functions with their kernels compiled for the host.
///
/// # Errors
/// As [`run`]'s.
pub(super) fn load(lowered: Lowered) -> Result<KernelModule> {
    let script = lowered
        .device_script()?
        .context("nothing runs on the GPU")?;
    let generated = lowered.generate()?;
    let source = generated.device_source()?.context("no source")?;
    let folder = tempfile::tempdir()?;
    let library = compiled(folder.path(), &kernels::with_shim(&source, &script)?)?;
    Ok(generated.load_with_kernels(&library)?.module)
}

/// Whether this machine can emulate. If not, the test is listed as skipped.
pub(crate) fn is_possible() -> bool {
    let Some(obstacle) = obstacle() else {
        return true;
    };
    optestkit::skip("emulated CUDA kernels", &obstacle);
    false
}

fn compiled(folder: &Path, source: &str) -> Result<std::path::PathBuf> {
    let library = folder.join("kernels.so");
    std::fs::write(folder.join("shim.h"), include_str!("shim.h"))?;
    std::fs::write(folder.join("kernels.cpp"), source)?;
    // Unoptimised code would take longer to run than -O1 takes to compile. Jumps between stacks are no overflow.
    let options = "-std=c++17 -O1 -w -shared -fPIC -ffp-contract=off -U_FORTIFY_SOURCE";
    let output = Command::new(COMPILER)
        .args(options.split_whitespace())
        .arg("-o")
        .args([&library, &folder.join("kernels.cpp")])
        .output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = errors
            .lines()
            .filter(|l| l.contains("error"))
            .take(5)
            .collect();
        bail!("the emulation does not compile: {}", first.join("; "));
    }
    Ok(library)
}
