//! Conditions of a measurement, besides its operator and its schedule.

use std::collections::BTreeMap;

use opdata::{CacheState, Row};
use opreport::units;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The key in the rows' column `target` that holds conditions of a single kind of device.
const IN_TARGET: &str = "conditions";

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

/// A condition that only some devices have, such as a clock that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionInfo {
    /// Its name, as in `--condition NAME=VALUE`.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// Its values; the first is the default.
    pub values: &'static [&'static str],
}

impl Conditions {
    /// Conditions of `threads` threads and a state of the caches, without any that only some devices have.
    pub fn new(threads: u32, cache: CacheState) -> Conditions {
        Conditions {
            threads,
            cache,
            device: BTreeMap::new(),
        }
    }

    /// The conditions of a row's measurement. `None` if the row does not name them.
    pub fn of_row(row: &Row) -> Option<Conditions> {
        let mut at = Conditions::new(u32::try_from(row.threads?).ok()?, row.cache_state?);
        if let Some(target) = &row.target
            && target.as_str().contains(IN_TARGET)
        {
            let mut target: Value = serde_json::from_str(target.as_str()).ok()?;
            at.device = serde_json::from_value(target[IN_TARGET].take()).unwrap_or_default();
        }
        Some(at)
    }

    /// The dictionary of a row's target as text, without the conditions of the measurement.
    pub fn dictionary_of_row(row: &Row) -> Option<String> {
        let text = row.target.as_ref()?.as_str();
        if !text.contains(IN_TARGET) {
            return Some(text.to_owned());
        }
        let mut target: Value = serde_json::from_str(text).ok()?;
        target.as_object_mut()?.remove(IN_TARGET);
        Some(target.to_string())
    }

    /// A target's dictionary as rows have it: with the conditions that only this device has, if there are any.
    pub fn in_target(&self, dictionary: &Value) -> Value {
        let mut target = dictionary.clone();
        if !self.device.is_empty() {
            target[IN_TARGET] = json!(self.device);
        }
        target
    }
}

impl Conditions {
    /// Whether nothing but the state of the caches differs.
    pub fn is_like_but_for_caches(&self, other: &Conditions) -> bool {
        self.threads == other.threads && self.device == other.device
    }

    /// The conditions of a whole-model run in words, without the state of the caches.
    pub fn without_cache(&self) -> String {
        let threads = units::plural(u64::from(self.threads), "thread");
        self.with_device_conditions(threads)
    }

    fn with_device_conditions(&self, mut words: String) -> String {
        for (name, value) in &self.device {
            words.push_str(&format!(", {name} {value}"));
        }
        words
    }
}

impl std::fmt::Display for Conditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = units::plural(u64::from(self.threads), "thread");
        let words = format!("{threads}, {}", self.cache);
        f.write_str(&self.with_device_conditions(words))
    }
}

#[cfg(test)]
mod tests {
    use opdata::JsonText;

    use super::*;

    fn row(at: &Conditions, target: &Value) -> Row {
        Row {
            threads: Some(u64::from(at.threads)),
            cache_state: Some(at.cache),
            target: Some(JsonText::from(&at.in_target(target))),
            ..opdata::testing::measured("dense")
        }
    }

    #[test]
    fn rows_say_what_they_were_measured_at() {
        let target = json!({ "kind": "llvm", "num-cores": 2 });
        let plain = Conditions::new(2, CacheState::Model);
        assert_eq!(plain.in_target(&target), target, "as rows always were");
        let clocked = Conditions {
            device: [("clock".to_owned(), "low".to_owned())].into(),
            ..plain.clone()
        };
        for at in [plain, clocked] {
            let row = row(&at, &target);
            assert_eq!(
                Conditions::dictionary_of_row(&row),
                Some(target.to_string())
            );
            assert_eq!(Conditions::of_row(&row), Some(at));
        }
    }
}
