//! The processor, from `/proc/cpuinfo` (first core; cores of unlike kinds are not told apart).

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
    fn other_kernels_leave_gaps() {
        let cpu = parse("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n");
        assert_eq!(cpu.vendor, None);
        assert_eq!(cpu.flags, ["fp", "asimd"]);
        assert_eq!(parse(""), Cpu::default());
    }
}
