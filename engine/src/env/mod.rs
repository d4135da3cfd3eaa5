//! The environment of a run: the machine, its state and its software.
//!
//! [`capture`] reads `/proc` and `/sys` once; everything it cannot read is `None`, as
//! containers and virtual machines hide much. [`Machine::hash`] names the machine, so that rows of
//! different machines can be distinguished. Nothing here judges what it finds: `doctor` does.

mod caches;
mod cgroup;
mod cores;
mod cpu;
mod git;
mod llvm_cpu;
mod pmu;
mod root;
mod system;

pub use caches::shared_cache;
pub use cores::Cores;
pub use git::revision_near;
pub use root::Root;

use std::collections::BTreeMap;

use opdata::contract::{ENVIRONMENT_FORMAT, Environment, Machine, Software, State};
use tvm_bridge::libs::{TVM_FFI_VERSION, TVM_VERSION};

/// Whether a hypervisor runs this machine.
pub(crate) fn is_virtual(root: &Root) -> bool {
    system::is_virtual(&cpu::read(root))
}

/// The name of the processor. `None` if the kernel does not report it.
pub fn cpu_name(root: &Root) -> Option<String> {
    cpu::read(root).name
}

/// Versions of this program and of TVM, by name.
pub fn versions() -> BTreeMap<String, String> {
    let own = [
        ("opcollect", env!("CARGO_PKG_VERSION")),
        ("apache-tvm", TVM_VERSION),
        ("apache-tvm-ffi", TVM_FFI_VERSION),
    ];
    own.map(|(name, version)| (name.to_owned(), version.to_owned()))
        .into()
}

/// Reads the machine under `root` (the file system's root; another folder in tests) and its
/// state; the software is the caller's to know.
pub fn capture(root: &Root, software: Software) -> Environment {
    let emulated = cpu::is_emulated(root);
    let cpu = match emulated {
        true => cpu::emulated(),
        false => cpu::read(root),
    };
    let cores = Cores::read(root);
    let machine = Machine {
        arch: std::env::consts::ARCH.to_owned(),
        llvm_cpu: llvm_cpu::resolve(&cpu),
        caches: match emulated {
            true => Vec::new(),
            false => caches::read(root),
        },
        cores_online: cores.online,
        cores_physical: cores.physical,
        virtualisation: system::virtualisation(root, &cpu),
        max_mhz: system::max_mhz(root).filter(|_| !emulated),
        emulated,
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
    Environment {
        format: ENVIRONMENT_FORMAT,
        env_hash: machine.hash(),
        machine,
        state,
        software,
        calibration: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opdata::contract::Cpu;

    fn software() -> Software {
        Software {
            command_line: vec!["opcollect".to_owned()],
            ..Software::default()
        }
    }

    #[test]
    fn this_machine_can_be_read_and_written_down() {
        let environment = capture(&Root::system(), software());
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
        let first = capture(&Root::system(), software());
        let second = capture(&Root::system(), Software::default());
        assert_eq!(first.env_hash, second.env_hash);
        let mut other = first.machine.clone();
        other.cores_online += 1;
        assert_ne!(other.hash(), first.env_hash);
    }

    #[test]
    fn a_machine_that_hides_everything_is_still_described() {
        let empty = tempfile::tempdir().unwrap();
        let environment = capture(&Root::at(empty.path()), software());
        assert_eq!(environment.machine.cpu, Cpu::default());
        assert!(environment.machine.caches.is_empty());
        assert_eq!(environment.state.load_1min, None);
        assert!(environment.machine.cores_online >= 1);
    }
}
