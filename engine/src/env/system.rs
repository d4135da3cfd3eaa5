//! Memory, load, clocks, governors, and whether the machine is a virtual one.

use opdata::contract::{Cpu, Memory, Virtualisation};

use super::{Root, cgroup};

/// Reads the processor's hypervisor bit, which all common hypervisors set.
pub(super) fn is_virtual(cpu: &Cpu) -> bool {
    cpu.has("hypervisor")
}

/// Whether the machine is a virtual one, and whose.
pub(super) fn virtualisation(root: &Root, cpu: &Cpu) -> Virtualisation {
    if !is_virtual(cpu) {
        return Virtualisation::None;
    }
    let firmware = |field: &str| root.line(&format!("sys/class/dmi/id/{field}"));
    let product = match (firmware("sys_vendor"), firmware("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (vendor, product) => vendor
            .or(product)
            .or_else(|| root.line("sys/hypervisor/type")),
    };
    Virtualisation::Virtual { product }
}

/// The memory by `/proc/meminfo` and the control group.
pub(super) fn memory(root: &Root) -> Memory {
    let text = root.text("proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .map(|kib| kib * 1024)
    };
    Memory {
        total_bytes: field("MemTotal"),
        available_bytes: field("MemAvailable"),
        limit_bytes: cgroup::memory_limit_bytes(root),
    }
}

/// The load of the last minute.
pub(super) fn load_1min(root: &Root) -> Option<f64> {
    let text = root.line("proc/loadavg")?;
    text.split(' ').next()?.parse().ok()
}

/// The clock of the first core that `/proc/cpuinfo` lists, MHz.
pub(super) fn cpu_mhz(root: &Root) -> Option<f64> {
    let text = root.text("proc/cpuinfo")?;
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "cpu MHz")?;
    value.trim().parse().ok()
}

/// The highest clock of the first core, MHz.
pub(super) fn max_mhz(root: &Root) -> Option<f64> {
    let khz: f64 = root.number("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")?;
    Some(khz / 1000.0)
}

/// Governors of all cores, each once, sorted.
pub(super) fn governors(root: &Root) -> Vec<String> {
    let cpus = "sys/devices/system/cpu";
    let mut governors: Vec<String> = root
        .names(cpus)
        .iter()
        .filter_map(|name| root.line(&format!("{cpus}/{name}/cpufreq/scaling_governor")))
        .collect();
    governors.sort();
    governors.dedup();
    governors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "proc/meminfo",
            "MemTotal:       24576000 kB\nMemAvailable:   12288000 kB\n",
        );
        write("proc/loadavg", "0.42 0.30 0.20 1/200 1234\n");
        write(
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
        );
        write(
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "powersave\n",
        );
        write("sys/class/dmi/id/sys_vendor", "QEMU\n");
        write(
            "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
            "3700000\n",
        );
        write(
            "proc/cpuinfo",
            "processor\t: 0\ncpu MHz\t\t: 2300.124\n\nprocessor\t: 1\ncpu MHz\t\t: 800.000\n",
        );
        let root = Root::at(folder.path());
        assert_eq!(memory(&root).total_bytes, Some(24_576_000 * 1024));
        assert_eq!(load_1min(&root), Some(0.42));
        assert_eq!(governors(&root), ["powersave"]);
        assert_eq!(cpu_mhz(&root), Some(2300.124));
        assert_eq!(max_mhz(&root), Some(3700.0));
        assert_eq!(virtualisation(&root, &Cpu::default()), Virtualisation::None);
        let guest = Cpu {
            flags: vec!["hypervisor".to_owned()],
            ..Cpu::default()
        };
        let product = Some("QEMU".to_owned());
        assert_eq!(
            virtualisation(&root, &guest),
            Virtualisation::Virtual { product }
        );
    }
}
