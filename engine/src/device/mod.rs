//! Devices: the code that differs between kinds of hardware.
//!
//! A [`Device`] is one folder here and one line of [`ALL`]: its targets, its schedule templates, its conditions and its
//! columns of rows. In the worker it opens a [`Session`], which holds the resources of a measurement: tensors, a clock,
//! caches, a reference kernel. Nothing outside its folder asks which device it is.

mod compiler;
mod conditions;
pub mod cpu;
mod cuda;
pub mod remote;
#[cfg(feature = "testing")]
mod scripted;
mod session;
#[cfg(feature = "testing")]
mod tape;
mod target;
mod vta;

use std::ffi::OsString;

use opdata::contract::Environment;
use opdata::{CacheState, DeviceKind, Row};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tvm_bridge::rpc::server::Answer;

use crate::schedule::{Choice, Combined, FactorInfo, FactorSettings, Space};

#[cfg(test)]
pub(crate) use cuda::emulation;

pub use compiler::{
    CompiledKernel, HostCompiler, KernelCompiler, LoweredProgram, NotOnDevice, Program, Simulation,
    TooLong,
};
pub use conditions::{ConditionInfo, Conditions};
pub use session::{
    Approximation, AreEqual, DeviceState, Instruments, Kernel, OpenCounters, Opening, Purpose,
    Session, SimulatedClock, SimulatedRun,
};
pub use target::{Target, TargetOption, TargetProblem};

/// The devices of this build, in the order in which they are listed.
pub const ALL: &[DeviceRef] = &[
    DeviceRef(&cpu::Cpu),
    DeviceRef(&cuda::Cuda),
    DeviceRef(&vta::Vta),
    #[cfg(feature = "testing")]
    DeviceRef(&scripted::Scripted),
    #[cfg(feature = "testing")]
    DeviceRef(&tape::Tape),
];

/// The machine that this program runs on.
pub const HOST: DeviceRef = DeviceRef(&cpu::Cpu);

/// A target that has a name but no device in this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub title: &'static str,
    /// The missing part, as a clause.
    pub lacks: &'static str,
}

/// Targets that have a name but no device in this build. The reasons are those of the pinned version of TVM.
pub const PLANNED: &[Planned] = &[
    Planned {
        name: "opencl",
        title: "devices of an OpenCL platform",
        lacks: "TVM's wheel writes OpenCL C but has no runtime for it (libtvm_runtime_opencl.so)",
    },
    Planned {
        name: "vulkan",
        title: "GPUs through Vulkan",
        lacks: "TVM's wheel has neither a code generator for SPIR-V nor a runtime for Vulkan",
    },
    Planned {
        name: "rocm",
        title: "AMD GPUs",
        lacks: "TVM's wheel writes code for AMD GPUs but has no runtime for it (libtvm_runtime_rocm.so)",
    },
    Planned {
        name: "metal",
        title: "Apple GPUs",
        lacks: "TVM's wheel writes Metal but has no runtime for it, and Linux has no Metal",
    },
];

/// The device whose targets are of the kind `name`.
pub fn named(name: &str) -> Option<DeviceRef> {
    ALL.iter().copied().find(|device| device.name() == name)
}

/// A device of [`ALL`]; it is serialised as its name.
#[derive(Clone, Copy)]
pub struct DeviceRef(&'static dyn Device);

impl std::ops::Deref for DeviceRef {
    type Target = dyn Device;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for DeviceRef {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for DeviceRef {}

impl std::fmt::Debug for DeviceRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for DeviceRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DeviceRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|d| d.name()).collect();
            D::Error::custom(format!(
                "this program has no device {name}; it has {}",
                names.join(", ")
            ))
        })
    }
}

/// Whether points may be measured side by side on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Points are measured one by one, because they would take time from each other.
    Alone,
    /// Points are measured at the same time, one on each worker.
    SideBySide,
}

/// A finding about a device on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject, in a word or two.
    pub name: &'static str,
    /// The finding, on one line.
    pub finding: String,
    /// How to mend it. `None` if all is well.
    pub fix: Option<String>,
}

impl Finding {
    /// A finding without a problem.
    pub fn fine(name: &'static str, finding: String) -> Finding {
        Finding {
            name,
            finding,
            fix: None,
        }
    }

    /// It does not work, or not as well as it could.
    pub fn problem(name: &'static str, finding: String, fix: String) -> Finding {
        Finding {
            name,
            finding,
            fix: Some(fix),
        }
    }
}

/// A device as plans see it: its targets and its conditions. Nothing here loads TVM but [`DevicePlan::check`].
pub trait DevicePlan: Sync {
    /// Its name: the kind of its targets, as in `--target llvm`.
    fn name(&self) -> &'static str;

    /// A description in a few words.
    fn title(&self) -> &'static str;

    /// The device's kind in rows.
    fn kind(&self) -> DeviceKind;

    /// Whether its points may be measured side by side.
    fn sharing(&self) -> Sharing {
        Sharing::Alone
    }

    /// Whether kernels run on threads of this machine, which `--threads` counts.
    fn has_host_threads(&self) -> bool {
        true
    }

    /// Checks that kernels of a target can be measured on another machine, behind a server of TVM's RPC.
    ///
    /// # Errors
    /// Fails if they cannot, or if the target lacks a fact that this machine cannot know.
    fn check_remote(&self, _target: &Target) -> Result<(), TargetProblem> {
        Err(TargetProblem {
            problem: format!("kernels of {} run on this machine only", self.name()),
            next: "give another target, as in llvm".to_owned(),
        })
    }

    /// The states of the caches that it can bring about on another machine.
    fn remote_cache_states(&self) -> &'static [CacheState] {
        self.cache_states()
    }

    /// Whether a clock sees when each call of a whole model begins and ends, as a profile needs.
    fn profiles(&self) -> bool {
        self.has_host_threads()
    }

    /// The options that its targets take, in the order in which they are written.
    fn options(&self) -> &'static [TargetOption];

    /// Checks what only the compiler knows of a target's options.
    ///
    /// # Errors
    /// Fails if an option has a value that the compiler would not take, or would take for another.
    fn check(&self, target: &Target) -> Result<(), TargetProblem>;

    /// The dictionary of a target on a machine: it configures the compiler, and rows have it in the column `target`.
    fn dictionary(&self, target: &Target, machine: &Environment) -> Value;

    /// A dictionary in words.
    fn describe_target(&self, dictionary: &Value) -> String;

    /// The name of the hardware that kernels run on.
    fn hardware(&self, machine: &Environment) -> String;

    /// The states of the caches that it can bring about.
    fn cache_states(&self) -> &'static [CacheState] {
        &[CacheState::Hot]
    }

    /// Its conditions beside threads and caches.
    fn conditions(&self) -> &'static [ConditionInfo] {
        &[]
    }

    /// A sentence on how kernels are simulated. `None` for a device that is measured.
    fn simulation(&self, _dictionary: &Value) -> Option<String> {
        None
    }

    /// Fills a row's columns of the target, whose dictionary this is.
    fn fill_target(&self, row: &mut Row, dictionary: &Value);
}

/// The schedules that a device offers. The defaults are for a device without templates.
pub trait DeviceSchedules: Sync {
    /// The factors that its templates have, in the order in which they are listed.
    fn factors(&self) -> &'static [FactorInfo] {
        &[]
    }

    /// Reads a choice of one of its templates: missing knobs get their defaults, so that equal schedules are equal
    /// choices.
    ///
    /// # Errors
    /// Fails if there is no such template or knob.
    fn read_choice(&self, choice: Choice) -> Result<Choice, serde_json::Error> {
        Ok(choice)
    }

    /// The schedule of a space with these settings, in normal form: equal schedules are equal choices.
    ///
    /// # Errors
    /// Fails if the combination is impossible or not worth compiling, and says why.
    fn combine(&self, space: &Space, _settings: &FactorSettings<'_>) -> Combined {
        Ok(space.base.clone())
    }

    /// Fills a row's columns of the schedule; `loop_nest` is there already.
    fn fill_schedule(&self, _row: &mut Row, _choice: &Choice) {}
}

/// A device on this machine: its units, its limits, and how it is opened.
pub trait DeviceHost: Sync {
    /// Numbers of its units on this machine that are alike and do not disturb each other. Each unit has a worker of its
    /// own.
    fn units(&self) -> Vec<u32> {
        vec![0]
    }

    /// Limits a worker of this device to `mib` MiB of the machine's memory.
    ///
    /// # Errors
    /// Fails if the system refuses the bound.
    fn limit_memory(&self, mib: u64) -> std::io::Result<()>;

    /// Checks that this machine has everything for `purpose`, before anything is imported or compiled.
    ///
    /// # Errors
    /// Fails if a part is missing. The message names it, and how to get it.
    fn check_machine(&self, _target: &Target, _purpose: Purpose) -> Result<(), TargetProblem> {
        Ok(())
    }

    /// Findings for `doctor` about this machine.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Serves as a process that compiles for a worker, until its standard input ends: `opcollect worker DEVICE ARGUMENTS`.
    ///
    /// # Errors
    /// Fails if the device has no such compiler, or if it is not installed.
    fn serve_compiler(&self, _arguments: &[OsString]) -> anyhow::Result<()> {
        anyhow::bail!("this device compiles in its workers")
    }

    /// Prepares a session of `opcollect serve-device` for clients that measure on it. Returns the functions that clients can
    /// call by name.
    ///
    /// # Errors
    /// Fails if the device is present and cannot be opened.
    fn serve(&self) -> anyhow::Result<Vec<Answer>> {
        Ok(Vec::new())
    }

    /// Begins to compile, or to measure, in this process.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded, if it does not know the target, or if the device is missing.
    fn open(&self, opening: &Opening) -> anyhow::Result<Box<dyn Session>>;
}

/// A kind of hardware: its planning, its schedules and its sessions.
pub trait Device: DevicePlan + DeviceSchedules + DeviceHost {}

impl<D: DevicePlan + DeviceSchedules + DeviceHost> Device for D {}

/// Bounds the private writable memory of this process; an allocation beyond it fails, and with it this worker alone.
///
/// # Errors
/// Fails if the system refuses the limit.
pub(crate) fn limit_private_memory(mib: u64) -> std::io::Result<()> {
    let bytes = mib.saturating_mul(1 << 20);
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: `limit` is a valid structure that lives through the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_to_their_device() {
        for device in ALL {
            assert_eq!(
                named(device.name()).map(|d| d.title()),
                Some(device.title())
            );
            assert!(PLANNED.iter().all(|p| p.name != device.name()));
            assert!(!device.cache_states().is_empty());
            assert!(device.conditions().iter().all(|c| !c.values.is_empty()));
        }
        assert!(named("abacus").is_none());
    }
}
