//! The environment of a run: the machine, its state and its software. It is the part `environment` of `run.json`.
//!
//! Written by the collector, which reads `/proc` and `/sys` for it; read by the predictor. What could not be read is
//! missing. A field that a record lacks takes its default, so records of other tools with fewer fields can be read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CALIBRATION_FORMAT, Calibration, check_format};
use crate::error::FormatError;
use crate::identity::stable_hash;

/// Format of the environment; one without a number is of the first.
pub const ENVIRONMENT_FORMAT: u32 = 1;

/// Everything known of where a run took place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// [`ENVIRONMENT_FORMAT`] of the writer.
    #[serde(default = "super::first_format")]
    pub format: u32,
    /// The part that does not change between runs.
    #[serde(default)]
    pub machine: Machine,
    /// The part that may.
    #[serde(default)]
    pub state: State,
    /// The programs.
    #[serde(default)]
    pub software: Software,
    /// [`Machine::hash`].
    #[serde(default)]
    pub env_hash: String,
    /// The result of `doctor --calibrate` on this machine, if there is one. It does not change the machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// The machine itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Instruction set architecture, e.g. `x86_64`.
    pub arch: String,
    /// The processor.
    pub cpu: Cpu,
    /// LLVM's name for it.
    pub llvm_cpu: LlvmCpu,
    /// Its caches, as the first core sees them.
    pub caches: Vec<Cache>,
    /// Cores online.
    pub cores_online: u32,
    /// Physical cores among them, where the topology is known.
    pub cores_physical: Option<u32>,
    /// Whether it is a virtual machine.
    pub virtualisation: Virtualisation,
    /// Whether the processor is an emulator's, such as QEMU's. Its times are not those of a real processor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// Highest clock of the first core, where the kernel controls it; no part of the machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mhz: Option<f64>,
}

/// The machine's load, and this process's limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Numbers of the cores that this process may run on.
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
#[serde(default)]
pub struct Software {
    /// Versions by name (`tvm`, `tvm_ffi`, `opcollect`, …).
    pub versions: BTreeMap<String, String>,
    /// Commit of the program's checkout.
    pub git_revision: Option<String>,
    /// Arguments, the program's name first.
    pub command_line: Vec<String>,
}

impl Environment {
    /// Reads the environment of a run. `None` if there is none, as in imported logs.
    ///
    /// # Errors
    /// Fails if it, or its calibration, is damaged or of another format than this build's.
    pub fn read(value: &Value) -> Result<Option<Self>, FormatError> {
        if value.is_null() {
            return Ok(None);
        }
        let writer = value["software"]["versions"]["opcollect"].as_str();
        check_format(
            "the environment",
            &value["format"],
            ENVIRONMENT_FORMAT,
            writer,
        )?;
        if !value["calibration"].is_null() {
            let format = &value["calibration"]["format"];
            check_format("the calibration", format, CALIBRATION_FORMAT, writer)?;
        }
        Environment::deserialize(value)
            .map(Some)
            .map_err(|error| FormatError::damaged("the environment", &error))
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
        stable_hash(&[
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

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Level, from 1.
    pub level: u32,
    /// Its contents: `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Line size in bytes.
    pub line_bytes: Option<u32>,
    /// Ways.
    pub ways: Option<u32>,
    /// Logical cores that share it.
    pub shared_by: Option<u32>,
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{} {} {}", self.level, self.kind, self.size_bytes)
    }
}

/// The processor as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Vendor, e.g. `GenuineIntel`.
    pub vendor: Option<String>,
    /// Name as sold.
    pub name: Option<String>,
    /// Family number.
    pub family: Option<u32>,
    /// Model number.
    pub model: Option<u32>,
    /// Stepping.
    pub stepping: Option<u32>,
    /// Microcode revision as printed, e.g. `0xd0003f5`.
    pub microcode: Option<String>,
    /// Feature flags in the kernel's spelling, in its order.
    pub flags: Vec<String>,
}

impl Cpu {
    /// Whether the kernel lists a flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|have| have == flag)
    }
}

/// The processor as LLVM names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlvmCpu {
    /// Name for `-mcpu`; `None` where LLVM should use its generic one.
    pub name: Option<String>,
    /// Features present, in LLVM's spelling, sorted.
    pub features: Vec<String>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Size of the machine's memory.
    pub total_bytes: Option<u64>,
    /// Memory available without swapping.
    pub available_bytes: Option<u64>,
    /// Limit of the control group; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// Whether the machine is a virtual one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Virtualisation {
    /// No sign of a hypervisor.
    #[default]
    None,
    /// The system runs under a hypervisor.
    Virtual {
        /// The firmware's name for the machine, if it has one.
        product: Option<String>,
    },
}

impl Virtualisation {
    /// `none` or `virtual`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Virtual { .. } => "virtual",
        }
    }
}

/// The result of opening a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Pmu {
    /// Cycles can be counted.
    Available,
    /// The kernel's settings or a container forbid it.
    Refused,
    /// There is no such counter: often so in virtual machines.
    #[default]
    Absent,
    /// The check failed for another reason.
    Unknown {
        /// The error number.
        errno: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A fingerprint from before there was a format number, without the parts that a container hides.
    fn first() -> Value {
        json!({
            "machine": {
                "arch": "x86_64",
                "cpu": {"vendor": "GenuineIntel", "name": null, "family": 6, "model": 207, "stepping": 2, "microcode": null, "flags": ["lm"]},
                "llvm_cpu": {"name": "emeraldrapids", "features": ["avx2", "avx512f"]},
                "caches": [{"level": 1, "kind": "data", "size_bytes": 49152, "line_bytes": 64, "ways": 12, "shared_by": 2}],
                "cores_online": 2,
                "cores_physical": null,
                "virtualisation": {"kind": "virtual", "product": null}
            },
            "state": {
                "affinity": [0, 1], "cpu_quota_cores": null, "cores_usable": 2, "governors": [],
                "memory": {"total_bytes": 1, "available_bytes": 1}, "load_1min": 0.5, "kernel": "6.1",
                "pmu": {"state": "absent"}, "perf_event_paranoid": 4
            },
            "software": {"versions": {"opcollect": "0.1.0"}, "git_revision": null, "command_line": ["opcollect"]},
            "env_hash": "47a865cdd1ea8bef"
        })
    }

    #[test]
    fn an_environment_without_a_format_number_is_of_the_first() {
        let read = Environment::read(&first()).unwrap().unwrap();
        assert_eq!((read.format, read.state.cores_usable), (1, 2));
        assert_eq!(read.machine.caches[0].to_string(), "L1 data 49152");
        let mut written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["format"], 1);
        written.as_object_mut().unwrap().remove("format");
        assert_eq!(written, first());
    }

    #[test]
    fn parts_may_be_missing_and_other_formats_are_refused() {
        assert_eq!(Environment::read(&Value::Null).unwrap(), None);
        let bare = json!({"machine": {"arch": "x86_64"}});
        assert_eq!(
            Environment::read(&bare).unwrap().unwrap().state,
            State::default()
        );
        let refused = |change: fn(&mut Value)| {
            let mut value = first();
            change(&mut value);
            Environment::read(&value).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            [
                refused(|v| v["format"] = json!(2)),
                refused(|v| v["calibration"] = json!({"format": 9})),
                refused(|v| v["machine"]["cores_online"] = json!("two")),
            ]
            .join("\n"),
            @r#"
        the environment has format 2 (written by opcollect 0.1.0), and this program reads format 1; use a newer version of the program
        the calibration has format 9 (written by opcollect 0.1.0), and this program reads format 1; use a newer version of the program
        the environment is damaged: invalid type: string "two", expected u32; restore it from a copy, or measure again
        "#
        );
    }
}
