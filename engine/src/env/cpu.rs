//! The processor, from `/proc/cpuinfo` (first core; other cores are taken to be like it).

use opdata::contract::Cpu;

use super::Root;

/// Reads the first core's entry.
pub(super) fn read(root: &Root) -> Cpu {
    root.text("proc/cpuinfo")
        .map_or_else(Cpu::default, |text| parse(&text))
}

fn parse(text: &str) -> Cpu {
    let first = text.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| {
        first
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    Cpu {
        vendor: field("vendor_id"),
        name: field("model name"),
        family: number("cpu family"),
        model: number("model"),
        stepping: number("stepping"),
        microcode: field("microcode"),
        // ARM kernels say "Features".
        flags: field("flags")
            .or_else(|| field("Features"))
            .map(|flags| flags.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// Whether this program runs in an emulator of processes (QEMU's user mode): then `/proc` describes the real processor.
pub(super) fn is_emulated(root: &Root) -> bool {
    root.text("proc/cpuinfo")
        .is_some_and(|text| is_of_another(&text, std::env::consts::ARCH))
}

/// Whether a kernel of another architecture wrote this.
fn is_of_another(text: &str, arch: &str) -> bool {
    let has = |key: &str| {
        text.lines()
            .any(|line| line.split('\t').next() == Some(key))
    };
    match arch {
        "x86_64" | "x86" => has("CPU implementer") || has("hart"),
        _ => has("vendor_id") && has("cpu family"),
    }
}

/// The description of an emulator's processor.
pub(super) fn emulated() -> Cpu {
    Cpu {
        name: Some(format!("an emulated {} processor", std::env::consts::ARCH)),
        ..Cpu::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_core() {
        let cpu = parse(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n\
             model name\t: AMD EPYC 9755 128-Core Processor\nstepping\t: 1\nmicrocode\t: 0xb002116\n\
             flags\t\t: fpu avx avx2\n\nprocessor\t: 1\nvendor_id\t: Other\n",
        );
        assert_eq!(cpu.vendor.as_deref(), Some("AuthenticAMD"));
        assert_eq!(
            cpu.name.as_deref(),
            Some("AMD EPYC 9755 128-Core Processor")
        );
        assert_eq!(
            (cpu.family, cpu.model, cpu.stepping),
            (Some(26), Some(2), Some(1))
        );
        assert_eq!(cpu.microcode.as_deref(), Some("0xb002116"));
        assert!(cpu.has("avx2") && !cpu.has("avx512f"));
    }

    #[test]
    fn the_kernel_below_an_emulator_is_of_another_architecture() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\n";
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n";
        assert!(is_of_another(x86, "aarch64") && is_of_another(arm, "x86_64"));
        assert!(!is_of_another(x86, "x86_64") && !is_of_another(arm, "aarch64"));
        assert!(!is_of_another("", "aarch64"));
    }

    #[test]
    fn other_kernels_leave_gaps() {
        let cpu = parse("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n");
        assert_eq!(cpu.vendor, None);
        assert_eq!(cpu.flags, ["fp", "asimd"]);
        assert_eq!(parse(""), Cpu::default());
    }
}
