//! Factors of a sweep: the best time at each value of a factor, and the value from which on more of it does not pay.
//!
//! A curve is of one operator at one number of threads (except the curve of threads). At each value the best time over
//! all other factors counts, so it is the lower envelope of the measurements. The turning point is the smallest value
//! whose time is within [`PAYS`] of the best: beyond it the factor's gain is below the noise.

use std::collections::BTreeMap;

use opdata::Row;

use super::shapes;

/// A gain below this share does not pay.
pub const PAYS: f64 = 0.05;
/// Fewer values are no curve.
const LEAST_VALUES: usize = 3;
/// Curves of one factor that are kept: those with most values.
const MOST_CURVES: usize = 3;
/// Heat maps that are kept.
const MOST_HEATS: usize = 2;

/// A factor: its name with its unit, and its value in a row.
struct Factor {
    name: &'static str,
    value: fn(&Row) -> Option<f64>,
}

const THREADS: &str = "threads";
const TILE: &str = "register tile, elements";

const FACTORS: [Factor; 7] = [
    Factor {
        name: THREADS,
        value: |row| row.threads.map(|n| n as f64),
    },
    Factor {
        name: TILE,
        value: |row| product(row.knob_tile_spatial.as_deref()?),
    },
    Factor {
        name: "register tiles in a cache tile",
        value: |row| product(row.knob_tile_cache.as_deref()?),
    },
    Factor {
        name: "reduction tile, terms",
        value: |row| product(row.knob_tile_reduction.as_deref()?),
    },
    Factor {
        name: "vector length, elements",
        value: |row| row.knob_vector_length.map(|n| n as f64),
    },
    Factor {
        name: "unrolled steps",
        value: |row| row.knob_unroll.map(|n| n as f64),
    },
    Factor {
        name: "parallel loop, iterations",
        value: |row| row.knob_parallel_extent.map(|n| n as f64),
    },
];

/// The product of extents joined by `x`.
fn product(extents: &str) -> Option<f64> {
    extents.split('x').map(|e| e.parse::<f64>().ok()).product()
}

/// One factor of one operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The factor, with its unit.
    pub factor: &'static str,
    /// The operator, with its shapes and threads.
    pub operator: String,
    /// Values, ascending, with the best time at each, nanoseconds.
    pub points: Vec<(f64, f64)>,
    /// The smallest value that is as good as the best.
    pub turn: f64,
}

/// Tiles against threads for one operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The operator, with its shapes.
    pub operator: String,
    /// Elements of a register tile, threads, best time in nanoseconds.
    pub cells: Vec<[f64; 3]>,
}

/// Rows grouped by operator: by name and workload.
type Groups<'a> = BTreeMap<(String, String), Vec<&'a Row>>;

/// Measured rows by operator and, if requested, by threads.
fn groups<'a>(rows: &'a [Row], by_threads: bool) -> Groups<'a> {
    let mut groups: Groups<'a> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status.has_time()) {
        let operator = row
            .workload_hash
            .clone()
            .unwrap_or_else(|| row.op_name.clone());
        let model = row.model_name.as_deref().unwrap_or_default();
        let cache = row.cache_state.map_or("", |c| c.as_str());
        let threads = match by_threads {
            true => format!("{:?}", row.threads),
            false => String::new(),
        };
        let target = row.target.as_ref().map_or("", |t| t.as_str());
        let rest = format!("{model}\n{cache}\n{threads}\n{target}");
        groups.entry((operator, rest)).or_default().push(row);
    }
    groups
}

/// An operator in words.
fn label(row: &Row, with_threads: bool) -> String {
    let threads = match row.threads {
        Some(1) if with_threads => ", 1 thread".to_owned(),
        Some(n) if with_threads => format!(", {n} threads"),
        _ => String::new(),
    };
    format!("{} {}{threads}", row.op_name, shapes(row))
}

/// The curves of every factor that was varied, for the operators for which it was varied most.
pub fn curves(rows: &[Row]) -> Vec<Curve> {
    FACTORS
        .iter()
        .flat_map(|factor| {
            let of_threads = factor.name == THREADS;
            let mut all: Vec<Curve> = groups(rows, !of_threads)
                .into_values()
                .filter_map(|group| curve(factor, &group, !of_threads))
                .collect();
            // Among curves with equally many values, the one that matters most comes first.
            let slowest = |c: &Curve| c.points.iter().map(|p| p.1).fold(0.0, f64::max);
            all.sort_by(|a, b| {
                let by_values = b.points.len().cmp(&a.points.len());
                by_values.then(slowest(b).total_cmp(&slowest(a)))
            });
            all.truncate(MOST_CURVES);
            all
        })
        .collect()
}

fn curve(factor: &Factor, group: &[&Row], with_threads: bool) -> Option<Curve> {
    let points = best(
        group
            .iter()
            .filter_map(|row| Some(((factor.value)(row)?, row.time_median_ns?))),
    );
    if points.len() < LEAST_VALUES {
        return None;
    }
    Some(Curve {
        factor: factor.name,
        operator: label(group[0], with_threads),
        turn: turn(&points)?,
        points,
    })
}

/// The best time at each value, values ascending.
fn best(pairs: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut pairs: Vec<(f64, f64)> = pairs.collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    pairs.dedup_by(|later, first| later.0 == first.0);
    pairs
}

/// The smallest value whose time is as good as the best.
fn turn(points: &[(f64, f64)]) -> Option<f64> {
    let best = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let good = points.iter().find(|(_, time)| *time <= best * (1.0 + PAYS));
    good.map(|(value, _)| *value)
}

/// Heat maps for the operators with most cells, at two numbers of threads and three tiles at least.
pub fn heats(rows: &[Row]) -> Vec<Heat> {
    let [threads, tile] = [THREADS, TILE].map(|name| FACTORS.iter().find(|f| f.name == name));
    let (Some(threads), Some(tile)) = (threads, tile) else {
        return Vec::new();
    };
    let mut all: Vec<Heat> = groups(rows, false)
        .into_values()
        .filter_map(|group| {
            let mut cells: BTreeMap<(u64, u64), f64> = BTreeMap::new();
            for row in &group {
                let at = (tile.value)(row).zip((threads.value)(row));
                let (Some((x, y)), Some(time)) = (at, row.time_median_ns) else {
                    continue;
                };
                let cell = cells.entry((x as u64, y as u64)).or_insert(time);
                *cell = cell.min(time);
            }
            let count = |pick: fn(&(u64, u64)) -> u64| {
                let values: std::collections::BTreeSet<u64> = cells.keys().map(pick).collect();
                values.len()
            };
            (count(|k| k.0) >= LEAST_VALUES && count(|k| k.1) >= 2).then(|| Heat {
                operator: label(group[0], false),
                cells: cells
                    .iter()
                    .map(|((x, y), time)| [*x as f64, *y as f64, *time])
                    .collect(),
            })
        })
        .collect();
    all.sort_by_key(|heat| std::cmp::Reverse(heat.cells.len()));
    all.truncate(MOST_HEATS);
    all
}

#[cfg(test)]
mod tests {

    use super::*;

    fn row(tile: &str, threads: u64, ns: f64) -> Row {
        Row {
            threads: Some(threads),
            knob_tile_spatial: Some(tile.to_owned()),
            time_median_ns: Some(ns),
            ..opdata::testing::measured("conv2d")
        }
    }

    #[test]
    fn a_curve_is_the_best_at_each_value_and_turns_where_more_gains_nothing() {
        let rows = [
            row("1x4", 1, 900.0),
            row("1x4", 1, 800.0),
            row("2x4", 1, 410.0),
            row("4x4", 1, 400.0),
            row("8x4", 1, 600.0),
        ];
        let [curve] = &curves(&rows)[..] else {
            panic!("one factor was varied")
        };
        assert_eq!(curve.factor, TILE);
        assert_eq!(
            curve.points,
            [(4.0, 800.0), (8.0, 410.0), (16.0, 400.0), (32.0, 600.0)]
        );
        // 410 is within 5 % of 400.
        assert_eq!(curve.turn, 8.0);
        assert!(curves(&rows[..2]).is_empty());
    }

    #[test]
    fn a_heat_map_needs_two_numbers_of_threads() {
        let one: Vec<Row> = ["1x4", "2x4", "4x4"].map(|t| row(t, 1, 100.0)).into();
        assert!(heats(&one).is_empty());
        let two = ["1x4", "2x4", "4x4"].map(|t| row(t, 2, 60.0));
        let all: Vec<Row> = one.into_iter().chain(two).collect();
        let [heat] = &heats(&all)[..] else {
            panic!("one operator")
        };
        assert_eq!(heat.cells.len(), 6);
        assert_eq!(heat.cells[0], [4.0, 1.0, 100.0]);
    }
}
