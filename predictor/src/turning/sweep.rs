//! Series of times over an axis, from CSV files (gzipped or not) with one measurement a line.
//!
//! The axis is the column that starts with `threads` (a second one starts with `log2`). The time is the first with
//! `time` or `latency` in its name. All columns of text tell the sweeps apart.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use opdata::stats::median;

use crate::error::{Error, Result};

/// Fewer points show no turn.
pub const LEAST_POINTS: usize = 5;

/// Times over one axis, ascending, each value once.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Name of the sweep: model, operator.
    pub name: String,
    /// Name of the device; sweeps of the same device inform each other.
    pub device: String,
    /// Name of the axis.
    pub axis: String,
    /// Values of the axis.
    pub x: Vec<f64>,
    /// Times, in the file's unit.
    pub time: Vec<f64>,
}

impl Sweep {
    /// Sorts, and takes the median of values that were measured more than once.
    pub fn new(name: String, device: String, axis: &str, points: Vec<(f64, f64)>) -> Self {
        let mut by_x: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for (x, time) in points {
            by_x.entry(x.to_bits())
                .or_insert_with(|| (x, Vec::new()))
                .1
                .push(time);
        }
        let mut merged: Vec<(f64, f64)> = by_x
            .into_values()
            .filter_map(|(x, times)| Some((x, median(times)?)))
            .collect();
        merged.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (x, time) = merged.into_iter().unzip();
        Self {
            name,
            device,
            axis: axis.to_owned(),
            x,
            time,
        }
    }

    /// Position of the shortest time.
    pub fn best(&self) -> usize {
        (0..self.time.len())
            .min_by(|&a, &b| self.time[a].total_cmp(&self.time[b]))
            .unwrap_or(0)
    }

    /// Time at a position over the shortest time, at least 1.
    pub fn ratio(&self, position: usize) -> f64 {
        self.time[position] / self.time[self.best()]
    }
}

/// Reads sweeps from a CSV file, gzipped or not. With two axes, each gives a sweep of medians over the other one.
///
/// # Errors
/// Fails if the file cannot be read, lacks an axis or a time, or has a number that is not positive.
pub fn read(path: &Path) -> Result<Vec<Sweep>> {
    let damaged = |detail: String| Error::File(format!("{}: {detail}", path.display()));
    let bytes = plain_bytes(path).map_err(|e| damaged(format!("it cannot be read: {e}")))?;
    let table = Table::read(&bytes).map_err(damaged)?;
    let sweeps = table.sweeps();
    if sweeps.is_empty() {
        return Err(damaged(format!(
            "no sweep has {LEAST_POINTS} values of its axis"
        )));
    }
    Ok(sweeps)
}

/// The bytes of a file, unpacked if it is gzipped.
fn plain_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opdata::open_regular(path)?.read_to_end(&mut bytes)?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut plain)?;
    Ok(plain)
}

/// A CSV file of sweeps.
struct Table {
    /// Name of the axis.
    axis: String,
    /// Name of the second axis, whose values are base-2 logarithms.
    second: Option<String>,
    /// Axis, second axis (NaN if it has none) and time of every line, by device and name.
    groups: BTreeMap<(String, String), Vec<[f64; 3]>>,
}

impl Table {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = csv::Reader::from_reader(bytes);
        let names: Vec<String> = reader
            .headers()
            .map_err(|e| e.to_string())?
            .iter()
            .map(str::to_owned)
            .collect();
        let find = |fits: &dyn Fn(&str) -> bool| names.iter().position(|n| fits(&n.to_lowercase()));
        let axis = find(&|n| n.starts_with("threads")).ok_or("no column starts with `threads`")?;
        let time = find(&|n| n.contains("time") || n.contains("latency"))
            .ok_or("no column has `time` or `latency` in its name")?;
        let second = find(&|n| n.starts_with("log2"));
        let mut groups: BTreeMap<(String, String), Vec<[f64; 3]>> = BTreeMap::new();
        for (number, record) in reader.records().enumerate() {
            let line = number + 2;
            let record = record.map_err(|e| e.to_string())?;
            let number = |column: usize| {
                let text = record.get(column).unwrap_or_default();
                let number = text.parse::<f64>().ok();
                number
                    .filter(|v| v.is_finite() && *v >= 0.0)
                    .ok_or_else(|| {
                        format!(
                            "line {line}: `{text}` in column {} is no number",
                            names[column]
                        )
                    })
            };
            let other = match second {
                Some(column) if record.get(column).is_some_and(|t| !t.is_empty()) => {
                    number(column)?
                }
                _ => f64::NAN,
            };
            let labels = (0..names.len())
                .filter(|c| *c != axis && *c != time && Some(*c) != second)
                .filter_map(|c| record.get(c));
            let time = number(time)?;
            if time <= 0.0 {
                return Err(format!("line {line}: a time of 0"));
            }
            groups
                .entry(device_and_name(&labels.collect::<Vec<_>>()))
                .or_default()
                .push([number(axis)?, other, time]);
        }
        Ok(Self {
            axis: names[axis].clone(),
            second: second.map(|column| names[column].clone()),
            groups,
        })
    }

    /// The sweeps with enough points.
    fn sweeps(self) -> Vec<Sweep> {
        let mut sweeps = Vec::new();
        for ((device, name), points) in self.groups {
            let grid = points.iter().any(|p| p[1].is_finite());
            let along = |place: usize| points.iter().map(|p| (p[place], p[2])).collect::<Vec<_>>();
            if let (true, Some(second)) = (grid, &self.second) {
                sweeps.push(Sweep::new(name.clone(), device.clone(), second, along(1)));
            }
            sweeps.push(Sweep::new(name, device, &self.axis, along(0)));
        }
        sweeps.retain(|s| s.x.len() >= LEAST_POINTS);
        sweeps
    }
}

/// The last label of a line is its device, those before it are its name.
fn device_and_name(labels: &[&str]) -> (String, String) {
    match labels.split_last() {
        Some((device, rest)) if !rest.is_empty() => ((*device).to_owned(), rest.join(" ")),
        Some((only, _)) => (String::new(), (*only).to_owned()),
        None => (String::new(), "sweep".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_sweeps_and_grids_one_for_each_axis() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweeps.csv");
        let mut text = "model,device,threads,log2warp,total_time\n".to_owned();
        for x in 1..=5 {
            text.push_str(&format!("net,cpu,{x},,{}\n", 100 / x));
            for y in 0..5 {
                text.push_str(&format!("net,gpu,{x},{y},{}\n", 10 * x + y));
            }
        }
        text.push_str("net,cpu,5,,30\n");
        std::fs::write(&path, &text).unwrap();
        let sweeps = read(&path).unwrap();
        let shown: Vec<String> = sweeps
            .iter()
            .map(|s| format!("{} {} {} {:?} {:?}", s.device, s.name, s.axis, s.x, s.time))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        cpu net threads [1.0, 2.0, 3.0, 4.0, 5.0] [100.0, 50.0, 33.0, 25.0, 25.0]
        gpu net log2warp [0.0, 1.0, 2.0, 3.0, 4.0] [30.0, 31.0, 32.0, 33.0, 34.0]
        gpu net threads [1.0, 2.0, 3.0, 4.0, 5.0] [12.0, 22.0, 32.0, 42.0, 52.0]
        ");
        std::fs::write(&path, text.replace("100", "fast")).unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("line 2: `fast`")
        );
        std::fs::write(&path, "model,time\n").unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("starts with `threads`")
        );
    }
}
