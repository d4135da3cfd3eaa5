//! The record of a calibration, as it is stored and as runs have it (`environment.calibration` of `run.json`).
//!
//! JSON; names contain the units, and missing measurements are absent. `oppredict` reads the same object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::interference::BUSY_SHARE;
use crate::values::Timestamp;

/// Version of the format below; a file of another is not read.
pub const CALIBRATION_FORMAT: u32 = 1;

/// A level of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// First-level data cache.
    L1,
    /// Second-level cache.
    L2,
    /// Third-level cache.
    L3,
    /// Main memory.
    Memory,
}

impl Level {
    /// All levels, from the nearest one to memory.
    pub const ALL: [Level; 4] = [Level::L1, Level::L2, Level::L3, Level::Memory];
    /// The caches among them, whose position is their number less one.
    pub const CACHES: [Level; 3] = [Level::L1, Level::L2, Level::L3];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Level::L1 => "L1",
            Level::L2 => "L2",
            Level::L3 => "L3",
            Level::Memory => "memory",
        }
    }
}

/// The rates of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`CALIBRATION_FORMAT`].
    pub format: u32,
    /// The machine, as rows name it.
    pub env_hash: String,
    /// When it was measured.
    pub measured_at_utc: Timestamp,
    /// Versions of the programs that measured, by name.
    pub versions: BTreeMap<String, String>,
    /// The target of the kernels (TVM's dictionary).
    pub target: serde_json::Value,
    /// Cores that the process could use.
    pub cores_usable: u32,
    /// Load of the minute before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_1min: Option<f64>,
    /// Share of the CPU time that other processes took meanwhile (0 to 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cpu_share: Option<f64>,
    /// Clock of a core that works alone, GHz; absent where it cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ghz: Option<f64>,
    /// The rates, by ascending number of threads.
    pub rates: Vec<ThreadRates>,
}

/// Rates of this many threads together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRates {
    /// Threads.
    pub threads: u32,
    /// Multiply-adds of `float32` in registers, 10⁹ flop a second.
    pub peak_gflops_per_s: Rate,
    /// Reading from each level that could be distinguished, 10⁹ bytes a second.
    pub read_gbytes_per_s: BTreeMap<Level, ReadRate>,
}

/// One rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Rate of the fastest sample: what the machine can do.
    pub best: f64,
    /// Rate of the median sample: what it usually does.
    pub median: f64,
    /// Half the width of the median's 95 % interval, relative to the median.
    pub spread: f64,
    /// Samples.
    pub samples: u64,
}

/// The rate of reading a working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadRate {
    /// The rate.
    #[serde(flatten)]
    pub rate: Rate,
    /// The set of each thread, bytes.
    pub set_bytes: u64,
}

impl Calibration {
    /// Whether other processes took more than [`BUSY_SHARE`] of the CPU time while it was measured: its rates are too low.
    pub fn is_of_busy_machine(&self) -> bool {
        self.other_cpu_share.is_some_and(|share| share > BUSY_SHARE)
    }

    /// The reason why the numbers cannot be right. `None` if they can.
    pub fn complaint(&self) -> Option<String> {
        let rates = self.rates.iter().flat_map(|r| {
            let read = r.read_gbytes_per_s.values().map(|read| read.rate);
            std::iter::once(r.peak_gflops_per_s).chain(read)
        });
        let wrong = |v: f64| !v.is_finite() || v <= 0.0;
        if self.rates.is_empty() {
            return Some("it has no rates".to_owned());
        }
        if self.rates.iter().any(|r| r.threads == 0) {
            return Some("it has a rate of no threads".to_owned());
        }
        let mut all = rates.flat_map(|rate| [rate.best, rate.median]);
        if all.any(wrong) || self.clock_ghz.is_some_and(wrong) {
            return Some("a rate is not a positive number".to_owned());
        }
        None
    }
}
