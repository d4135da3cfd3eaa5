//! The process under valgrind: it loads a kernel, fills its arguments, and calls it once with the simulator on.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context as _;
use opmodels::graph::Argument;
use serde::{Deserialize, Serialize};
use tvm_bridge::{Kernel, KernelModule, Tensor};

use crate::measure::fill::filled;

/// The kernel that the child runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// The kernel's shared library.
    pub library: PathBuf,
    /// Its arguments, outputs last.
    pub arguments: Vec<Argument>,
    /// Seed of their data.
    pub seed: u64,
}

/// Runs the kernel described by the JSON of `input` once, with valgrind's simulator on.
///
/// # Errors
/// Fails if the request cannot be understood, or the kernel cannot be loaded or fails.
pub fn serve(mut input: impl Read) -> anyhow::Result<()> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    let run: Run = serde_json::from_str(&text).context("not a kernel to run")?;
    let tensors = run
        .arguments
        .iter()
        .enumerate()
        .map(|(i, a)| {
            Ok(filled(
                &a.shape,
                a.dtype.parse()?,
                a.fill,
                run.seed,
                i as u64,
            )?)
        })
        .collect::<anyhow::Result<Vec<Tensor>>>()?;
    let module = KernelModule::load(&run.library).context("its library")?;
    let kernel: Kernel = module.function(tvm_bridge::ir::ENTRY)?;
    let bound = kernel.bind(&tensors);
    requests::start_instrumentation();
    let result = bound.call();
    requests::stop_instrumentation();
    Ok(result?)
}

/// Requests to the valgrind that this process runs under; outside it they do nothing.
#[cfg(target_arch = "x86_64")]
mod requests {
    use std::arch::asm;

    /// Callgrind's requests are numbered from its letters.
    const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;

    pub fn start_instrumentation() {
        request(CALLGRIND + 4);
    }

    pub fn stop_instrumentation() {
        request(CALLGRIND + 5);
    }

    /// The sequence of instructions that valgrind takes for a request: rotations that add up to nothing.
    fn request(code: u64) {
        let arguments = [code, 0, 0, 0, 0, 0u64];
        // SAFETY: the rotations restore `rdi`, the exchange changes nothing, and valgrind only reads the arguments.
        unsafe {
            asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                inout("rdx") 0u64 => _,
                in("rax") arguments.as_ptr(),
                options(nostack)
            );
        }
    }
}

/// On other processors no kernel is simulated.
#[cfg(not(target_arch = "x86_64"))]
mod requests {
    pub fn start_instrumentation() {}
    pub fn stop_instrumentation() {}
}
