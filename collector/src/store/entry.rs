//! A schedule of the store, and how a row becomes one.

use opdata::{CacheState, Quality, Row, Status};
use opengine::schedule::{Choice, ScheduleSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a schedule is the best for.
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
    /// What for.
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
    /// Model that it was measured for.
    pub model: Option<String>,
    /// Run and row, or file, that it came from.
    pub source: String,
    /// Version of the program that measured it.
    pub tool: Option<String>,
    /// Version of TVM.
    pub tvm: Option<String>,
    /// When.
    pub measured_at: Option<String>,
}

/// The columns of an entry, in the order in which [`of_record`] reads them.
pub(super) const ENTRY_COLUMNS: &str = "workload, target, machine, threads, cache, program_hash, operator, kind, shapes, knobs, \
     trace, time_ns, half_width_ns, quality, model, source, tool, tvm, measured_at";

fn json<T: serde::de::DeserializeOwned>(at: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.into())
    })
}

/// The entry of a record.
pub(super) fn of_record(record: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    let text = |at| record.get::<_, String>(at);
    let trace: Option<String> = record.get(10)?;
    Ok(Entry {
        key: Key {
            workload: text(0)?,
            target: json(1, &text(1)?)?,
            machine: text(2)?,
            threads: record.get(3)?,
            cache: text(4)?,
        },
        program_hash: text(5)?,
        operator: text(6)?,
        kind: text(7)?,
        shapes: text(8)?,
        choice: json(9, &text(9)?)?,
        trace: trace.map(|trace| json(10, &trace)).transpose()?,
        time_ns: record.get(11)?,
        half_width_ns: record.get(12)?,
        quality: record.get(13)?,
        model: record.get(14)?,
        source: text(15)?,
        tool: record.get(16)?,
        tvm: record.get(17)?,
        measured_at: record.get(18)?,
    })
}

impl Entry {
    /// The entry of a measured row; none where the row lacks a part, has grade D, or is of an emulator.
    pub fn of_row(row: &Row, source: &str) -> Option<Entry> {
        let usable = row.status == Status::Measured
            && row.emulated.is_none()
            && row.quality != Some(Quality::D);
        if !usable {
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
            trace: Some(row.schedule_trace.as_ref()?.decode().ok()?),
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

    /// What a kernel with this schedule is built by: its knobs, or its trace where no template made it.
    pub fn spec(&self) -> ScheduleSpec {
        match (&self.trace, self.choice.is_without_template()) {
            (Some(trace), true) => ScheduleSpec::Trace {
                trace: trace.clone(),
            },
            _ => ScheduleSpec::Template {
                choice: self.choice.clone(),
            },
        }
    }
}
