//! AutoTVM's log: one JSON object a line, as TVM 0.6 to 0.9 wrote it.
//!
//! Format 0.2 (0.7 on): `{"input": [target, task, args, kwargs], "config": {"index", "entity": [[knob, kind, value]…]},
//! "result": [costs in s, error, total s, unix time], "version", "tvm_version"}`. Format 0.1 (0.6): the same under `i`,
//! `r` and `v`, with the configuration (`i`, `t`, `c`, `e`) as the sixth part of `i`. Costs of a failed record are
//! 1e9 or the text of an error. Threads, environment and cache state are not in the log: its runs repeat the kernel on
//! the same arguments, so they count as `hot`.

use std::path::Path;

use serde_json::{Map, Value};

use super::Imported;
use super::lines::{for_each, record_error};
use super::workload::{Workload, describe_tensors, tensors};
use crate::error::Result;
use crate::identity::{PointKey, point_id, stable_hash};
use crate::row::{Essentials, finite};
use crate::schema::Row;
use crate::stats::median_of_sorted;
use crate::values::{CacheState, DeviceKind, JsonText, Status, Timestamp};

/// Reads a log, gzipped or not.
///
/// # Errors
/// The file cannot be read, or a line is not a record of format 0.1 or 0.2.
pub fn read(path: &Path) -> Result<Imported> {
    let mut imported = Imported::default();
    let run_id = run_id(path);
    let mut ordinal = 0;
    for_each(path, |line, value| {
        ordinal += 1;
        let record = Record::parse(&value).map_err(|detail| record_error(path, line, detail))?;
        let Some(device) = device_kind(&record.target) else {
            let name = record.target.split_whitespace().next().unwrap_or_default();
            imported.leave_out(format!(
                "the dataset has no device kind for target `{name}`"
            ));
            return Ok(());
        };
        let row = record.row(&run_id, ordinal, device);
        row.validate()
            .map_err(|error| record_error(path, line, error.to_string()))?;
        imported.rows.push(row);
        Ok(())
    })?;
    Ok(imported)
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

fn device_kind(target: &str) -> Option<DeviceKind> {
    match target.split_whitespace().next()? {
        "llvm" | "c" => Some(DeviceKind::Cpu),
        "cuda" => Some(DeviceKind::Cuda),
        "ext_dev" => Some(DeviceKind::Pynq),
        _ => None,
    }
}

/// One line, taken apart.
struct Record<'a> {
    /// As text: the kind first, then options.
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

impl<'a> Record<'a> {
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
        let workload = Workload::of_task(self.task, self.args);
        let identity = workload
            .as_ref()
            .map_or_else(|| Value::from(self.args).to_string(), Workload::identity);
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
            target: target.as_str(),
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
        if row.device_kind == DeviceKind::Cpu {
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
mod tests {
    use super::*;
    use std::io::Write;

    const GOOD: &str = r#"{"input": ["cuda -keys=cuda,gpu -arch=sm_75", "dense_large_batch.gpu", [["TENSOR", [128, 768], "float32"], ["TENSOR", [3072, 768], "float32"], null, "float32"], {}], "config": {"index": 604, "code_hash": null, "entity": [["tile_x", "sp", [-1, 16, 2, 1]], ["tile_y", "sp", [-1, 8, 2, 4]], ["tile_k", "sp", [-1, 4, 2]]]}, "result": [[0.003, 0.001, 0.002], 0, 1.4, 1662426967.796445], "version": 0.2, "tvm_version": "0.8.0"}"#;
    const FAILED: &str = r#"{"input": ["llvm -mcpu=core-avx2", "mystery.x86", [["TENSOR", [4, 4], "int8"]], {}], "config": {"index": 1, "code_hash": null, "entity": []}, "result": [["Traceback\n  File\nTVMError: too many registers\n"], 4, 1.6, 1654740117.3], "version": 0.2, "tvm_version": "0.9.dev0"}"#;
    const OLD: &str = r#"{"i": ["llvm", "topi_nn_conv2d", [["TENSOR", [1, 64, 56, 56], "float32"], ["TENSOR", [64, 64, 1, 1], "float32"], [1, 1], [0, 0], [1, 1], "NCHW", "float32"], {}, ["conv2d"], {"i": 3, "t": "direct", "c": null, "e": [["tile_ic", "sp", [4, 16]], ["tile_oc", "sp", [4, 16]], ["tile_ow", "sp", [8, 7]], ["tile_oh", "ot", 1]]}], "r": [[0.0001], 0, 0.5, 1600000000.0], "v": 0.1}"#;
    const FOREIGN: &str = r#"{"input": ["opencl -device=mali", "dense", [], {}], "config": {"entity": []}, "result": [[0.1], 0, 1, 2], "version": 0.2}"#;

    fn import(text: &str) -> Result<Imported> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.log");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn records_of_both_formats_become_rows() {
        let imported = import(&[GOOD, "", FAILED, OLD, FOREIGN].join("\n")).unwrap();
        let shown: Vec<String> = imported
            .rows
            .iter()
            .map(|row| {
                format!(
                    "{} {} {} {} flops {:?} read {:?} median {:?} of {:?}; tiles {:?} {:?}; {}",
                    row.row_id,
                    row.device_kind,
                    row.op_kind,
                    row.status,
                    row.flops,
                    row.bytes_read,
                    row.time_median_ns,
                    row.samples,
                    row.knob_tile_spatial,
                    row.knob_tile_reduction,
                    row.reason.as_deref().unwrap_or("-"),
                )
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        autotvm-tune.000001 cuda dense measured flops Some(603979776) read Some(9830400) median Some(2000000.0) of Some(3); tiles Some("64x32") Some("8"); -
        autotvm-tune.000002 cpu other crashed flops None read Some(16) median None of None; tiles None None; AutoTVM error 4: it failed on the device: TVMError: too many registers
        autotvm-tune.000003 cpu conv2d measured flops Some(25690112) read Some(819200) median Some(100000.0) of Some(1); tiles Some("16x7") Some("16"); -
        "#);
        insta::assert_snapshot!(format!("{:?}", imported.left_out), @r#"{"the dataset has no device kind for target `opencl`": 1}"#);
        assert_eq!(imported.rows[1].target_cpu.as_deref(), Some("core-avx2"));
        assert_eq!(
            imported.rows[2].loop_nest.as_ref().unwrap().to_string(),
            "nn:1:s,ff:64:s,yy:56:s,xx:56:s,rc:64:r,ry:1:r,rx:1:r"
        );
    }

    #[test]
    fn spellings_of_the_same_arguments_are_one_workload() {
        let shorter = GOOD.replace(", null, \"float32\"]", "]");
        assert_ne!(shorter, GOOD);
        let rows = import(&[GOOD, &shorter].join("\n")).unwrap().rows;
        assert_eq!(rows[0].workload_hash, rows[1].workload_hash);
        assert_eq!(rows[0].point_id, rows[1].point_id);
    }

    #[test]
    fn compressed_logs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.jsonl.gz");
        let mut encoder = flate2::write::GzEncoder::new(
            std::fs::File::create(&path).unwrap(),
            flate2::Compression::fast(),
        );
        writeln!(encoder, "{GOOD}").unwrap();
        encoder.finish().unwrap();
        let rows = read(&path).unwrap().rows;
        assert_eq!(rows[0].row_id, "autotvm-tune.000001");
    }

    #[test]
    fn what_is_no_record_is_named_with_its_line() {
        let message = |text: &str| {
            let text = import(text).unwrap_err().to_string();
            text.split_once("tune.log").unwrap().1.to_owned()
        };
        insta::assert_snapshot!(
            [
                message("{\"input\":"),
                message("{\"a\": 1}"),
                message(&[GOOD, "[]"].join("\n")),
                message(&GOOD.replace("[0.003, 0.001, 0.002]", "[]")),
                message(&GOOD.replace("[\"tile_x\", \"sp\", [-1, 16, 2, 1]]", "7")),
            ]
            .join("\n"),
            @"
        :1: not JSON in one line: EOF while parsing a value at column 9
        :1: no list `input`: this is not an AutoTVM record
        :2: no list `input`: this is not an AutoTVM record
        :1: a record without error needs costs above 0
        :1: `7` is no knob: expected [name, kind, value]
        "
        );
    }
}
