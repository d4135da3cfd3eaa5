//! AutoTVM's log: one JSON object a line, as TVM 0.6 to 0.9 wrote it.
//!
//! Format 0.2 (0.7 on): `{"input": [target, task, args, kwargs], "config": {"index", "entity": [[knob, kind, value]…]},
//! "result": [costs in s, error, total s, unix time], "version", "tvm_version"}`. Format 0.1 (0.6): the same under `i`,
//! `r` and `v`, with the configuration (`i`, `t`, `c`, `e`) as the sixth part of `i`. Costs of a failed record are
//! 1e9 or the text of an error. Threads, environment and cache state are not in the log: its runs repeat the kernel on
//! the same arguments, so they count as `hot`.

use std::path::Path;

use serde_json::{Map, Value};

use super::faults::{Fault, Faults};
use super::lines::for_each;
use super::workload::{Task, describe_tensors, tensors};
use super::{Import, Imported, machine_of_target, physics};
use crate::error::Result;
use crate::identity::{PointKey, point_id, stable_hash};
use crate::row::{Essentials, finite};
use crate::schema::Row;
use crate::stats::median_of_sorted;
use crate::values::{CacheState, DeviceKind, JsonText, Status, Timestamp};

/// Reads a log, gzipped or not.
///
/// # Errors
/// As [`Import::read`].
pub(super) fn read(import: &Import) -> Result<Imported> {
    let path = &import.path;
    let mut imported = Imported::default();
    let mut faults = Faults::new(import.strict);
    let run_id = run_id(path);
    let mut ordinal = 0;
    for_each(path, &mut faults, |_, value| {
        ordinal += 1;
        let record = AutotvmRecord::parse(&value).map_err(Fault::record)?;
        let Some(device) = DeviceKind::of_target(&record.target) else {
            let name = record.target.split_whitespace().next().unwrap_or_default();
            imported.leave_out(format!(
                "the dataset has no device kind for target `{name}`"
            ));
            return Ok(());
        };
        let row = record.row(&run_id, ordinal, device);
        if row.status == Status::Measured {
            let times_ns: Vec<f64> = record.costs_s.iter().map(|cost| cost * 1e9).collect();
            physics::check(&row, &times_ns)?;
        }
        row.validate()
            .map_err(|error| Fault::record(error.to_string()))?;
        imported.rows.push(row);
        Ok(())
    })?;
    faults.finish(path, imported)
}

/// The log's file name without what its format adds; all rows of a log are one run.
fn run_id(path: &Path) -> String {
    let name = path
        .file_name()
        .map_or_else(|| "log".to_owned(), |n| n.to_string_lossy().into_owned());
    let stem = name
        .trim_end_matches(".gz")
        .trim_end_matches(".jsonl")
        .trim_end_matches(".json")
        .trim_end_matches(".log");
    format!("autotvm-{stem}")
}

/// One line, taken apart.
struct AutotvmRecord<'a> {
    /// The target as text: the kind first, then options.
    target: String,
    target_json: &'a Value,
    task: &'a str,
    args: &'a [Value],
    knobs: Map<String, Value>,
    costs_s: Vec<f64>,
    error: u64,
    error_text: Option<String>,
    unix_s: Option<f64>,
    tvm_version: Option<&'a str>,
}

impl<'a> AutotvmRecord<'a> {
    fn parse(value: &'a Value) -> Result<Self, String> {
        let old = value.get("i").is_some();
        let (input_key, result_key) = if old { ("i", "r") } else { ("input", "result") };
        let list = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_array)
                .ok_or_else(|| format!("no list `{key}`: this is not an AutoTVM record"))
        };
        let (input, result) = (list(input_key)?, list(result_key)?);
        let config = if old {
            input.get(5).and_then(|c| c.get("e"))
        } else {
            value.get("config").and_then(|c| c.get("entity"))
        };
        let entity = config
            .and_then(Value::as_array)
            .ok_or("no list of knobs in the configuration")?;
        let mut knobs = Map::new();
        for knob in entity {
            let (Some(name), Some(value)) = (knob.get(0).and_then(Value::as_str), knob.get(2))
            else {
                return Err(format!("`{knob}` is no knob: expected [name, kind, value]"));
            };
            knobs.insert(name.to_owned(), value.clone());
        }
        let target_json = input.first().ok_or("no target")?;
        let error = result
            .get(1)
            .and_then(Value::as_u64)
            .ok_or("no error number in the result")?;
        let costs = result.first().cloned().unwrap_or_default();
        let costs = costs.as_array().cloned().unwrap_or_default();
        if error == 0 && costs.iter().any(|cost| !cost.is_number()) {
            return Err("a record without error has a cost that is no number".to_owned());
        }
        let costs_s: Vec<f64> = costs.iter().filter_map(Value::as_f64).collect();
        if error == 0 && (costs_s.is_empty() || costs_s.iter().any(|c| *c <= 0.0)) {
            return Err("a record without error needs costs above 0".to_owned());
        }
        Ok(Self {
            target: target_text(target_json),
            target_json,
            task: input.get(1).and_then(Value::as_str).ok_or("no task name")?,
            args: input
                .get(2)
                .and_then(Value::as_array)
                .ok_or("no list of arguments")?,
            knobs,
            costs_s,
            error,
            error_text: costs.iter().find_map(Value::as_str).map(str::to_owned),
            unix_s: result.get(3).and_then(Value::as_f64),
            tvm_version: value.get("tvm_version").and_then(Value::as_str),
        })
    }

    fn row(&self, run_id: &str, ordinal: u64, device_kind: DeviceKind) -> Row {
        let workload = Task::of_task(self.task, self.args);
        let identity = workload
            .as_ref()
            .map_or_else(|| Value::from(self.args).to_string(), Task::identity);
        let tensors = tensors(self.args);
        let dtypes: Vec<&str> = tensors.iter().map(|t| t.dtype.as_str()).collect();
        let workload_hash = stable_hash(&[
            ("task", self.task),
            ("workload", &identity),
            ("dtypes", &dtypes.join(";")),
        ]);
        let knobs = Value::Object(self.knobs.clone());
        let target = JsonText::from(self.target_json);
        let point = point_id(&PointKey {
            workload: &workload_hash,
            schedule: &knobs.to_string(),
            target: &machine_of_target(&self.target),
            threads: 0,
            cache: CacheState::Hot,
            seed: 0,
        });
        let (status, reason) = self.status();
        let mut row = Row {
            measured_at_utc: self
                .unix_s
                .map(|s| Timestamp::from_unix_ms((s * 1e3) as i64)),
            workload_hash: Some(workload_hash),
            target: Some(target),
            target_cpu: option(&self.target, "-mcpu"),
            schedule_space: Some("autotvm".to_owned()),
            schedule_knobs: Some(JsonText::from(&knobs)),
            cache_state: Some(CacheState::Hot),
            tvm_version: self.tvm_version.map(str::to_owned),
            tool_version: Some("autotvm".to_owned()),
            reason,
            ..Row::new(Essentials {
                run_id,
                ordinal,
                point_id: &point,
                op_name: self.task,
                op_kind: "other",
                device_kind,
                status,
            })
        };
        describe_tensors(&mut row, &tensors);
        if let Some(workload) = &workload {
            workload.describe(&mut row);
        }
        self.describe_knobs(&mut row);
        if status == Status::Measured {
            describe_costs(&mut row, &self.costs_s);
        }
        row.fill_derived();
        row
    }

    /// The knobs that mean what a column of the schema means: extents of a tile without its outermost factor.
    fn describe_knobs(&self, row: &mut Row) {
        let tile = |names: &[&str]| -> Option<String> {
            let extents: Vec<String> = names
                .iter()
                .filter_map(|name| {
                    let factors = self.knobs.get(*name)?.as_array()?;
                    let inner: Option<Vec<u64>> =
                        factors.iter().skip(1).map(Value::as_u64).collect();
                    Some(inner?.iter().product::<u64>().to_string())
                })
                .collect();
            (!extents.is_empty()).then(|| extents.join("x"))
        };
        row.knob_tile_spatial = tile(&[
            "tile_b", "tile_f", "tile_oc", "tile_co", "tile_y", "tile_oh", "tile_h", "tile_x",
            "tile_ow", "tile_w",
        ]);
        row.knob_tile_reduction = tile(&[
            "tile_rc", "tile_ic", "tile_ci", "tile_ry", "tile_rx", "tile_k",
        ]);
        row.knob_unroll = self
            .knobs
            .get("auto_unroll_max_step")
            .and_then(Value::as_u64);
        if row.device_kind == DeviceKind::CPU {
            let lanes = |name: &str| self.knobs.get(name)?.as_array()?.last()?.as_u64();
            row.knob_vector_length = if self.task.contains("NCHWc") {
                lanes("tile_oc")
            } else if self.task.contains("dense_pack") {
                lanes("tile_x")
            } else if self.task.contains("dense_nopack") {
                lanes("tile_k")
            } else {
                None
            };
        }
    }

    /// How the record ended, by AutoTVM's error numbers.
    fn status(&self) -> (Status, Option<String>) {
        let (status, what) = match self.error {
            0 => return (Status::Measured, None),
            1 => (
                Status::Unsupported,
                "the schedule could not be instantiated",
            ),
            2 => (Status::CompileFailed, "the host could not compile it"),
            3 => (Status::CompileFailed, "the device's compiler refused it"),
            4 => (Status::Crashed, "it failed on the device"),
            5 => (Status::WrongResult, "its result was wrong"),
            6 => (Status::TimedOut, "building it took too long"),
            7 => (Status::TimedOut, "running it took too long"),
            _ => (Status::Crashed, "an unknown error"),
        };
        let detail = self.error_text.as_deref().and_then(|text| {
            text.lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .map(|line| format!(": {}", line.trim().chars().take(200).collect::<String>()))
        });
        (
            status,
            Some(format!(
                "AutoTVM error {}: {what}{}",
                self.error,
                detail.unwrap_or_default()
            )),
        )
    }
}

fn describe_costs(row: &mut Row, costs_s: &[f64]) {
    let mut times_ns: Vec<f64> = costs_s.iter().map(|cost| cost * 1e9).collect();
    times_ns.sort_by(f64::total_cmp);
    let count = times_ns.len();
    let mean = times_ns.iter().sum::<f64>() / count as f64;
    row.samples = Some(count as u64);
    row.time_median_ns = median_of_sorted(&times_ns).and_then(finite);
    row.time_mean_ns = finite(mean);
    row.time_min_ns = finite(times_ns[0]);
    if count > 1 {
        let squares: f64 = times_ns.iter().map(|t| (t - mean).powi(2)).sum();
        row.time_std_ns = finite((squares / (count - 1) as f64).sqrt());
    }
}

/// A target as the old text form, whatever form the log has.
fn target_text(target: &Value) -> String {
    let parsed;
    let object = match target {
        Value::String(text) if text.trim_start().starts_with('{') => {
            parsed = serde_json::from_str::<Value>(text).unwrap_or_default();
            parsed.as_object()
        }
        Value::String(text) => return text.clone(),
        other => other.as_object(),
    };
    let Some(object) = object else {
        return String::new();
    };
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut text = kind.to_owned();
    for (key, value) in object {
        if let (true, Some(value)) = (key != "kind", value.as_str()) {
            text.push_str(&format!(" -{key}={value}"));
        }
    }
    text
}

fn option(target: &str, name: &str) -> Option<String> {
    target.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        (key == name).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests;
