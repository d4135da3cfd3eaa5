//! A MetaSchedule database in JSON lines.
//!
//! `database_tuning_record.json` has one `[workload index, [trace, run times in s, target, arguments]]` a line. An
//! argument is `["TENSOR", dtype, shape]`, and the trace is `[instructions, decisions]`; the workload file beside it has
//! one `[structural hash, module]` a line. The blocks that the trace names say what is computed, and so do the
//! arguments' shapes; the module's text is not read.

use std::path::Path;

use serde_json::{Value, json};

use super::faults::{Fault, Faults};
use super::lines::for_each;
use super::workload::{Task, describe_tensors, tensors};
use super::{Import, Imported, physics};
use crate::error::Result;
use crate::identity::{PointKey, point_id, stable_hash};
use crate::row::{Essentials, finite};
use crate::schema::Row;
use crate::stats::median;
use crate::values::{CacheState, Decisions, DeviceKind, JsonText, Status};

/// The file with the records, inside the database's folder.
pub const RECORDS: &str = "database_tuning_record.json";
/// The file with the workloads.
pub const WORKLOADS: &str = "database_workload.json";

/// The time that means "not run", in s.
const NOT_RUN_S: f64 = 1e10;

/// Reads a database: its folder, or its file of records.
///
/// # Errors
/// Fails as [`Import::read`] does. The file of workloads is read strictly, because records name its lines by their
/// numbers.
pub(super) fn read(import: &Import) -> Result<Imported> {
    let path = &import.path;
    let records = if path.is_dir() {
        path.join(RECORDS)
    } else {
        path.to_owned()
    };
    let workloads = workload_hashes(&records.with_file_name(WORKLOADS))?;
    let folder = records.parent().and_then(Path::file_name).map_or_else(
        || "database".to_owned(),
        |n| n.to_string_lossy().into_owned(),
    );
    let run_id = format!("metaschedule-{folder}");
    let mut imported = Imported::default();
    let mut faults = Faults::new(import.strict);
    let mut ordinal = 0;
    for_each(&records, &mut faults, |_, value| {
        ordinal += 1;
        let record = DatabaseRecord::parse(&value, &workloads).map_err(Fault::record)?;
        let Some(device) = DeviceKind::of_target(record.target) else {
            imported.leave_out(format!(
                "the dataset has no device kind for target `{}`",
                record.target
            ));
            return Ok(());
        };
        let row = record.row(&run_id, ordinal, device);
        physics::check(&row, &record.times_ns())?;
        row.validate()
            .map_err(|error| Fault::record(error.to_string()))?;
        imported.rows.push(row);
        Ok(())
    })?;
    faults.finish(&records, imported)
}

fn workload_hashes(path: &Path) -> Result<Vec<String>> {
    let mut hashes = Vec::new();
    for_each(path, &mut Faults::new(true), |_, value| {
        let hash = value.get(0).map(|hash| match hash {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        hashes.push(hash.ok_or_else(|| Fault::record("no structural hash: this is no workload"))?);
        Ok(())
    })?;
    Ok(hashes)
}

struct DatabaseRecord<'a> {
    hash: &'a str,
    trace: &'a Value,
    times_s: Vec<f64>,
    target: &'a str,
    target_json: &'a Value,
    /// Arguments in AutoTVM's order, `["TENSOR", shape, dtype]`, which the reader of workloads knows.
    args: Vec<Value>,
}

impl<'a> DatabaseRecord<'a> {
    fn parse(value: &'a Value, workloads: &'a [String]) -> Result<Self, String> {
        let index = value
            .get(0)
            .and_then(Value::as_u64)
            .ok_or("no workload index")?;
        let hash = usize::try_from(index)
            .ok()
            .and_then(|index| workloads.get(index))
            .ok_or_else(|| {
                format!(
                    "workload {index} is not among the {} of {WORKLOADS}",
                    workloads.len()
                )
            })?;
        let [trace, times, target_json, args] = value
            .get(1)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
        else {
            return Err("expected [trace, run times, target, arguments]".to_owned());
        };
        let args = args
            .as_array()
            .ok_or("no list of arguments")?
            .iter()
            .map(|a| {
                Value::from(vec![
                    a.get(0).cloned().unwrap_or_default(),
                    a.get(2).cloned().unwrap_or_default(),
                    a.get(1).cloned().unwrap_or_default(),
                ])
            })
            .collect();
        let times = times.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            hash,
            trace,
            times_s: times.iter().filter_map(Value::as_f64).collect(),
            target: target_json
                .get("kind")
                .and_then(Value::as_str)
                .ok_or("the target has no kind")?,
            target_json,
            args,
        })
    }

    /// Run times, ns. Empty if it did not run, for which MetaSchedule writes 1e10 seconds.
    fn times_ns(&self) -> Vec<f64> {
        self.times_s
            .iter()
            .filter(|t| **t < NOT_RUN_S)
            .map(|t| t * 1e9)
            .collect()
    }

    /// The computing block: the first one in the trace whose name shows a kind.
    fn block(&self) -> &'a str {
        let names: Vec<&str> = self
            .trace
            .get(0)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .filter(|i| {
                matches!(
                    i.get(0).and_then(Value::as_str),
                    Some("GetBlock" | "GetSBlock")
                )
            })
            .filter_map(|i| i.get(2)?.get(0)?.as_str())
            .collect();
        names
            .iter()
            .copied()
            .find(|name| {
                ["conv", "dense", "matmul"]
                    .iter()
                    .any(|kind| name.contains(kind))
            })
            .or_else(|| names.first().copied())
            .unwrap_or("unknown")
    }

    fn row(&self, run_id: &str, ordinal: u64, device_kind: DeviceKind) -> Row {
        let block = self.block();
        let target = JsonText::from(self.target_json);
        let trace = JsonText::from(self.trace);
        let workload_hash = stable_hash(&[("structural_hash", self.hash)]);
        let point = point_id(&PointKey {
            workload: &workload_hash,
            schedule: trace.as_str(),
            target: target.as_str(),
            threads: 0,
            cache: CacheState::Hot,
            seed: 0,
        });
        let times_ns = self.times_ns();
        let mean = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
        let (status, reason) = if times_ns.is_empty() {
            (
                Status::Crashed,
                Some("MetaSchedule recorded no run time".to_owned()),
            )
        } else {
            (Status::Measured, None)
        };
        let mut row = Row {
            workload_hash: Some(workload_hash),
            target: Some(target),
            target_cpu: self
                .target_json
                .get("mcpu")
                .and_then(Value::as_str)
                .map(str::to_owned),
            schedule_space: Some("metaschedule".to_owned()),
            schedule_knobs: Some(knobs(self.trace)),
            schedule_trace: Some(trace),
            cache_state: Some(CacheState::Hot),
            tool_version: Some("metaschedule".to_owned()),
            reason,
            samples: (!times_ns.is_empty()).then_some(times_ns.len() as u64),
            time_median_ns: median(times_ns),
            time_mean_ns: finite(mean),
            ..Row::new(Essentials {
                run_id,
                ordinal,
                point_id: &point,
                op_name: block,
                op_kind: "other",
                device_kind,
                status,
            })
        };
        // The last argument is the output, which no task's argument list has.
        let inputs = &self.args[..self.args.len().saturating_sub(1)];
        describe_tensors(&mut row, &tensors(inputs));
        if let Some(workload) = Task::of_task(block, inputs) {
            workload.describe(&mut row);
        }
        row.fill_derived();
        row
    }
}

/// The decisions of a trace as the collector writes them for its own samples.
fn knobs(trace: &Value) -> JsonText {
    let mut knobs = json!(Decisions::of_trace(trace));
    knobs["template"] = json!("sampled");
    JsonText::from(&knobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"[0, [[[["GetBlock", [], ["T_matmul_NT", "main"], ["b0"]], ["SamplePerfectTile", ["l0"], [4, 64], []], ["SamplePerfectTile", ["l1"], [4, 64], []], ["SamplePerfectTile", ["l2"], [2, 64], []]], [[1, [1, 2, 1, 2]], [2, [4, 4, 1, 1]], [3, [4, 2]]]], [0.002, 0.001, 0.003], {"kind": "llvm", "mcpu": "skylake"}, [["TENSOR", "float32", [4, 8]], ["TENSOR", "float32", [16, 8]], ["TENSOR", "float32", [4, 16]]]]]"#;

    fn import(records: &str, workloads: &str) -> Result<Imported> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(RECORDS), records).unwrap();
        std::fs::write(path.join(WORKLOADS), workloads).unwrap();
        Import::new(crate::import::Format::Metaschedule, path).read()
    }

    #[test]
    fn records_become_rows() {
        let failed = RECORD.replace("[0.002, 0.001, 0.003]", "[10000000000.0]");
        let imported = import(&[RECORD, &failed].join("\n"), "[\"77\", {}]").unwrap();
        let [row, failure] = imported.rows.as_slice() else {
            panic!("two rows");
        };
        assert_eq!(
            (
                row.op_kind.as_str(),
                row.flops,
                row.time_median_ns,
                row.target_cpu.as_deref()
            ),
            ("dense", Some(2 * 4 * 8 * 16), Some(2e6), Some("skylake"))
        );
        assert_eq!(
            row.schedule_knobs.as_ref().map(JsonText::as_str),
            Some(
                r#"{"categories":[],"compute_locations":[],"template":"sampled","tiles":[[1,2,1,2],[4,4,1,1],[4,2]]}"#
            )
        );
        assert_eq!(row.row_id, "metaschedule-db.000001");
        assert_eq!(failure.status, Status::Crashed);
    }

    #[test]
    fn a_record_of_no_workload_is_an_error() {
        let error = import(RECORD, "").unwrap_err().to_string();
        assert!(
            error.ends_with("database_tuning_record.json:1: workload 0 is not among the 0 of database_workload.json"),
            "{error}"
        );
    }
}
