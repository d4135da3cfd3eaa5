//! A nominal core of the processor that code was generated for, from the target of a log.

use opdata::Row;
use opmodels::tile::VectorUnit;

use crate::features::machine::Core;

/// Beginnings of LLVM's names of x86 processors with AVX-512 (`X86TargetParser` of LLVM 20, 2026-11-26).
#[rustfmt::skip]
const AVX512: [&str; 16] = [
    "cannonlake", "cascadelake", "cooperlake", "emeraldrapids", "graniterapids", "icelake", "knl",
    "knm", "rocketlake", "sapphirerapids", "skx", "skylake-avx512", "tigerlake", "x86-64-v4",
    "znver4", "znver5",
];

/// Names of processors with AVX2 and without AVX-512.
#[rustfmt::skip]
const AVX2: [&str; 14] = [
    "alderlake", "arrowlake", "broadwell", "core-avx2", "gracemont", "haswell", "lunarlake",
    "meteorlake", "raptorlake", "skylake", "x86-64-v3", "znver1", "znver2", "znver3",
];

/// Words that name an ARM processor in a target.
const ARM: [&str; 6] = ["aarch64", "apple-", "arm64", "arm_cpu", "armv", "cortex-"];

/// The core that LLVM generates code for. A core with AVX2 or NEON does two fused multiply-adds of a vector in a cycle.
/// Without `-mcpu`, code is for SSE, which takes two instructions for each.
pub(in crate::features) fn core_of(row: &Row) -> Core {
    let processor = row.target_cpu.as_deref().unwrap_or("");
    let is_of = |names: &[&str]| names.iter().any(|name| processor.starts_with(name));
    let target = row.target.as_ref().map_or("", |target| target.as_str());
    let is_arm = || ARM.iter().any(|name| target.contains(name));
    let (bits, is_x86) = if is_of(&AVX512) {
        (512, true)
    } else if is_of(&AVX2) {
        (256, true)
    } else {
        (128, !is_arm())
    };
    let unit = VectorUnit::of_width(bits, is_x86);
    let is_fused = bits > 128 || !is_x86;
    let lanes = unit.lanes() as f64;
    Core {
        unit,
        multiply_adds: if is_fused { 2.0 * lanes } else { lanes },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;
    use opdata::JsonText;

    #[test]
    fn targets_name_the_core() {
        let core = |target: &str, processor: Option<&str>| {
            let mut row = dense_row(1, 8, 8, "{}");
            row.target = Some(JsonText::from(&serde_json::json!(target)));
            row.target_cpu = processor.map(str::to_owned);
            let core = core_of(&row);
            (core.unit.lanes(), core.unit.registers, core.multiply_adds)
        };
        assert_eq!(core("llvm", Some("skylake-avx512")), (16, 32, 32.0));
        assert_eq!(core("llvm", Some("skylake")), (8, 16, 16.0));
        assert_eq!(core("llvm -keys=cpu -link-params=0", None), (4, 16, 4.0));
        assert_eq!(core("llvm -mtriple=aarch64-linux-gnu", None), (4, 32, 8.0));
    }
}
