//! What is known of the machine of a run: cores, caches, vector width, calibrated rates.
//!
//! Read from the environment in `run.json` as `opcollect` writes it (and its `calibration`, where `doctor --calibrate`
//! left one: lists of `{"threads", "gflops", "gbytes_per_s"}`). A log of another tool has none, and its features stay
//! missing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::list::Values;
use super::{log, log1};

/// Rates measured at one number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Threads.
    pub threads: u64,
    /// Arithmetic, Gflop/s.
    pub gflops: f64,
    /// Memory bandwidth, GB/s.
    pub gbytes_per_s: f64,
}

/// Facts of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Its name in the rows: `env_hash`, or the target of an imported log.
    pub id: String,
    /// Position among the machines of the training data.
    pub number: Option<u32>,
    /// Cores that a run may use.
    pub cores: Option<u32>,
    /// First-level data cache, bytes.
    pub l1_bytes: Option<u64>,
    /// Second-level cache, bytes.
    pub l2_bytes: Option<u64>,
    /// Last-level cache, bytes.
    pub l3_bytes: Option<u64>,
    /// Lanes of 4 bytes.
    pub lanes: Option<u32>,
    /// Calibrated rates by threads.
    pub rates: Vec<Rates>,
}

impl MachineFacts {
    /// A machine that nothing is known of but its name.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// Reads the environment of a run.
    pub fn of_environment(id: &str, environment: &Value) -> Self {
        let machine = &environment["machine"];
        let cache = |level: u64| {
            machine["caches"].as_array()?.iter().find_map(|cache| {
                let fits = cache["level"].as_u64() == Some(level)
                    && cache["kind"].as_str() != Some("instruction");
                fits.then(|| cache["size_bytes"].as_u64()).flatten()
            })
        };
        let has = |feature: &str| {
            machine["llvm_cpu"]["features"]
                .as_array()
                .is_some_and(|all| all.iter().any(|f| f.as_str() == Some(feature)))
        };
        let lanes = if has("avx512f") {
            16
        } else if has("avx2") || has("avx") {
            8
        } else {
            4
        };
        Self {
            id: id.to_owned(),
            number: None,
            cores: environment["state"]["cores_usable"]
                .as_u64()
                .and_then(|n| u32::try_from(n).ok()),
            l1_bytes: cache(1),
            l2_bytes: cache(2),
            l3_bytes: cache(3),
            lanes: machine.is_object().then_some(lanes),
            rates: serde_json::from_value(environment["calibration"]["rates"].clone())
                .unwrap_or_default(),
        }
    }

    /// The rates at a number of threads: those of the nearest calibrated number.
    pub fn rates_at(&self, threads: u64) -> Option<Rates> {
        self.rates
            .iter()
            .min_by_key(|r| r.threads.abs_diff(threads))
            .copied()
    }

    pub(super) fn describe(&self, values: &mut Values, threads: Option<u64>) {
        let bytes = |n: Option<u64>| n.map_or(f32::NAN, |n| log1(n as f64));
        values.machine = self.number.map_or(f32::NAN, |n| n as f32);
        values.cores = self.cores.map_or(f32::NAN, |n| n as f32);
        values.l1_bytes = bytes(self.l1_bytes);
        values.l2_bytes = bytes(self.l2_bytes);
        values.l3_bytes = bytes(self.l3_bytes);
        values.lanes = self.lanes.map_or(f32::NAN, |n| n as f32);
        if let Some(rates) = self.rates_at(threads.unwrap_or(1)) {
            values.peak_flops = log(rates.gflops);
            values.peak_bandwidth = log(rates.gbytes_per_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_and_an_empty_one_is_missing() {
        let environment = serde_json::json!({
            "machine": {
                "caches": [
                    {"kind": "instruction", "level": 1, "size_bytes": 1},
                    {"kind": "data", "level": 1, "size_bytes": 49152},
                    {"kind": "unified", "level": 2, "size_bytes": 2097152}
                ],
                "llvm_cpu": {"features": ["avx2", "avx512f"]}
            },
            "state": {"cores_usable": 2},
            "calibration": {"rates": [{"threads": 1, "gflops": 90.0, "gbytes_per_s": 12.0}]}
        });
        let facts = MachineFacts::of_environment("m", &environment);
        assert_eq!(
            (
                facts.cores,
                facts.l1_bytes,
                facts.l2_bytes,
                facts.l3_bytes,
                facts.lanes
            ),
            (Some(2), Some(49152), Some(2097152), None, Some(16))
        );
        assert_eq!(facts.rates_at(8).unwrap().gflops, 90.0);
        let empty = MachineFacts::of_environment("m", &Value::Null);
        assert_eq!(empty, MachineFacts::named("m"));
    }
}
