//! Profiles: the sizes of a hardware build and the parameters of its timing model, as TOML.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ProfileError;
use crate::file::read_file;
use crate::isa::Widths;

/// Maximum bytes of a profile's file.
const MAX_BYTES: u64 = 1 << 16;

/// The built-in profiles, the default first.
const BUILT_IN: [(&str, &str); 4] = [
    ("pynq-1x16", include_str!("../profiles/pynq-1x16.toml")),
    ("pynq-4x8", include_str!("../profiles/pynq-4x8.toml")),
    (
        "ultra96-1x16",
        include_str!("../profiles/ultra96-1x16.toml"),
    ),
    ("zcu104-1x16", include_str!("../profiles/zcu104-1x16.toml")),
];

/// A build of the hardware, and how long it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, as in `--target "pynq -profile=NAME"`.
    pub name: String,
    /// A description in a few words.
    pub title: String,
    /// Uncertain properties.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Sizes.
    pub hardware: Hardware,
    /// The timing model's parameters.
    pub timing: Timing,
    /// Source of the parameters.
    pub calibration: Calibration,
}

/// Sizes of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Rows of the matrix unit: images at once.
    pub batch: u64,
    /// Columns of the matrix unit: channels in a block.
    pub block: u64,
    /// Bytes of the micro-op memory.
    pub uop_bytes: u64,
    /// Bytes of the input memory.
    pub inp_bytes: u64,
    /// Bytes of the weight memory.
    pub wgt_bytes: u64,
    /// Bytes of the accumulators.
    pub acc_bytes: u64,
    /// Clock of the fabric.
    pub clock_mhz: u64,
    /// Bytes that the bus moves in a cycle.
    pub bus_bytes: u64,
}

impl Hardware {
    /// Bits of the fields that name elements of the memories.
    pub fn widths(&self) -> Widths {
        let [uop, wgt, inp, acc, _] = self.depths().map(|depth| depth.max(1).ilog2());
        Widths { uop, acc, inp, wgt }
    }

    /// Elements of the micro-op, weight, input, accumulator and output memories. The output memory has an element for
    /// each accumulator.
    pub fn depths(&self) -> [usize; 5] {
        let acc = self.acc_bytes / (self.batch * self.block * 4);
        [
            self.uop_bytes / 4,
            self.wgt_bytes / (self.block * self.block),
            self.inp_bytes / (self.batch * self.block),
            acc,
            acc,
        ]
        .map(|depth| depth as usize)
    }
}

/// Parameters of the timing model: cycles of the fabric's clock, but for the two of the host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// A micro-op of a GEMM.
    pub gemm_uop: f64,
    /// An iteration of a GEMM's outer loop, beside its micro-ops.
    pub gemm_outer: f64,
    /// A vector of an ALU instruction.
    pub alu_vector: f64,
    /// A row of an input load, beside its beats.
    pub inp_row: f64,
    /// A beat of an input load.
    pub inp_beat: f64,
    /// A row of a weight load, beside its beats.
    pub wgt_row: f64,
    /// A beat of a weight load.
    pub wgt_beat: f64,
    /// An element of padding.
    pub pad_element: f64,
    /// A row of a store, beside its beats.
    pub store_row: f64,
    /// A beat of a store.
    pub store_beat: f64,
    /// A load of micro-ops, beside its words.
    pub uop_load: f64,
    /// A word of micro-ops.
    pub uop_word: f64,
    /// Any instruction of the load stage.
    pub load_fixed: f64,
    /// Any instruction of the compute stage.
    pub compute_fixed: f64,
    /// Any instruction of the store stage.
    pub store_fixed: f64,
    /// Fetching an instruction.
    pub fetch: f64,
    /// A token, from its push to its pop.
    pub token: f64,
    /// A call of the driver's interface on the host, microseconds.
    pub host_call_us: f64,
    /// A run, on the host, microseconds.
    pub host_run_us: f64,
}

/// Source of a profile's timing parameters, and their error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The measurements that they were fitted to, or `none`.
    pub source: String,
    /// When, as a date.
    pub date: String,
    /// Records that were fitted.
    #[serde(default)]
    pub records: u64,
    /// Mean absolute error on tasks left out of the fit. `None` if it is not known.
    #[serde(default)]
    pub left_out_error_percent: Option<f64>,
}

impl Profile {
    /// The names of the built-in profiles, the default first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in profile by name, or one read from a TOML file.
    ///
    /// # Errors
    /// Fails if there is no such file, or if it is not a valid profile.
    pub fn find(name: &str) -> Result<Profile, ProfileError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(own, _)| *own == name) {
            return Profile::parse(text, name);
        }
        let text =
            read_file(Path::new(name), MAX_BYTES).map_err(|error| ProfileError::Unreadable {
                path: name.to_owned(),
                reason: error.to_string(),
                known: Profile::names().collect::<Vec<_>>().join(", "),
            })?;
        Profile::parse(&text, name)
    }

    /// Reads a profile's TOML; `path` is for messages.
    ///
    /// # Errors
    /// Fails if the text is not a valid profile.
    pub fn parse(text: &str, path: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|error| ProfileError::Malformed {
            path: path.to_owned(),
            reason: error.message().lines().collect::<Vec<_>>().join(" "),
        })?;
        profile.check(path)?;
        Ok(profile)
    }

    fn check(&self, path: &str) -> Result<(), ProfileError> {
        let nonsense = |field, value: String, expected| {
            Err(ProfileError::Nonsense {
                path: path.to_owned(),
                field,
                value,
                expected,
            })
        };
        let h = &self.hardware;
        let powers = [
            ("hardware.batch", h.batch, 64),
            ("hardware.block", h.block, 64),
            ("hardware.uop_bytes", h.uop_bytes, 32 << 10),
            ("hardware.inp_bytes", h.inp_bytes, 1 << 24),
            ("hardware.wgt_bytes", h.wgt_bytes, 1 << 24),
            ("hardware.acc_bytes", h.acc_bytes, 1 << 24),
            ("hardware.bus_bytes", h.bus_bytes, 128),
        ];
        for (field, value, most) in powers {
            if !value.is_power_of_two() || value > most {
                return nonsense(
                    field,
                    value.to_string(),
                    "expected a power of two, and no more than instructions can address",
                );
            }
        }
        if !(1..=2_000).contains(&h.clock_mhz) {
            return nonsense(
                "hardware.clock_mhz",
                h.clock_mhz.to_string(),
                "expected 1 to 2000",
            );
        }
        let depths = h.depths();
        if depths.contains(&0) {
            return nonsense(
                "hardware",
                format!("{depths:?} elements in its memories"),
                "expected one or more in each",
            );
        }
        // A micro-op has 32 bits for its three places; an instruction has 64 for two steps of each.
        let w = h.widths();
        if w.uop > 13 || w.acc + w.inp + w.wgt > 32 {
            return nonsense(
                "hardware",
                format!("{depths:?} elements in its memories"),
                "which micro-ops of 32 bits cannot address",
            );
        }
        let finite = |value: f64| value.is_finite() && (0.0..=1e6).contains(&value);
        for (field, value) in self.timing.named() {
            if !finite(value) {
                return nonsense(field, value.to_string(), "expected 0 to 1000000");
            }
        }
        if self.timing.gemm_uop == 0.0 {
            return nonsense("timing.gemm_uop", "0".to_owned(), "expected more than 0");
        }
        if self.name.is_empty() || self.name.len() > 64 || self.name.chars().any(char::is_control) {
            return nonsense(
                "name",
                format!("{:?}", self.name),
                "expected 1 to 64 characters",
            );
        }
        Ok(())
    }
}

impl Timing {
    /// All parameters with their names.
    pub fn named(&self) -> [(&'static str, f64); 19] {
        [
            ("timing.gemm_uop", self.gemm_uop),
            ("timing.gemm_outer", self.gemm_outer),
            ("timing.alu_vector", self.alu_vector),
            ("timing.inp_row", self.inp_row),
            ("timing.inp_beat", self.inp_beat),
            ("timing.wgt_row", self.wgt_row),
            ("timing.wgt_beat", self.wgt_beat),
            ("timing.pad_element", self.pad_element),
            ("timing.store_row", self.store_row),
            ("timing.store_beat", self.store_beat),
            ("timing.uop_load", self.uop_load),
            ("timing.uop_word", self.uop_word),
            ("timing.load_fixed", self.load_fixed),
            ("timing.compute_fixed", self.compute_fixed),
            ("timing.store_fixed", self.store_fixed),
            ("timing.fetch", self.fetch),
            ("timing.token", self.token),
            ("timing.host_call_us", self.host_call_us),
            ("timing.host_run_us", self.host_run_us),
        ]
    }
}
