//! Facts about the machine of a run: cores, clock, caches, vector width, calibrated rates.
//!
//! Taken from the environment in `run.json` ([`opdata::contract::Environment`]) and from its calibration, where `opcollect
//! doctor --calibrate` left one. What is not there stays missing; so does everything of another tool's log.

pub(super) mod drift;
pub(super) mod moving;

mod host;

use opdata::FormatError;
use opdata::contract::{Cache, Calibration, Environment, Level, Machine};
use opmodels::tile::VectorUnit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::features::list::Values;
use crate::features::scale::{log, log1};

/// A GPU with a lower power limit cannot keep the clock that its peak is stated for, W. The limit is twice the power
/// that a slot supplies, on which the smallest cards depend.
const AMPLE_POWER_W: f64 = 150.0;

/// Rates measured at one number of threads, of the fastest samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Threads.
    pub threads: u64,
    /// Arithmetic, Gflop/s.
    pub gflops: Option<f64>,
    /// Reading from first-level caches, GB/s.
    pub l1_gbytes_per_s: Option<f64>,
    /// Reading from second-level caches, GB/s.
    pub l2_gbytes_per_s: Option<f64>,
    /// Reading from the third-level cache, GB/s.
    pub l3_gbytes_per_s: Option<f64>,
    /// Reading from main memory, GB/s.
    pub memory_gbytes_per_s: Option<f64>,
}

/// Facts of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Its name in the rows: `env_hash`, or the target of an imported log.
    pub id: String,
    /// Its processor as sold, where the run recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Position among the machines of the training data.
    pub number: Option<u32>,
    /// Cores that a run may use.
    pub cores: Option<u32>,
    /// Cores, or multiprocessors of a GPU, that the user named for a log that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Clock of a core, GHz: calibrated, else the highest that the kernel names, else what it reports.
    pub frequency_ghz: Option<f64>,
    /// First-level data cache, bytes.
    pub l1_bytes: Option<u64>,
    /// Second-level cache, bytes.
    pub l2_bytes: Option<u64>,
    /// Last-level cache, bytes.
    pub l3_bytes: Option<u64>,
    /// Its vector unit.
    pub vector: Option<VectorUnit>,
    /// Power that it may take for long, W, as its maker publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Major number of a GPU's compute capability: which kernels a library has for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Calibrated rates by ascending number of threads.
    pub rates: Vec<Rates>,
}

/// A core, as far as kernels are estimated by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::features) struct Core {
    /// Its vector unit.
    pub unit: VectorUnit,
    /// Multiply-adds of 4 bytes in a cycle at its peak.
    pub multiply_adds: f64,
}

impl MachineFacts {
    /// A machine with only its name known.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// The facts with the user's number of cores (multiprocessors of a GPU), if the machine's own number is not known.
    #[must_use]
    pub fn with_units(mut self, units: u32) -> Self {
        if self.cores.is_none() {
            (self.cores, self.units) = (Some(units), Some(units));
        }
        self
    }

    /// How short of power a GPU is: how often its power would have to double to reach [`AMPLE_POWER_W`]. It is 0 where
    /// it has that much, or none is known.
    pub(in crate::features) fn power_shortage(&self) -> f64 {
        let doublings = |power: f64| (AMPLE_POWER_W / power).log2().max(0.0);
        self.power_w.map_or(0.0, doublings)
    }

    /// Cores or multiprocessors that share the work of a kernel, or a nominal number.
    pub(in crate::features) fn units_or(&self, nominal: f64) -> f64 {
        self.units.map_or(nominal, f64::from)
    }

    /// One of its cores, if the vector unit is known: at the calibrated peak, else with one vector of the widest kind a
    /// cycle. A clock that was not calibrated may be wrong; so the core is limited to between half a unit and two
    /// units.
    pub(in crate::features) fn core(&self) -> Option<Core> {
        let unit = self.vector?;
        let lanes = unit.lanes() as f64;
        let peak = self.rates_at(1).and_then(|rates| rates.gflops);
        let multiply_adds = peak
            .zip(self.frequency_ghz)
            .map_or(lanes, |(peak, clock)| peak / clock / 2.0);
        Some(Core {
            unit,
            multiply_adds: multiply_adds.clamp(lanes / 2.0, lanes * 2.0),
        })
    }

    /// The facts in a run's environment. If the run recorded none, nothing but the machine's name is known.
    ///
    /// # Errors
    /// Fails if the environment or its calibration is of another format, or damaged.
    pub fn of_environment(id: &str, environment: &Value) -> Result<Self, FormatError> {
        let environment = Environment::read(environment)?;
        Ok(environment.map_or_else(|| Self::named(id), |e| Self::of(id, &e)))
    }

    fn of(id: &str, environment: &Environment) -> Self {
        let (machine, state) = (&environment.machine, &environment.state);
        let cache = |level: u32| {
            let of_data = |c: &&Cache| c.level == level && c.kind != "instruction";
            machine.caches.iter().find(of_data).map(|c| c.size_bytes)
        };
        let has = |feature: &str| machine.llvm_cpu.features.iter().any(|f| f == feature);
        let bits = if has("avx512f") {
            512
        } else if has("avx2") || has("avx") {
            256
        } else {
            128
        };
        let is_x86 = machine.arch.is_empty() || machine.arch.starts_with("x86");
        let calibration = environment.calibration.as_ref();
        let ghz = |mhz: Option<f64>| positive(mhz?).map(|mhz| mhz / 1000.0);
        Self {
            id: id.to_owned(),
            cpu: machine.cpu.name.clone(),
            number: None,
            units: None,
            cores: Some(state.cores_usable).filter(|n| *n > 0),
            frequency_ghz: calibration
                .and_then(|c| positive(c.clock_ghz?))
                .or_else(|| ghz(machine.max_mhz))
                .or_else(|| ghz(state.cpu_mhz)),
            l1_bytes: cache(1),
            l2_bytes: cache(2),
            l3_bytes: cache(3),
            vector: (*machine != Machine::default()).then(|| VectorUnit::of_width(bits, is_x86)),
            power_w: None,
            generation: None,
            rates: calibration.map(rates_of).unwrap_or_default(),
        }
    }

    /// Its name for people: processor, cores and name, as far as they are known.
    pub fn label(&self) -> String {
        let cores = self.cores.map(|n| match n {
            1 => "1 core".to_owned(),
            n => format!("{n} cores"),
        });
        let known: Vec<String> = self.cpu.iter().cloned().chain(cores).collect();
        if known.is_empty() {
            self.id.clone()
        } else {
            format!("{} ({})", known.join(", "), self.id)
        }
    }

    /// The rates at a number of threads. Between two calibrated numbers, logarithms are interpolated linearly; beyond
    /// them, the nearest counts. `None` without a calibration.
    pub fn rates_at(&self, threads: u64) -> Option<Rates> {
        let below = self.rates.iter().rfind(|r| r.threads <= threads);
        let above = self.rates.iter().find(|r| r.threads >= threads);
        let (low, high) = (below.or(above)?, above.or(below)?);
        let log = |n: u64| (n as f64).ln();
        let at = |of: fn(&Rates) -> Option<f64>| {
            // One calibration decides at a calibrated number of threads, and outside the calibrated range.
            if low.threads == high.threads {
                return of(low);
            }
            let share = (log(threads) - log(low.threads)) / (log(high.threads) - log(low.threads));
            let (a, b) = (of(low)?.ln(), of(high)?.ln());
            Some((a + share * (b - a)).exp())
        };
        Some(Rates {
            threads,
            gflops: at(|r| r.gflops),
            l1_gbytes_per_s: at(|r| r.l1_gbytes_per_s),
            l2_gbytes_per_s: at(|r| r.l2_gbytes_per_s),
            l3_gbytes_per_s: at(|r| r.l3_gbytes_per_s),
            memory_gbytes_per_s: at(|r| r.memory_gbytes_per_s),
        })
    }

    /// The rates for a row: at its number of threads, or the only ones there are, as of a GPU.
    pub(in crate::features) fn rates_for(&self, threads: Option<u64>) -> Option<Rates> {
        match (threads, self.rates.as_slice()) {
            (Some(threads), _) => self.rates_at(threads),
            (None, [only]) => Some(*only),
            (None, _) => None,
        }
    }

    /// Fills in the machine's features; the rates only where the number of threads is known, or does not matter.
    pub(in crate::features) fn describe(&self, values: &mut Values, threads: Option<u64>) {
        let bytes = |n: Option<u64>| n.map_or(f32::NAN, |n| log1(n as f64));
        let rate = |rate: Option<f64>| rate.map_or(f32::NAN, log);
        values.machine = self.number.map_or(f32::NAN, |n| n as f32);
        values.cores = self.cores.map_or(f32::NAN, |n| n as f32);
        values.frequency = rate(self.frequency_ghz);
        values.l1_bytes = bytes(self.l1_bytes);
        values.l2_bytes = bytes(self.l2_bytes);
        values.l3_bytes = bytes(self.l3_bytes);
        values.lanes = self.vector.map_or(f32::NAN, |unit| unit.lanes() as f32);
        if let Some(rates) = self.rates_for(threads) {
            values.peak_flops = rate(rates.gflops);
            values.bandwidth_l1 = rate(rates.l1_gbytes_per_s);
            values.bandwidth_l2 = rate(rates.l2_gbytes_per_s);
            values.bandwidth_l3 = rate(rates.l3_gbytes_per_s);
            values.bandwidth_memory = rate(rates.memory_gbytes_per_s);
        }
    }
}

fn rates_of(calibration: &Calibration) -> Vec<Rates> {
    let mut rates: Vec<Rates> = calibration
        .rates
        .iter()
        .filter(|r| r.threads > 0)
        .map(|r| {
            let read = |level| positive(r.read_gbytes_per_s.get(&level)?.rate.best);
            Rates {
                threads: r.threads.into(),
                gflops: positive(r.peak_gflops_per_s.best),
                l1_gbytes_per_s: read(Level::L1),
                l2_gbytes_per_s: read(Level::L2),
                l3_gbytes_per_s: read(Level::L3),
                memory_gbytes_per_s: read(Level::Memory),
            }
        })
        .collect();
    rates.sort_by_key(|r| r.threads);
    rates
}

/// A finite number above 0.
fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn environment() -> Value {
        let rate = |best: f64| json!({"best": best, "median": 1.0, "spread": 0.01, "samples": 50, "set_bytes": 1});
        json!({
            "machine": {
                "cpu": {"name": "Some CPU"},
                "caches": [
                    {"kind": "instruction", "level": 1, "size_bytes": 1},
                    {"kind": "data", "level": 1, "size_bytes": 49152},
                    {"kind": "unified", "level": 2, "size_bytes": 2097152}
                ],
                "llvm_cpu": {"features": ["avx2", "avx512f"]},
                "max_mhz": 3700.0
            },
            "state": {"cores_usable": 2, "cpu_mhz": 2300.0},
            "calibration": {
                "format": 1,
                "env_hash": "m",
                "measured_at_utc": "2026-01-31T12:00:00.000Z",
                "versions": {},
                "target": {},
                "cores_usable": 2,
                "clock_ghz": 3.5,
                "rates": [
                    {
                        "threads": 4,
                        "peak_gflops_per_s": rate(360.0),
                        "read_gbytes_per_s": {"l1": rate(1600.0), "memory": rate(24.0)}
                    },
                    {
                        "threads": 1,
                        "peak_gflops_per_s": rate(90.0),
                        "read_gbytes_per_s": {"l1": rate(400.0), "l3": rate(30.0), "memory": rate(12.0)}
                    }
                ]
            }
        })
    }

    fn facts_of(environment: &Value) -> MachineFacts {
        MachineFacts::of_environment("m", environment).unwrap()
    }

    fn values(facts: &MachineFacts, threads: Option<u64>) -> Values {
        let mut values = Values::default();
        facts.describe(&mut values, threads);
        values
    }

    #[test]
    fn an_environment_is_read_and_an_empty_one_is_missing() {
        let facts = facts_of(&environment());
        assert_eq!(
            (
                facts.cores,
                facts.l1_bytes,
                facts.l2_bytes,
                facts.l3_bytes,
                facts.vector
            ),
            (
                Some(2),
                Some(49152),
                Some(2097152),
                None,
                Some(VectorUnit::of_width(512, true))
            )
        );
        assert_eq!(facts.frequency_ghz, Some(3.5));
        let at_four = values(&facts, Some(4));
        assert_eq!(at_four.peak_flops, 360f64.log2() as f32);
        assert_eq!(at_four.bandwidth_l1, 1600f64.log2() as f32);
        assert_eq!(at_four.bandwidth_memory, 24f64.log2() as f32);
        assert!(at_four.bandwidth_l2.is_nan() && at_four.bandwidth_l3.is_nan());
        let empty = facts_of(&Value::Null);
        assert_eq!(empty, MachineFacts::named("m"));
        assert_eq!(
            (facts.label(), empty.label()),
            ("Some CPU, 2 cores (m)".to_owned(), "m".to_owned())
        );
    }

    #[test]
    fn a_card_that_the_slot_feeds_is_short_of_power() {
        let shortage = |power_w| {
            let facts = MachineFacts {
                power_w,
                ..MachineFacts::named("m")
            };
            facts.power_shortage()
        };
        assert_eq!(
            [Some(75.0), Some(150.0), Some(700.0), None].map(shortage),
            [1.0, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn rates_between_calibrated_numbers_of_threads() {
        let facts = facts_of(&environment());
        let near = |found: Option<f64>, wanted: f64| {
            assert!((found.unwrap() / wanted - 1.0).abs() < 1e-9, "{found:?}");
        };
        // Arithmetic grows with the threads, memory with their square root.
        let two = facts.rates_at(2).unwrap();
        near(two.gflops, 180.0);
        near(two.memory_gbytes_per_s, 12.0 * 2f64.sqrt());
        assert_eq!(two.l3_gbytes_per_s, None, "not known at four threads");
        near(facts.rates_at(1).unwrap().l3_gbytes_per_s, 30.0);
        near(facts.rates_at(64).unwrap().gflops, 360.0);
        assert_eq!(MachineFacts::named("m").rates_at(2), None);
    }

    #[test]
    fn rates_of_an_unknown_number_of_threads_are_missing() {
        let facts = facts_of(&environment());
        let unknown = values(&facts, None);
        assert!(unknown.peak_flops.is_nan() && unknown.bandwidth_memory.is_nan());
        assert_eq!(unknown.frequency, 3.5f64.log2() as f32);
    }

    #[test]
    fn without_a_calibration_the_kernel_knows_a_clock() {
        let mut environment = environment();
        environment["calibration"] = Value::Null;
        let other = facts_of(&environment);
        assert_eq!((other.frequency_ghz, other.rates.len()), (Some(3.7), 0));
        environment["machine"]["max_mhz"] = Value::Null;
        let virtual_machine = facts_of(&environment);
        assert_eq!(virtual_machine.frequency_ghz, Some(2.3));
    }

    #[test]
    fn rates_that_cannot_be_are_missing_and_other_formats_are_refused() {
        let mut environment = environment();
        environment["calibration"]["rates"][0]["threads"] = json!(0);
        environment["calibration"]["rates"][1]["peak_gflops_per_s"]["best"] = json!(-1.0);
        let facts = facts_of(&environment);
        let rates = facts.rates_at(1).unwrap();
        assert_eq!(facts.rates.len(), 1);
        assert_eq!(
            (rates.gflops, rates.memory_gbytes_per_s),
            (None, Some(12.0))
        );
        environment["calibration"]["format"] = json!(2);
        let refused = MachineFacts::of_environment("m", &environment).unwrap_err();
        assert!(
            refused.to_string().contains("calibration has format 2"),
            "{refused}"
        );
    }
}
