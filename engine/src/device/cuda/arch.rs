//! The architectures of NVIDIA GPUs that kernels can be compiled for, and the resources of a multiprocessor of each.
//!
//! Numbers: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". The list is that of the
//! compiler that `scripts/setup --with cuda` installs (NVRTC 13.0).

use opreport::nearest::{did_you_mean, nearest};

use crate::device::TargetProblem;

/// An architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arch {
    /// Compute capability times ten: 80 for `sm_80`.
    pub capability: u32,
    /// Threads that a multiprocessor can hold.
    pub threads: u64,
    /// Blocks that it can hold.
    pub blocks: u64,
    /// Shared memory that it has for blocks, in bytes.
    pub shared_bytes: u64,
}

/// The architecture where neither the user nor the machine names one.
pub(super) const DEFAULT: &str = "sm_80";
/// Threads of a warp.
pub(super) const WARP: u64 = 32;
/// Registers of a multiprocessor, and most of a block.
pub(super) const REGISTERS: u64 = 65_536;
/// Maximum number of threads of a block.
pub(super) const MAX_THREADS_PER_BLOCK: u64 = 1024;
/// Maximum shared memory of a block that does not opt in to more, in bytes.
pub(super) const SHARED_BYTES_PER_BLOCK: u64 = 48 << 10;

const KIB: u64 = 1 << 10;

const fn arch(capability: u32, threads: u64, blocks: u64, shared_kib: u64) -> Arch {
    Arch {
        capability,
        threads,
        blocks,
        shared_bytes: shared_kib * KIB,
    }
}

const ALL: [Arch; 12] = [
    arch(75, 1024, 16, 64),
    arch(80, 2048, 32, 164),
    arch(86, 1536, 16, 100),
    arch(87, 1536, 16, 164),
    arch(88, 1536, 16, 100),
    arch(89, 1536, 24, 100),
    arch(90, 2048, 32, 228),
    arch(100, 2048, 32, 228),
    arch(103, 2048, 32, 228),
    arch(110, 1536, 24, 228),
    arch(120, 1536, 24, 100),
    arch(121, 1536, 24, 100),
];

/// The architecture of this name; `sm_90a` and its like have instructions that no other generation runs.
pub(super) fn named(name: &str) -> Option<Arch> {
    let digits = name.strip_prefix("sm_")?;
    let (digits, special) = match digits.strip_suffix('a') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let capability: u32 = digits.parse().ok()?;
    let found = ALL.into_iter().find(|a| a.capability == capability)?;
    (!special || capability >= 90).then_some(found)
}

/// The names of all architectures.
pub(super) fn names() -> Vec<String> {
    ALL.iter().map(|a| format!("sm_{}", a.capability)).collect()
}

/// Checks the name of an architecture.
pub(super) fn check(name: &str) -> Result<(), TargetProblem> {
    if named(name).is_some() {
        return Ok(());
    }
    let names = names();
    let near = nearest(name, names.iter().map(String::as_str));
    let near = did_you_mean(&near);
    Err(TargetProblem {
        problem: format!("there is no architecture `{name}` here{near}"),
        next: format!("they are {}", names.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_names_and_unknown_ones_get_suggestions() {
        for name in names() {
            assert!(check(&name).is_ok(), "{name}");
        }
        assert!(named("sm_90a").is_some() && named("sm_80a").is_none());
        for name in ["sm_70", "sm_8O", "80", "compute_80", "sm_"] {
            assert!(named(name).is_none(), "{name}");
        }
        insta::assert_snapshot!(check("sm_81").unwrap_err().to_string(), @"there is no architecture `sm_81` here (did you mean sm_80 or sm_86 or sm_87?); they are sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121");
    }
}
