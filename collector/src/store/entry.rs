//! A schedule of the store, and how a row becomes one.

use opdata::{CacheState, Row, Status};
use opengine::schedule::{Choice, ScheduleSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Result, StoreError};

/// The workload, machine and conditions of a best schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// Hash of the workload.
    pub workload: String,
    /// TVM's dictionary of the target.
    pub target: Value,
    /// Fingerprint of the machine.
    pub machine: String,
    /// Threads.
    pub threads: u32,
    /// State of the caches.
    pub cache: String,
}

/// A schedule with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its workload, machine and conditions.
    #[serde(flatten)]
    pub key: Key,
    /// Hash of the scheduled program.
    pub program_hash: String,
    /// Name of the operator.
    pub operator: String,
    /// Its kind.
    pub kind: String,
    /// Shapes of inputs, weights and outputs.
    pub shapes: String,
    /// Template and knobs.
    pub choice: Choice,
    /// TVM's trace of the schedule.
    pub trace: Option<Value>,
    /// Median time, nanoseconds.
    pub time_ns: f64,
    /// Half of its confidence interval, nanoseconds.
    pub half_width_ns: Option<f64>,
    /// Grade of the measurement.
    pub quality: Option<String>,
    /// Model of the measurement.
    pub model: Option<String>,
    /// Run and row, or file, of its origin.
    pub source: String,
    /// Version of the program that measured it.
    pub tool: Option<String>,
    /// Version of TVM.
    pub tvm: Option<String>,
    /// Time of the measurement.
    pub measured_at: Option<String>,
}

/// The columns of an entry, in the order in which [`Entry::of_record`] reads them.
pub(super) const COLUMNS: &str = "workload, target, machine, threads, cache, program_hash, operator, kind, shapes, knobs, \
     trace, time_ns, half_width_ns, quality, model, source, tool, tvm, measured_at";

/// The cells of a record, of whatever database.
pub(super) trait Cells {
    /// A text. `None` if the cell is empty.
    fn text(&self, at: usize) -> Result<Option<String>>;

    /// A number.
    fn number(&self, at: usize) -> Result<Option<f64>>;

    /// A whole number.
    fn integer(&self, at: usize) -> Result<i64>;

    /// The error of a cell that must not be empty.
    fn missing(at: usize) -> StoreError;
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    Ok(serde_json::from_str(text)?)
}

/// Distance of shapes (`1x64x56x56;64x64x3x3`): the sum of the absolute logarithms of the ratios of their extents;
/// infinite if they have other numbers of dimensions.
pub(super) fn distance(a: &str, b: &str) -> f64 {
    let extents = |shapes: &str| -> Vec<f64> {
        shapes
            .split([';', 'x', ','])
            .map(|extent| extent.trim().parse().unwrap_or(1.0))
            .collect()
    };
    let (a, b) = (extents(a), extents(b));
    match a.len() == b.len() {
        true => a.iter().zip(&b).map(|(a, b)| (a / b).ln().abs()).sum(),
        false => f64::INFINITY,
    }
}

impl Entry {
    /// The entry of a record with [`COLUMNS`].
    pub(super) fn of_record<C: Cells>(record: &C) -> Result<Entry> {
        let text = |at| record.text(at)?.ok_or_else(|| C::missing(at));
        Ok(Entry {
            key: Key {
                workload: text(0)?,
                target: json(&text(1)?)?,
                machine: text(2)?,
                threads: u32::try_from(record.integer(3)?).map_err(|_| C::missing(3))?,
                cache: text(4)?,
            },
            program_hash: text(5)?,
            operator: text(6)?,
            kind: text(7)?,
            shapes: text(8)?,
            choice: json(&text(9)?)?,
            trace: record.text(10)?.map(|trace| json(&trace)).transpose()?,
            time_ns: record.number(11)?.ok_or_else(|| C::missing(11))?,
            half_width_ns: record.number(12)?,
            quality: record.text(13)?,
            model: record.text(14)?,
            source: text(15)?,
            tool: record.text(16)?,
            tvm: record.text(17)?,
            measured_at: record.text(18)?,
        })
    }

    /// The entry of a measured row. `None` if the row lacks a part, or is of an emulator.
    pub fn of_row(row: &Row, source: &str) -> Option<Entry> {
        // Whatever its grade: on a shared machine all rows may have grade D, and the entry says so.
        if row.status != Status::Measured || row.emulated.is_some() {
            return None;
        }
        let choice: Choice = row.schedule_knobs.as_ref()?.decode().ok()?;
        let shapes = [&row.input_shapes, &row.weight_shapes, &row.output_shapes];
        let shapes: Vec<String> = shapes
            .iter()
            .filter_map(|shapes| Some(shapes.as_ref()?.to_string()))
            .collect();
        Some(Entry {
            key: Key {
                workload: row.workload_hash.clone()?,
                target: row.target.as_ref()?.decode().ok()?,
                machine: row.env_hash.clone()?,
                threads: u32::try_from(row.threads?).ok()?,
                cache: row.cache_state.map(CacheState::as_str)?.to_owned(),
            },
            program_hash: row.program_hash.clone()?,
            operator: row.op_name.clone(),
            kind: row.op_kind.clone(),
            shapes: shapes.join(";"),
            choice,
            trace: row
                .schedule_trace
                .as_ref()
                .and_then(|trace| trace.decode().ok()),
            time_ns: row.time_median_ns.filter(|ns| *ns > 0.0)?,
            half_width_ns: row
                .time_ci_high_ns
                .zip(row.time_ci_low_ns)
                .map(|(high, low)| (high - low) / 2.0),
            quality: row.quality.map(|quality| quality.to_string()),
            model: row.model_name.clone(),
            source: format!("{source} {}", row.row_id),
            tool: row.tool_version.clone(),
            tvm: row.tvm_version.clone(),
            measured_at: row.measured_at_utc.map(|at| at.to_string()),
        })
    }

    /// Specification of a kernel with this schedule: its knobs, or its trace if no template made it. `None` for a
    /// record of AutoTVM, whose templates TVM no longer has.
    pub fn spec(&self) -> Option<ScheduleSpec> {
        match (&self.trace, self.choice.is_without_template()) {
            (Some(trace), true) => Some(ScheduleSpec::Trace {
                trace: trace.clone(),
            }),
            (Some(_), false) => Some(ScheduleSpec::Template {
                choice: self.choice.clone(),
            }),
            (None, _) => None,
        }
    }
}
