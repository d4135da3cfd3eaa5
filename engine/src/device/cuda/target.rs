//! CUDA targets: the architecture, and TVM's dictionary of a block's limits.

use opdata::contract::Environment;
use serde_json::{Value, json};
use tvm_bridge::{Result, Target as TvmTarget};

use super::arch;
use crate::device::{Target, TargetProblem};
use crate::nvidia::driver;

/// The option that names the architecture.
pub(super) const ARCH: &str = "arch";

/// Checks the architecture, if one was given.
pub(super) fn check(target: &Target) -> std::result::Result<(), TargetProblem> {
    target.value(ARCH).map_or(Ok(()), arch::check)
}

/// The option that names the processor which starts kernels, on another machine.
pub(super) const MTRIPLE: &str = "mtriple";

/// TVM's dictionary for a target.
pub(super) fn dictionary(target: &Target, _machine: &Environment) -> Value {
    let mut dictionary = json!({
        "kind": "cuda",
        ARCH: target.value(ARCH).map_or_else(default_arch, str::to_owned),
        "max_shared_memory_per_block": arch::SHARED_BYTES_PER_BLOCK,
        "max_threads_per_block": arch::MAX_THREADS_PER_BLOCK,
        "thread_warp_size": arch::WARP,
        "registers_per_block": arch::REGISTERS,
    });
    if let Some(triple) = target.value(MTRIPLE) {
        dictionary[HOST] = json!({ "kind": "llvm", MTRIPLE: triple });
    }
    dictionary
}

/// Where a dictionary has the processor that starts kernels.
const HOST: &str = "host";

/// A dictionary in TVM's own form, whose kernels another machine's processor starts. The code for it is generic,
/// because little runs on it.
pub(super) fn elsewhere(dictionary: &Value) -> Result<TvmTarget> {
    let mut device = dictionary.clone();
    let host = device.as_object_mut().and_then(|d| d.remove(HOST));
    let host = host.unwrap_or_else(|| json!({ "kind": "llvm" }));
    TvmTarget::with_host(&device, &TvmTarget::new(&host)?)
}

/// The architecture of this machine's first GPU. Without a GPU, that of a generation whose code newer ones can be
/// compared with.
fn default_arch() -> String {
    let own = driver::driver()
        .as_ref()
        .ok()
        .map(|driver| driver.gpus[0].arch());
    let known = own.filter(|name| arch::named(name).is_some());
    known.unwrap_or_else(|| arch::DEFAULT.to_owned())
}

/// The dictionary in TVM's own form, its kernels started by code for this machine's processor.
pub(super) fn parsed(dictionary: &Value) -> Result<TvmTarget> {
    let host = json!({ "kind": "llvm", "mcpu": tvm_bridge::target::host_cpu()? });
    TvmTarget::with_host(dictionary, &TvmTarget::new(&host)?)
}
