//! Factors of measured rows: the number of threads and the numbers of a schedule. Rows that differ in one factor alone
//! show its effect.

use std::collections::{BTreeMap, BTreeSet};

use opdata::Row;
use opdata::stats::median;
use serde_json::{Map, Value};

use super::sweep::{LEAST_POINTS, Sweep};

/// A measured row as its factors.
struct Point {
    /// Device and operator with its shapes.
    workload: (String, String),
    /// What must be equal besides the other factors: workload, target, cache state, and knobs that are no numbers.
    rest: String,
    /// Every factor by name.
    factors: BTreeMap<String, f64>,
    /// Median time, ns.
    time: f64,
}

/// Rows of one workload that differ in one factor alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Device and operator with its shapes.
    pub workload: (String, String),
    /// Value of the factor and time in ns, ascending, each value once.
    pub points: Vec<(f64, f64)>,
}

/// Measured rows, ready to be asked about factors.
pub struct Points(Vec<Point>);

impl Points {
    /// The rows that have a time.
    pub fn new(rows: &[Row]) -> Self {
        let measured = rows.iter().filter(|row| row.status.has_time());
        Self(measured.filter_map(Point::new).collect())
    }

    /// Names of all factors.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.0.iter().flat_map(|point| point.factors.keys());
        names.map(String::as_str).collect()
    }

    /// Every line of at least two values of a factor.
    pub fn lines(&self, factor: &str) -> Vec<Line> {
        let mut groups: BTreeMap<_, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
        for point in &self.0 {
            let Some(value) = point.factors.get(factor) else {
                continue;
            };
            let others: Vec<(&String, u64)> = point
                .factors
                .iter()
                .filter(|(name, _)| *name != factor)
                .map(|(name, value)| (name, value.to_bits()))
                .collect();
            let times = groups.entry((&point.workload, &point.rest, others));
            // Numbers from 0 on are in the order of their bits.
            let times = times.or_default().entry(value.to_bits()).or_default();
            times.push(point.time);
        }
        let mut lines = Vec::new();
        for ((workload, ..), times) in groups {
            let medians = times
                .into_iter()
                .map(|(x, times)| Some((f64::from_bits(x), median(times)?)));
            let points: Vec<(f64, f64)> = medians.flatten().collect();
            if points.len() >= 2 {
                let workload = workload.clone();
                lines.push(Line { workload, points });
            }
        }
        lines
    }

    /// Finds for each workload and factor the line with the shortest time, if it has at least [`LEAST_POINTS`] values.
    pub fn sweeps(&self) -> Vec<Sweep> {
        let mut best: BTreeMap<_, (f64, Sweep)> = BTreeMap::new();
        for factor in self.names() {
            for Line { workload, points } in self.lines(factor) {
                if points.len() < LEAST_POINTS {
                    continue;
                }
                let shortest = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
                let key = (workload.clone(), factor);
                if best.get(&key).is_none_or(|(time, _)| shortest < *time) {
                    let (device, name) = workload;
                    best.insert(key, (shortest, Sweep::new(name, device, factor, points)));
                }
            }
        }
        best.into_values().map(|(_, sweep)| sweep).collect()
    }
}

impl Point {
    /// `None` for rows without a time, and for knobs that are not an object.
    fn new(row: &Row) -> Option<Self> {
        let mut knobs: Map<String, Value> = match &row.schedule_knobs {
            Some(text) => text.decode().ok()?,
            None => Map::new(),
        };
        let mut factors: BTreeMap<String, f64> = BTreeMap::new();
        factors.extend(
            row.threads
                .map(|threads| ("threads".to_owned(), threads as f64)),
        );
        knobs.retain(|name, value| match numbers(name, value) {
            Some(found) => {
                factors.extend(found);
                false
            }
            None => true,
        });
        let target = row.target.as_ref().map_or("", |target| target.as_str());
        let shapes = [&row.input_shapes, &row.weight_shapes];
        let shapes = shapes.into_iter().flatten().map(|s| format!(" {s}"));
        let workload = oplearn::features::workload_name(row);
        let cache = row.cache_state.map_or("", opdata::CacheState::as_str);
        Some(Self {
            workload: (
                row.env_hash.clone().unwrap_or_default(),
                format!("{}{}", row.op_name, shapes.collect::<String>()),
            ),
            rest: format!("{workload} {target} {cache} {}", Value::Object(knobs)),
            factors,
            time: row.time_median_ns?,
        })
    }
}

/// The factors of a knob: a number, or numbers by the names of their loops. `None` for other knobs.
fn numbers(name: &str, value: &Value) -> Option<Vec<(String, f64)>> {
    let positive = |value: &Value| value.as_f64().filter(|v| *v >= 0.0);
    match value {
        Value::Number(_) => Some(vec![(name.to_owned(), positive(value)?)]),
        Value::Array(pairs) if !pairs.is_empty() => pairs
            .iter()
            .map(|pair| match pair.as_array()?.as_slice() {
                [of, extent] => Some((format!("{name} {}", of.as_str()?), positive(extent)?)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use opdata::JsonText;
    use serde_json::json;

    use super::*;

    fn row(threads: u64, tile: u64, order: &str, time: f64) -> Row {
        let knobs =
            json!({ "tile": [["i", tile], ["j", 4]], "order": order, "parallel_extent": null });
        Row {
            threads: Some(threads),
            schedule_knobs: Some(JsonText::from(&knobs)),
            time_median_ns: Some(time),
            ..opdata::testing::measured("conv2d")
        }
    }

    #[test]
    fn lines_differ_in_one_factor_alone() {
        let rows = [
            row(1, 4, "ij", 100.0),
            row(2, 4, "ij", 80.0),
            row(2, 4, "ij", 60.0),
            row(1, 8, "ij", 50.0),
            row(1, 4, "ji", 1.0),
        ];
        let points = Points::new(&rows);
        let lines = |factor: &str| -> Vec<Vec<(f64, f64)>> {
            points
                .lines(factor)
                .into_iter()
                .map(|line| line.points)
                .collect()
        };
        assert_eq!(lines("threads"), [[(1.0, 100.0), (2.0, 70.0)]]);
        assert_eq!(lines("tile i"), [[(4.0, 100.0), (8.0, 50.0)]]);
        assert!(lines("tile j").is_empty() && lines("parallel_extent").is_empty());
    }

    #[test]
    fn pieces_of_the_parallel_loop_are_a_factor() {
        let row = |tile: u64, pieces: u64, time: f64| Row {
            schedule_knobs: Some(JsonText::from(
                &json!({ "tile": tile, "parallel_extent": pieces }),
            )),
            time_median_ns: Some(time),
            ..opdata::testing::measured("add")
        };
        let points = Points::new(&[row(4, 8, 9.0), row(8, 8, 5.0), row(8, 16, 1.0)]);
        assert_eq!(points.lines("tile")[0].points, [(4.0, 9.0), (8.0, 5.0)]);
        assert_eq!(
            points.lines("parallel_extent")[0].points,
            [(8.0, 5.0), (16.0, 1.0)]
        );
    }

    #[test]
    fn each_factor_has_the_line_of_the_fastest_row() {
        let mut rows = Vec::new();
        for (threads, slower) in [(1, 2.0), (2, 1.0)] {
            for tile in [1u64, 2, 4, 8, 16] {
                rows.push(row(
                    threads,
                    tile,
                    "ij",
                    slower * 100.0 / tile.min(4) as f64,
                ));
            }
        }
        let sweeps = Points::new(&rows).sweeps();
        assert_eq!(sweeps.len(), 1);
        assert_eq!(sweeps[0].axis, "tile i");
        assert_eq!(sweeps[0].time, [100.0, 50.0, 25.0, 25.0, 25.0]);
    }
}
