//! CSV tables of shapes and times, as NeuSight, DeepBench and others publish them; one kernel a line.
//!
//! Columns are known by name, in any order and case; others are ignored:
//!
//! | columns | meaning |
//! | --- | --- |
//! | `time_ms`, `latency_ms` (or `_s`, `_us`, `_ns`) | time of one run; required. Beside other columns of times (`time_std_ms`) this one counts. Without it, a single column with words between counts (`time_mean_ms`) |
//! | `device`, `gpu`, `machine` | name of the machine |
//! | `device_kind` | `cpu` or `cuda`; otherwise found by the name |
//! | `op`, `opname`, `operator` | what is computed; otherwise found by the other columns |
//! | `m`, `n`, `k`, `b` | a product of m × k and k × n; with `bmm` one for each of `b`. Beside `opname`, which is NeuSight's, one of m × n and n × k, as there |
//! | `b`, `input_channel`, `output_channel`, `kernel_size`, `input_size`, `stride`, `padding` | a square convolution |
//! | `b`, `h` | an element-wise operator, softmax or layer norm of b rows of h values |
//! | `dtype` | as TVM writes it, or a word such as `FP16`; otherwise found by the words of `precision` or `sheet` (`FP16`, `mixed`, `int8`); `float32` if left out |
//! | `ta`, `tb` | `N` or `T`: whether the operands of a product are transposed, which makes it another operator |
//!
//! The schedule is the vendor library's (`schedule_space` is `library`), so knobs are missing.

use std::path::Path;

use csv::StringRecord;
use serde_json::{Value, json};

use self::columns::{Columns, DEVICE, OPERATOR};
use super::faults::{Fault, Faults, Kind, shown};
use super::workload::{Task, describe_tensors, tensors};
use super::{Import, Imported, lines, physics};
use crate::error::{Error, Result};
use crate::identity::{PointKey, point_id, stable_hash};
use crate::row::Essentials;
use crate::schema::Row;
use crate::values::{CacheState, DeviceKind, Dims, JsonText, Loop, LoopKind, Shapes, Status};

/// Devices that lines are left out of by name at most; a table may have one in each of a million lines.
const NAMED_DEVICES: usize = 10;
/// What to do if a device has no kind.
const TELL_KIND: &str = "a column `device_kind` (cpu, cuda) tells it";

/// Types of values as TVM writes them.
#[rustfmt::skip]
const DTYPES: [&str; 13] = [
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32",
    "int16", "int8", "int4", "uint8", "bool",
];

/// Reads a table, gzipped or not.
///
/// # Errors
/// Fails as [`Import::read`] does, or if the header has no column of times.
pub(super) fn read(import: &Import) -> Result<Imported> {
    let path = &import.path;
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .comment(Some(b'#'))
        .from_reader(lines::open(path)?);
    let header = reader
        .headers()
        .map_err(|error| fault_of_csv(path, &error))?;
    let columns = Columns::of(header).map_err(|detail| Error::Record {
        path: path.to_owned(),
        line: 1,
        detail,
    })?;
    let run_id = run_id(path);
    let mut imported = Imported::default();
    let mut faults = Faults::new(import.strict);
    let mut record = StringRecord::new();
    for ordinal in 1.. {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let detail = format!("not a line of CSV: {error}");
                let is_end = error.is_io_error();
                let kind = if is_end { Kind::Cut } else { Kind::Syntax };
                faults.add(path, line, Fault { kind, detail })?;
                if is_end {
                    break;
                }
                continue;
            }
        }
        let cells = Cells {
            columns: &columns,
            record: &record,
        };
        match cells.row(&run_id, ordinal) {
            Ok(Some(row)) => imported.rows.push(row),
            Ok(None) => {
                let device = cells.text(&DEVICE).unwrap_or_default();
                let reason = no_device_kind(device);
                let is_new = !imported.left_out.contains_key(&reason);
                let is_one_of_many = is_new && imported.left_out.len() >= NAMED_DEVICES;
                imported.leave_out(match is_one_of_many {
                    true => format!("the dataset has no device kind for other names; {TELL_KIND}"),
                    false => reason,
                });
            }
            Err(fault) => {
                let line = record.position().map_or(line, csv::Position::line);
                faults.add(path, line, fault)?;
            }
        }
    }
    faults.finish(path, imported)
}

/// Why a line's device is left out.
fn no_device_kind(device: &str) -> String {
    let why = if device.is_empty() {
        "no device is named".to_owned()
    } else {
        format!("the dataset has no device kind for `{}`", shown(device))
    };
    format!("{why}; {TELL_KIND}")
}

fn fault_of_csv(path: &Path, error: &csv::Error) -> Error {
    let detail = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => {
            "the text is not in UTF-8: save the table as UTF-8".to_owned()
        }
        csv::ErrorKind::Io(error) => format!("the compressed data is damaged: {error}"),
        _ => format!("no header of CSV: {error}"),
    };
    Error::Record {
        path: path.to_owned(),
        line: 1,
        detail,
    }
}

fn run_id(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.trim_end_matches(".gz").trim_end_matches(".csv");
    format!("table-{stem}")
}

/// A line of the table.
struct Cells<'a> {
    columns: &'a Columns,
    record: &'a StringRecord,
}

/// The computation of a line: a task and its arguments as AutoTVM has them, or rows of values.
enum Computed {
    Task(&'static str, Vec<Value>),
    Rows {
        kind: &'static str,
        shape: [u64; 2],
        operands: usize,
    },
}

impl Cells<'_> {
    /// The first of these columns that has a text.
    fn text(&self, names: &[&str]) -> Option<&str> {
        names
            .iter()
            .filter_map(|name| self.record.get(self.columns.place(name)?))
            .map(str::trim)
            .find(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> std::result::Result<u64, Fault> {
        let text = self
            .text(&[name])
            .ok_or_else(|| Fault::record(format!("no value in column `{name}`")))?;
        // Some tables write whole numbers as 64.0.
        let value = text.strip_suffix(".0").unwrap_or(text).parse().ok();
        value
            .filter(|n| *n > 0 || name == "padding")
            .ok_or_else(|| Fault::record(format!("`{text}` in column `{name}` is no count")))
    }

    fn has(&self, name: &str) -> bool {
        self.text(&[name]).is_some()
    }

    /// The row. `None` if the dataset has no kind for the device.
    fn row(&self, run_id: &str, ordinal: u64) -> std::result::Result<Option<Row>, Fault> {
        let (place, unit_ns) = self.columns.time;
        let text = self.record.get(place).unwrap_or_default().trim();
        let time_ns = match text.parse::<f64>() {
            Ok(time) if time.is_finite() && time > 0.0 => time * unit_ns,
            _ => return Err(Fault::record(format!("`{text}` is no time above 0"))),
        };
        let device = self.text(&DEVICE);
        let Some(device_kind) = self.device_kind(device)? else {
            return Ok(None);
        };
        let op_name = self.op_name()?;
        let op_name = op_name.as_str();
        let dtype = self.dtype()?;
        let computed = self.computed(op_name, dtype)?;
        let mut row = Row {
            target: Some(JsonText::from(&Value::from(device_kind.as_str()))),
            env_hash: device.map(str::to_owned),
            schedule_space: Some("library".to_owned()),
            cache_state: Some(CacheState::Hot),
            tool_version: Some("table".to_owned()),
            time_median_ns: Some(time_ns),
            ..Row::new(Essentials {
                run_id,
                ordinal,
                point_id: "",
                op_name,
                op_kind: "other",
                device_kind,
                status: Status::Measured,
            })
        };
        describe(&mut row, &computed, dtype);
        let shapes = |shapes: &Option<_>| {
            shapes
                .as_ref()
                .map_or_else(String::new, |s: &Shapes| s.to_string())
        };
        let dims =
            |dims: &Option<Dims>| dims.as_ref().map_or_else(String::new, ToString::to_string);
        let workload = stable_hash(&[
            ("kind", &row.op_kind),
            ("name", op_name),
            ("inputs", &shapes(&row.input_shapes)),
            ("weights", &shapes(&row.weight_shapes)),
            ("stride", &dims(&row.stride)),
            ("padding", &dims(&row.padding)),
            ("dtype", dtype),
        ]);
        row.point_id = point_id(&PointKey {
            workload: &workload,
            schedule: "library",
            target: device.unwrap_or(device_kind.as_str()),
            threads: 0,
            cache: CacheState::Hot,
            seed: 0,
        });
        row.workload_hash = Some(workload);
        physics::check(&row, &[time_ns])?;
        row.fill_derived();
        row.validate()
            .map_err(|error| Fault::record(error.to_string()))?;
        Ok(Some(row))
    }

    /// Reads the data type from its column, else from the words that name a sheet of results.
    fn dtype(&self) -> std::result::Result<&'static str, Fault> {
        const WORDS: [(&str, &str); 7] = [
            ("int8", "int8"),
            ("bf16", "bfloat16"),
            ("fp16", "float16"),
            ("half", "float16"),
            ("mixed", "float16"),
            ("fp32", "float32"),
            ("fp64", "float64"),
        ];
        let by_word = |text: &str| {
            let known = WORDS.iter().find(|(word, _)| text.contains(word));
            known.map(|(_, dtype)| *dtype)
        };
        let Some(text) = self.text(&["dtype"]) else {
            let text = self.text(&["precision", "sheet"]).unwrap_or_default();
            return Ok(by_word(&text.to_ascii_lowercase()).unwrap_or("float32"));
        };
        let lower = text.to_ascii_lowercase();
        let known = DTYPES.into_iter().find(|dtype| **dtype == lower);
        known.or_else(|| by_word(&lower)).ok_or_else(|| {
            Fault::record(format!(
                "`{text}` in column `dtype` is no type of values (float32, float16, int8, …)"
            ))
        })
    }

    /// The name of the computation, with the transpositions of a product's operands.
    fn op_name(&self) -> std::result::Result<String, Fault> {
        let name = self.text(&OPERATOR).unwrap_or("dense");
        let mut transposed = String::new();
        for column in ["ta", "tb"] {
            match self.text(&[column]).map(str::to_ascii_lowercase) {
                Some(text) if text == "n" || text == "t" => transposed += &text,
                None => {}
                Some(text) => {
                    let detail = format!("`{text}` in column `{column}` is neither N nor T");
                    return Err(Fault::record(detail));
                }
            }
        }
        Ok(if transposed.is_empty() {
            name.to_owned()
        } else {
            format!("{name}_{transposed}")
        })
    }

    /// Takes the kind from its column, else from words in the machine's name.
    fn device_kind(&self, device: Option<&str>) -> std::result::Result<Option<DeviceKind>, Fault> {
        const CUDA: [&str; 10] = [
            "nvidia", "nv_", "tesla", "geforce", "quadro", "rtx", "gtx", "titan", "a100", "h100",
        ];
        const CPU: [&str; 6] = ["cpu", "intel", "xeon", "epyc", "ryzen", "ia_"];
        if let Some(text) = self.text(&["device_kind"]) {
            return text.parse().map(Some).map_err(Fault::record);
        }
        let name = device.unwrap_or_default().to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        Ok(if has(&CUDA) {
            Some(DeviceKind::CUDA)
        } else {
            has(&CPU).then_some(DeviceKind::CPU)
        })
    }

    fn computed(&self, op_name: &str, dtype: &str) -> std::result::Result<Computed, Fault> {
        let op = op_name.to_ascii_lowercase();
        let tensor = |shape: &[u64]| json!(["TENSOR", shape, dtype]);
        if self.has("kernel_size") {
            let n = |name| self.number(name);
            let (size, kernel) = (n("input_size")?, n("kernel_size")?);
            let (stride, padding) = (n("stride")?, n("padding")?);
            let (inputs, outputs) = (n("input_channel")?, n("output_channel")?);
            if kernel > size + 2 * padding {
                return Err(Fault::record(format!(
                    "a kernel of {kernel} does not fit an input of {size} padded by {padding}"
                )));
            }
            return Ok(Computed::Task(
                "conv2d_nchw",
                vec![
                    tensor(&[n("b")?, inputs, size, size]),
                    tensor(&[outputs, inputs, kernel, kernel]),
                    json!([stride, stride]),
                    json!([padding, padding, padding, padding]),
                    json!([1, 1]),
                ],
            ));
        }
        if self.has("k") {
            let m = self.number("m")?;
            // NeuSight names what is summed over `N`: `Linear(n, k)`.
            let (n, k) = if self.columns.place("opname").is_some() {
                (self.number("k")?, self.number("n")?)
            } else {
                (self.number("n")?, self.number("k")?)
            };
            let b = if self.has("b") { self.number("b")? } else { 1 };
            if op.contains("bmm") || op.contains("batch") {
                let operands = vec![tensor(&[b, m, k]), tensor(&[b, n, k])];
                return Ok(Computed::Task("batch_matmul", operands));
            }
            let rows = b
                .checked_mul(m)
                .ok_or_else(|| Fault::record("too many rows"))?;
            let operands = vec![tensor(&[rows, k]), tensor(&[n, k])];
            return Ok(Computed::Task("dense", operands));
        }
        if self.has("b") && self.has("h") {
            let kind = match op.as_str() {
                "softmax" => "softmax",
                "ln" | "layernorm" | "layer_norm" => "layer_norm",
                _ => "elementwise",
            };
            // `addu` and its kin take one tensor and a number.
            let binary = ["add", "sub", "mul", "div", "pow"].contains(&op.as_str());
            return Ok(Computed::Rows {
                kind,
                shape: [self.number("b")?, self.number("h")?],
                operands: 1 + usize::from(binary),
            });
        }
        Err(Fault::record(
            "neither m, n, k, nor kernel_size, nor b and h: its shape is not known",
        ))
    }
}

fn describe(row: &mut Row, computed: &Computed, dtype: &str) {
    match computed {
        Computed::Task(task, args) => {
            describe_tensors(row, &tensors(args));
            if let Some(workload) = Task::of_task(task, args) {
                workload.describe(row);
            }
        }
        Computed::Rows {
            kind,
            shape,
            operands,
        } => {
            let operand = json!(["TENSOR", shape, dtype]);
            let mut all = tensors(&vec![operand; *operands]);
            describe_tensors(row, &all);
            // Reads are counted; the second operand is not a weight.
            row.weight_shapes = None;
            row.input_shapes = Some(all.iter().map(|t| Dims::from(t.shape.as_slice())).collect());
            all.truncate(1);
            row.output_shapes = Some(all.iter().map(|t| Dims::from(t.shape.as_slice())).collect());
            row.op_kind = (*kind).to_owned();
            // About: maximum, difference, exponential, sum and quotient; a mean, a variance, scale and shift.
            let per_element = match *kind {
                "softmax" => 5,
                "layer_norm" => 8,
                _ => 1,
            };
            let elements = shape[0].checked_mul(shape[1]);
            row.flops = elements.and_then(|n| n.checked_mul(per_element));
            row.bytes_written = row.bytes_read.map(|read| read / *operands as u64);
            let loops = [("rows", shape[0]), ("columns", shape[1])];
            let spatial = |(name, extent): (&str, u64)| Loop::new(name, extent, LoopKind::Spatial);
            row.loop_nest = Some(loops.into_iter().map(spatial).collect());
        }
    }
}

mod columns;
#[cfg(test)]
mod tests;
