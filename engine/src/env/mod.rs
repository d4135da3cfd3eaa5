//! The environment of a run: what machine, in what state, with what software.
//!
//! [`Environment::capture`] reads `/proc` and `/sys` once; everything it cannot read is `None`, as
//! containers and virtual machines hide much. [`Machine::hash`] names the machine, so that rows of
//! unlike machines are not compared unawares. Nothing here judges what it finds: `doctor` does.

mod caches;
mod calibration;
mod cgroup;
mod cores;
mod cpu;
mod git;
mod llvm_cpu;
mod pmu;
mod root;
mod system;

pub use caches::Cache;
pub use calibration::{CALIBRATION_FORMAT, Calibration, Level, Rate, ReadRate, ThreadRates};
pub use cores::Cores;
pub use cpu::Cpu;
pub use git::revision_near;
pub use llvm_cpu::LlvmCpu;
pub use pmu::Pmu;
pub use root::Root;
pub use system::{Memory, Virtualisation};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything known of where a run took place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// What does not change between runs.
    pub machine: Machine,
    /// What may.
    pub state: State,
    /// The programs.
    pub software: Software,
    /// [`Machine::hash`].
    pub env_hash: String,
    /// What `doctor --calibrate` measured on this machine, if it has; no part of the machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// The machine itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Instruction set architecture, e.g. `x86_64`.
    pub arch: String,
    /// The processor.
    pub cpu: Cpu,
    /// What LLVM calls it.
    pub llvm_cpu: LlvmCpu,
    /// Its caches, as the first core sees them.
    pub caches: Vec<Cache>,
    /// Cores online.
    pub cores_online: u32,
    /// Physical cores among them, where the topology is known.
    pub cores_physical: Option<u32>,
    /// Whether it is a virtual machine.
    pub virtualisation: Virtualisation,
    /// Highest clock of the first core, where the kernel controls it; no part of the machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<f64>,
}

/// What the machine was doing, and what it let this process use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Numbers of the cores this process may run on.
    pub affinity: Vec<u32>,
    /// Cores' worth of time the control group allows; `None` for no limit.
    pub cpu_quota_cores: Option<f64>,
    /// Cores this process may use at once, by affinity and quota.
    pub cores_usable: u32,
    /// Frequency governors of the cores, each once; empty where none can be seen.
    pub governors: Vec<String>,
    /// Clock of the first core as the kernel gives it: that of the moment, or in a virtual machine the time-stamp
    /// counter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<f64>,
    /// Memory.
    pub memory: Memory,
    /// Processes that were running or waiting, averaged over a minute.
    pub load_1min: Option<f64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Whether hardware counters can be read.
    pub pmu: Pmu,
    /// The kernel's bound on who may count (`kernel.perf_event_paranoid`).
    pub perf_event_paranoid: Option<i64>,
}

/// The programs of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Software {
    /// Versions by name (`tvm`, `tvm_ffi`, `opcollect`, …).
    pub versions: BTreeMap<String, String>,
    /// Commit of the checkout that the program was started from.
    pub git_revision: Option<String>,
    /// Arguments, the program's name first.
    pub command_line: Vec<String>,
}

impl Environment {
    /// Reads the machine under `root` (the file system's root; another folder in tests) and its
    /// state; the software is the caller's to know.
    pub fn capture(root: &Root, software: Software) -> Self {
        let cpu = Cpu::read(root);
        let cores = Cores::read(root);
        let machine = Machine {
            arch: std::env::consts::ARCH.to_owned(),
            llvm_cpu: LlvmCpu::resolve(&cpu),
            caches: caches::read(root),
            cores_online: cores.online,
            cores_physical: cores.physical,
            virtualisation: system::virtualisation(root, &cpu),
            max_mhz: system::max_mhz(root),
            cpu,
        };
        let state = State {
            cores_usable: cores.usable(),
            affinity: cores.affinity,
            cpu_quota_cores: cores.quota,
            governors: system::governors(root),
            cpu_mhz: system::cpu_mhz(root),
            memory: system::memory(root),
            load_1min: system::load_1min(root),
            kernel: root.line("proc/sys/kernel/osrelease"),
            pmu: pmu::probe(),
            perf_event_paranoid: root.number("proc/sys/kernel/perf_event_paranoid"),
        };
        Self {
            env_hash: machine.hash(),
            machine,
            state,
            software,
            calibration: None,
        }
    }
}

impl Machine {
    /// A name for machines on which equal code takes equal time: processor, features, caches,
    /// cores, virtual or not. Microcode, kernel, clocks and memory size are left out: they change on
    /// the same machine, and stand in the manifest.
    pub fn hash(&self) -> String {
        let cpu = &self.cpu;
        let number = |value: Option<u32>| value.map_or_else(String::new, |v| v.to_string());
        let caches: Vec<String> = self.caches.iter().map(ToString::to_string).collect();
        opdata::stable_hash(&[
            ("arch", self.arch.as_str()),
            ("vendor", cpu.vendor.as_deref().unwrap_or_default()),
            ("name", cpu.name.as_deref().unwrap_or_default()),
            ("family", &number(cpu.family)),
            ("model", &number(cpu.model)),
            ("stepping", &number(cpu.stepping)),
            ("features", &self.llvm_cpu.features.join(",")),
            ("caches", &caches.join(",")),
            ("online", &self.cores_online.to_string()),
            ("physical", &number(self.cores_physical)),
            ("virtual", self.virtualisation.word()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn software() -> Software {
        Software {
            command_line: vec!["opcollect".to_owned()],
            ..Software::default()
        }
    }

    #[test]
    fn this_machine_can_be_read_and_written_down() {
        let environment = Environment::capture(&Root::system(), software());
        assert!(environment.machine.cores_online >= 1);
        assert!(environment.state.cores_usable >= 1);
        assert!(environment.state.cores_usable as usize <= environment.state.affinity.len());
        let json = serde_json::to_string(&environment).unwrap();
        assert_eq!(
            serde_json::from_str::<Environment>(&json).unwrap(),
            environment
        );
    }

    #[test]
    fn the_name_of_the_machine_does_not_depend_on_its_state() {
        let first = Environment::capture(&Root::system(), software());
        let second = Environment::capture(&Root::system(), Software::default());
        assert_eq!(first.env_hash, second.env_hash);
        let mut other = first.machine.clone();
        other.cores_online += 1;
        assert_ne!(other.hash(), first.env_hash);
    }

    #[test]
    fn a_machine_that_hides_everything_is_still_described() {
        let empty = tempfile::tempdir().unwrap();
        let environment = Environment::capture(&Root::at(empty.path()), software());
        assert_eq!(environment.machine.cpu, Cpu::default());
        assert!(environment.machine.caches.is_empty());
        assert_eq!(environment.state.load_1min, None);
        assert!(environment.machine.cores_online >= 1);
    }
}
