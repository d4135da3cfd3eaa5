//! LLVM's name for the processor, as TVM's own `native` falls back to the generic one.
//!
//! The name comes from family and model as in LLVM's host detection (`TargetParser/Host.cpp`). It
//! is used only if the kernel lists the vector features that code for this name will use. Virtual
//! machines often hide some, and such code would die of an illegal instruction. Otherwise the
//! highest x86-64 level that the features allow is taken (psABI: v2, v3, v4).

use opdata::contract::{Cpu, LlvmCpu};

/// Features of interest: the kernel's spelling and LLVM's.
const FEATURES: &[(&str, &str)] = &[
    ("sse3", "sse3"),
    ("pni", "sse3"),
    ("ssse3", "ssse3"),
    ("sse4_1", "sse4.1"),
    ("sse4_2", "sse4.2"),
    ("popcnt", "popcnt"),
    ("cx16", "cx16"),
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("f16c", "f16c"),
    ("bmi1", "bmi"),
    ("bmi2", "bmi2"),
    ("abm", "lzcnt"),
    ("movbe", "movbe"),
    ("avx512f", "avx512f"),
    ("avx512bw", "avx512bw"),
    ("avx512cd", "avx512cd"),
    ("avx512dq", "avx512dq"),
    ("avx512vl", "avx512vl"),
    ("avx512ifma", "avx512ifma"),
    ("avx512vbmi", "avx512vbmi"),
    ("avx512_vbmi2", "avx512vbmi2"),
    ("avx512_vnni", "avx512vnni"),
    ("avx512_bitalg", "avx512bitalg"),
    ("avx512_vpopcntdq", "avx512vpopcntdq"),
    ("avx512_bf16", "avx512bf16"),
    ("avx512_fp16", "avx512fp16"),
    ("avx512_vp2intersect", "avx512vp2intersect"),
    ("avx_vnni", "avxvnni"),
    ("amx_tile", "amx-tile"),
    ("amx_int8", "amx-int8"),
    ("amx_bf16", "amx-bf16"),
    ("gfni", "gfni"),
    ("vaes", "vaes"),
    ("vpclmulqdq", "vpclmulqdq"),
    ("asimd", "neon"),
    ("sve", "sve"),
    ("sve2", "sve2"),
];

const V2: &[&str] = &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"];
const V3: &[&str] = &[
    "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
];
const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];
const VNNI: &[&str] = &["avx512vnni"];
const ICE: &[&str] = &[
    "avx512vnni",
    "avx512ifma",
    "avx512vbmi",
    "avx512vbmi2",
    "avx512bitalg",
    "avx512vpopcntdq",
];
const BF16: &[&str] = &["avx512bf16"];
const FP16: &[&str] = &["avx512fp16", "avxvnni"];
const AVX_VNNI: &[&str] = &["avxvnni"];
/// AVX without AVX2 (Sandy Bridge) plus F16C (Ivy Bridge).
const AVX: &[&str] = &["avx"];
const AVX_F16C: &[&str] = &["avx", "f16c"];

/// Groups of features that code for a CPU name will use.
type Needs = &'static [&'static [&'static str]];

const NEED_V3: Needs = &[V2, V3];
const NEED_SKX: Needs = &[V2, V3, V4];
const NEED_CLX: Needs = &[V2, V3, V4, VNNI];
const NEED_CPX: Needs = &[V2, V3, V4, VNNI, BF16];
const NEED_ICE: Needs = &[V2, V3, V4, ICE];
const NEED_ZEN4: Needs = &[V2, V3, V4, ICE, BF16];
const NEED_ZEN5: Needs = &[V2, V3, V4, ICE, BF16, AVX_VNNI];
const NEED_SPR: Needs = &[V2, V3, V4, ICE, BF16, FP16];
const NEED_ADL: Needs = &[V2, V3, AVX_VNNI];
const NEED_SNB: Needs = &[V2, AVX];
const NEED_IVB: Needs = &[V2, AVX_F16C];

/// Levels, best first.
const LEVELS: &[(&str, Needs)] = &[
    ("x86-64-v4", NEED_SKX),
    ("x86-64-v3", NEED_V3),
    ("x86-64-v2", &[V2]),
    ("x86-64", &[]),
];

/// The name and features of a processor.
pub(super) fn resolve(cpu: &Cpu) -> LlvmCpu {
    let mut features: Vec<String> = FEATURES
        .iter()
        .filter(|(kernel, _)| cpu.has(kernel))
        .map(|(_, llvm)| (*llvm).to_owned())
        .collect();
    features.sort();
    features.dedup();
    let has_all = |needs: Needs| {
        needs
            .iter()
            .flat_map(|group| group.iter())
            .all(|need| features.iter().any(|have| have == need))
    };
    let by_model = match cpu.vendor.as_deref() {
        Some("GenuineIntel") => intel(cpu),
        Some("AuthenticAMD") => amd(cpu),
        // Hygon's processors are Zen 1 by licence.
        Some("HygonGenuine") => Some(("znver1", NEED_V3)),
        _ => None,
    };
    // Long mode: only x86-64 has it.
    let is_x86 = cpu.has("lm");
    let name = by_model
        .into_iter()
        .chain(LEVELS.iter().copied().filter(|_| is_x86))
        .find(|(_, needs)| has_all(needs))
        .map(|(name, _)| name.to_owned());
    LlvmCpu { name, features }
}

fn intel(cpu: &Cpu) -> Option<(&'static str, Needs)> {
    if cpu.family != Some(6) {
        return None;
    }
    Some(match cpu.model? {
        0x2a | 0x2d => ("sandybridge", NEED_SNB),
        0x3a | 0x3e => ("ivybridge", NEED_IVB),
        0x3c | 0x3f | 0x45 | 0x46 => ("haswell", NEED_V3),
        0x3d | 0x47 | 0x4f | 0x56 => ("broadwell", NEED_V3),
        0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6 => ("skylake", NEED_V3),
        0x55 if cpu.has("avx512_bf16") => ("cooperlake", NEED_CPX),
        0x55 if cpu.has("avx512_vnni") => ("cascadelake", NEED_CLX),
        0x55 => ("skylake-avx512", NEED_SKX),
        0x66 => ("cannonlake", NEED_SKX),
        0x7d | 0x7e => ("icelake-client", NEED_ICE),
        0x6a | 0x6c => ("icelake-server", NEED_ICE),
        0x8c | 0x8d => ("tigerlake", NEED_ICE),
        0xa7 => ("rocketlake", NEED_ICE),
        0x97 | 0x9a | 0xbe => ("alderlake", NEED_ADL),
        0xb7 | 0xba | 0xbf => ("raptorlake", NEED_ADL),
        0xaa | 0xac => ("meteorlake", NEED_ADL),
        0xb5 | 0xc5 => ("arrowlake", NEED_ADL),
        0xc6 => ("arrowlake-s", NEED_ADL),
        0xbd => ("lunarlake", NEED_ADL),
        0xaf => ("sierraforest", NEED_ADL),
        0x8f => ("sapphirerapids", NEED_SPR),
        0xcf => ("emeraldrapids", NEED_SPR),
        0xad => ("graniterapids", NEED_SPR),
        0xae => ("graniterapids-d", NEED_SPR),
        _ => return None,
    })
}

fn amd(cpu: &Cpu) -> Option<(&'static str, Needs)> {
    Some(match (cpu.family?, cpu.model?) {
        (0x17, 0x00..=0x2f) => ("znver1", NEED_V3),
        (0x17, _) => ("znver2", NEED_V3),
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => ("znver4", NEED_ZEN4),
        (0x19, _) => ("znver3", NEED_V3),
        (0x1a, _) => ("znver5", NEED_ZEN5),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V3_FLAGS: &str =
        "lm pni ssse3 sse4_1 sse4_2 popcnt cx16 avx avx2 bmi1 bmi2 f16c fma abm movbe";
    const V4_FLAGS: &str = "avx512f avx512bw avx512cd avx512dq avx512vl";
    const ICE_FLAGS: &str =
        "avx512_vnni avx512ifma avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq";

    fn name(vendor: &str, family: u32, model: u32, flags: &[&str]) -> Option<String> {
        let cpu = Cpu {
            vendor: Some(vendor.to_owned()),
            family: Some(family),
            model: Some(model),
            flags: flags
                .iter()
                .flat_map(|f| f.split(' '))
                .map(str::to_owned)
                .collect(),
            ..Cpu::default()
        };
        resolve(&cpu).name
    }

    #[test]
    fn models_have_their_names() {
        let intel = |model, flags: &[&str]| name("GenuineIntel", 6, model, flags).unwrap();
        let amd =
            |family, model, flags: &[&str]| name("AuthenticAMD", family, model, flags).unwrap();
        let bf16 = "avx512_bf16";
        let spr = [
            V3_FLAGS,
            V4_FLAGS,
            ICE_FLAGS,
            "avx512_bf16 avx512_fp16 avx_vnni",
        ];
        assert_eq!(intel(0x3f, &[V3_FLAGS]), "haswell");
        assert_eq!(intel(0x55, &[V3_FLAGS, V4_FLAGS]), "skylake-avx512");
        assert_eq!(
            intel(0x55, &[V3_FLAGS, V4_FLAGS, "avx512_vnni"]),
            "cascadelake"
        );
        assert_eq!(
            intel(0x6a, &[V3_FLAGS, V4_FLAGS, ICE_FLAGS]),
            "icelake-server"
        );
        assert_eq!(intel(0x8f, &spr), "sapphirerapids");
        assert_eq!(intel(0xcf, &spr), "emeraldrapids");
        assert_eq!(intel(0x9a, &[V3_FLAGS, "avx_vnni"]), "alderlake");
        assert_eq!(amd(0x17, 0x31, &[V3_FLAGS]), "znver2");
        assert_eq!(amd(0x19, 0x01, &[V3_FLAGS]), "znver3");
        assert_eq!(
            amd(0x19, 0x11, &[V3_FLAGS, V4_FLAGS, ICE_FLAGS, bf16]),
            "znver4"
        );
        assert_eq!(
            amd(
                0x1a,
                0x02,
                &[V3_FLAGS, V4_FLAGS, ICE_FLAGS, bf16, "avx_vnni"]
            ),
            "znver5"
        );
    }

    #[test]
    fn hidden_features_lower_the_name() {
        let spr = |flags: &[&str]| name("GenuineIntel", 6, 0x8f, flags).unwrap();
        assert_eq!(spr(&[V3_FLAGS, V4_FLAGS]), "x86-64-v4");
        assert_eq!(spr(&[V3_FLAGS]), "x86-64-v3");
        assert_eq!(
            spr(&["lm pni ssse3 sse4_1 sse4_2 popcnt cx16"]),
            "x86-64-v2"
        );
        assert_eq!(spr(&["lm"]), "x86-64");
    }

    #[test]
    fn unknown_processors_get_a_level_or_nothing() {
        assert_eq!(
            name("GenuineIntel", 6, 0xff, &[V3_FLAGS]).as_deref(),
            Some("x86-64-v3")
        );
        assert_eq!(name("SomeoneElse", 1, 1, &["asimd"]), None);
        assert_eq!(resolve(&Cpu::default()), LlvmCpu::default());
    }
}
