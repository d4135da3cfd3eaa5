//! Measurements of boards: AutoTVM's log of the task `conv2d_packed.vta`, and the flat JSON lines that OpBench derived from it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::config::Config;
use crate::file::check_regular;
use crate::workload::Workload;

/// Longest line of a log, bytes.
const MAX_LINE: u64 = 1 << 20;

/// The outcome of a configuration on the board.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It ran; the time of a run, seconds.
    Ran(f64),
    /// The configuration could not be compiled.
    NotCompiled,
    /// The board or the connection failed, so the configuration's outcome is unknown.
    Unknown,
}

/// A configuration that was tried on a board.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// The workload.
    pub workload: Workload,
    /// The configuration.
    pub config: Config,
    /// Its outcome.
    pub outcome: Outcome,
}

/// A log that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// The records, in order.
    pub records: Vec<LogRecord>,
    /// Lines that are of other tasks or devices.
    pub others: u64,
    /// Lines that are no record at all.
    pub damaged: u64,
}

/// A workload's measurements: the median of each configuration that ran.
pub type Tasks = BTreeMap<Workload, BTreeMap<Config, f64>>;

impl Log {
    /// Reads a log, gzipped or not.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has no record of VTA.
    pub fn read(path: &Path) -> std::io::Result<Log> {
        check_regular(path)?;
        let mut file = std::fs::File::open(path)?;
        let mut magic = [0; 2];
        let is_gzip = file.read(&mut magic)? == 2 && magic == [0x1f, 0x8b];
        let file = std::fs::File::open(path)?;
        let reader: Box<dyn Read> = match is_gzip {
            true => Box::new(MultiGzDecoder::new(file)),
            false => Box::new(file),
        };
        let mut reader = BufReader::new(reader);
        let mut log = Log::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader
                .by_ref()
                .take(MAX_LINE)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice::<Value>(&line) {
                Err(_) => log.damaged += 1,
                Ok(value) => match flat(&value).or_else(|| autotvm(&value)) {
                    Some(record) => log.records.push(record),
                    None => log.others += 1,
                },
            }
        }
        match log.records.is_empty() {
            false => Ok(log),
            true => Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!(
                    "no line of it is a convolution on VTA ({} of other tasks, {} damaged); \
                     give AutoTVM's log of conv2d_packed.vta",
                    log.others, log.damaged
                ),
            )),
        }
    }

    /// The median time of each configuration that ran, by workload, seconds.
    pub fn tasks(&self) -> Tasks {
        let mut times: BTreeMap<Workload, BTreeMap<Config, Vec<f64>>> = BTreeMap::new();
        for record in &self.records {
            if let Outcome::Ran(seconds) = record.outcome {
                let task = times.entry(record.workload).or_default();
                task.entry(record.config).or_default().push(seconds);
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let of_task = |configs: BTreeMap<Config, Vec<f64>>| {
            configs
                .into_iter()
                .map(|(c, all)| (c, median(all)))
                .collect()
        };
        times
            .into_iter()
            .map(|(w, configs)| (w, of_task(configs)))
            .collect()
    }
}

fn ran(seconds: f64) -> Option<Outcome> {
    (seconds.is_finite() && seconds > 0.0 && seconds < 1e4).then_some(Outcome::Ran(seconds))
}

fn list<const N: usize>(value: &Value) -> Option<[u64; N]> {
    let numbers = value.as_array()?.iter().map(Value::as_u64);
    numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
}

/// `data` is `[N/n, C/c, H, W, n, c]`, `kernel` `[O/o, C/c, KH, KW, o, c]`.
fn workload(
    data: [u64; 6],
    kernel: [u64; 6],
    stride: [u64; 2],
    padding: [u64; 2],
) -> Option<Workload> {
    Some(Workload {
        batch: data[0].checked_mul(data[4])?,
        in_channels: data[1].checked_mul(data[5])?,
        height: data[2],
        width: data[3],
        out_channels: kernel[0].checked_mul(kernel[4])?,
        kernel: [kernel[2], kernel[3]],
        stride,
        padding,
    })
}

/// `{"data": […], "kernel": […], "stride", "pad", knobs…, "outcome", "seconds"}`.
fn flat(value: &Value) -> Option<LogRecord> {
    let [top, left, bottom, right] = list(&value["pad"])?;
    if (top, left) != (bottom, right) {
        return None;
    }
    let mut config = Config::ONES;
    for (knob, _) in Config::ONES.knobs() {
        config.set(knob, value[knob].as_u64()?);
    }
    let outcome = match value["outcome"].as_str()? {
        "ok" => ran(value["seconds"].as_f64()?)?,
        "compile_failed" => Outcome::NotCompiled,
        _ => Outcome::Unknown,
    };
    let (data, kernel) = (list(&value["data"])?, list(&value["kernel"])?);
    Some(LogRecord {
        workload: workload(data, kernel, list(&value["stride"])?, [top, left])?,
        config,
        outcome,
    })
}

/// Format 0.2 of AutoTVM: `{"input": [target, task, args, kwargs], "config": {"entity": […]}, "result": [costs, error, …]}`.
fn autotvm(value: &Value) -> Option<LogRecord> {
    let input = value["input"].as_array()?;
    if input.get(1)?.as_str()? != "conv2d_packed.vta" {
        return None;
    }
    let args = input.get(2)?.as_array()?;
    let [data, kernel] = [0, 1].map(|i| args.get(i).and_then(|tensor| list(&tensor[1])));
    let padding: [u64; 4] = list(args.get(3)?)?;
    let (padding, both) = ([padding[0], padding[1]], [padding[2], padding[3]]);
    let dilation: [u64; 2] = list(args.get(4)?)?;
    if padding != both || dilation != [1, 1] {
        return None;
    }
    let mut config = Config::ONES;
    for entity in value["config"]["entity"].as_array()? {
        let (knob, value) = (entity[0].as_str()?, &entity[2]);
        let value = match value {
            // The sizes of the outer and the inner part.
            Value::Array(parts) => parts.last()?.as_u64()?,
            other => other.as_u64()?,
        };
        config.set(knob, value);
    }
    let result = value["result"].as_array()?;
    let costs: Vec<f64> = result
        .first()?
        .as_array()?
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    let outcome = match result.get(1)?.as_u64()? {
        0 => ran(costs.iter().sum::<f64>() / costs.len() as f64)?,
        1..=3 => Outcome::NotCompiled,
        _ => Outcome::Unknown,
    };
    Some(LogRecord {
        workload: workload(data?, kernel?, list(args.get(2)?)?, padding)?,
        config,
        outcome,
    })
}
