//! What a point is measured at, beside its operator and its schedule.

use std::collections::BTreeMap;

use opdata::CacheState;
use opreport::units;
use serde::{Deserialize, Serialize};

/// The conditions of a measurement: they do not change the compiled kernel, only how it is run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conditions {
    /// Threads that run the kernel, 1 at least.
    pub threads: u32,
    /// State of the caches before each sample.
    pub cache: CacheState,
    /// Conditions that only this kind of device has, by name; empty for most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, String>,
}

/// A condition that only some device has, such as a clock that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionInfo {
    /// Its name, as in `--condition NAME=VALUE`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Its values; the first is the default.
    pub values: &'static [&'static str],
}

impl Conditions {
    /// So many threads and this state of the caches, with nothing that only some devices have.
    pub fn new(threads: u32, cache: CacheState) -> Conditions {
        Conditions {
            threads,
            cache,
            device: BTreeMap::new(),
        }
    }
}

impl std::fmt::Display for Conditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = units::plural(u64::from(self.threads), "thread");
        write!(f, "{threads}, {}", self.cache)?;
        for (name, value) in &self.device {
            write!(f, ", {name} {value}")?;
        }
        Ok(())
    }
}
