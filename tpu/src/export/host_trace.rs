//! The host's trace (Chrome JSON, as PyTorch's profiler writes it) to be merged into a Perfetto trace.
//!
//! Complete events (`ph` X) of category `tpudnn` and all others go to two tracks. The PMU's time zero is the end of
//! `disable_profile` less `tail_offset_ns` less the last record. Without these it is the end of the first tpudnn event.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::input::regular::read_regular;
use crate::profile::Profile;

/// One event of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSlice {
    /// Start in ns.
    pub start_ns: i64,
    /// End in ns.
    pub end_ns: i64,
    /// Name.
    pub name: String,
    /// Whether it is of the TPU's library.
    pub tpudnn: bool,
}

/// A host trace, as far as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTrace {
    /// Slices in the order of the file.
    pub slices: Vec<HostSlice>,
    /// End of `disable_profile` in µs, if the trace has it.
    disable_end_us: Option<f64>,
    /// End of the first tpudnn event in µs, if there is one.
    first_end_us: Option<f64>,
}

#[derive(Deserialize)]
struct RawTrace {
    #[serde(rename = "traceEvents")]
    events: Vec<RawEvent>,
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: serde_json::Value,
    #[serde(default)]
    name: serde_json::Value,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
}

const HIDDEN: [&str; 5] = [
    "PyTorch Profiler (0)",
    "enable_profile",
    "my_ops::enable_profile",
    "disable_profile",
    "my_ops::disable_profile",
];

impl HostTrace {
    /// Reads a trace.
    pub fn read(path: &Path) -> Result<HostTrace> {
        let bytes = read_regular(path)?;
        let raw: RawTrace = serde_json::from_slice(&bytes).map_err(|error| Error::Json {
            path: path.to_path_buf(),
            what: format!("{error}; expected a Chrome trace: an object with a list traceEvents"),
        })?;
        let mut trace = HostTrace {
            slices: Vec::new(),
            disable_end_us: None,
            first_end_us: None,
        };
        for event in &raw.events {
            let (Some(ts), name) = (event.ts, event.name.as_str().unwrap_or_default()) else {
                continue;
            };
            let end = ts + event.dur.unwrap_or(0.0);
            let tpudnn = event.cat.as_str() == Some("tpudnn");
            if tpudnn && name == "disable_profile" {
                trace.disable_end_us = Some(trace.disable_end_us.map_or(end, |e| e.max(end)));
            }
            if HIDDEN.contains(&name) {
                continue;
            }
            if tpudnn && trace.first_end_us.is_none() {
                trace.first_end_us = Some(end);
            }
            if event.ph == "X" && event.dur.is_some() {
                trace.slices.push(HostSlice {
                    start_ns: (ts * 1000.0) as i64,
                    end_ns: (end * 1000.0) as i64,
                    name: name.to_string(),
                    tpudnn,
                });
            }
        }
        if trace.first_end_us.is_none() {
            trace.slices.clear();
        }
        Ok(trace)
    }

    /// Whether the end of `disable_profile` and the dump say when the profile ended.
    pub fn is_anchored(&self, profile: &Profile) -> bool {
        self.disable_end_us.is_some()
            && profile.global.tail_offset_ns.is_some()
            && profile.tail_ns.is_some()
    }

    /// The host's time of the profile's time zero, in ns.
    pub fn offset_ns(&self, profile: &Profile) -> i64 {
        match (
            self.disable_end_us,
            profile.global.tail_offset_ns,
            profile.tail_ns,
        ) {
            (Some(end_us), Some(tail_offset_ns), Some(tail_ns)) => {
                (end_us * 1000.0 - tail_offset_ns as f64) as i64 - tail_ns
            }
            _ => (self.first_end_us.unwrap_or(0.0) * 1000.0) as i64,
        }
    }
}
