//! Cost of measuring a point, fitted to the rows: building its kernel, its samples, and all other work on a point.
//!
//! Building is shared by the points of one kernel and done on all cores; samples are taken one at a time.

use std::collections::{BTreeMap, BTreeSet};

use opdata::Row;
use opdata::contract::costs::{AROUND_POINT_NS, BUILD_NS};
use opdata::stats::median;

/// Number of runs of a point, if no row says it.
const RUNS: f64 = 10.0;
/// Rows of about the same time that are asked how long their samples took.
const NEIGHBOURS: usize = 15;
/// A longer pause between two rows does not count as work, ns.
const LONGEST_AROUND_NS: f64 = 2e9;
/// Minimum number of rows to estimate the time around a point from.
const LEAST_ROWS: usize = 10;

/// Cost of one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Building its kernel, ns; other points of the kernel do not pay it again.
    pub build_ns: f64,
    /// Checking and timing it, ns.
    pub measure_ns: f64,
}

/// The limits of a plan's timing that bound the cost of its points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Samples at least.
    pub least_samples: f64,
    /// Time for the samples of a point, ns.
    pub budget_ns: f64,
}

/// Costs learned from rows.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// Median build time by kind, over all cores, ns.
    build_ns: BTreeMap<String, f64>,
    any_build_ns: f64,
    around_ns: f64,
    /// Median time of a run and time of all runs of the point, by the former.
    sampled_ns: Vec<(f64, f64)>,
}

impl CostModel {
    /// Learns from rows of runs on a machine with this many cores.
    pub fn learn(rows: &[Row], cores: u32) -> Self {
        let cores = f64::from(cores.max(1));
        let mut builds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in rows {
            if let Some(ns) = build_ns(row) {
                builds.entry(&row.op_kind).or_default().push(ns / cores);
            }
        }
        let all: Vec<f64> = builds.values().flatten().copied().collect();
        let mut sampled_ns: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|row| Some((row.time_median_ns?, sampled_ns(row)?)))
            .collect();
        sampled_ns.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            any_build_ns: median(all).unwrap_or(BUILD_NS / cores),
            build_ns: builds
                .into_iter()
                .filter_map(|(kind, all)| Some((kind.to_owned(), median(all)?)))
                .collect(),
            around_ns: around_ns(rows, cores).unwrap_or(AROUND_POINT_NS),
            sampled_ns,
        }
    }

    /// Cost of a point of a kind whose kernel takes `time_ns`, under the timing of a plan if that is known.
    pub fn of(&self, kind: &str, time_ns: f64, timing: Option<Timing>) -> Cost {
        let build_ns = self.build_ns.get(kind).copied();
        let mut runs_ns = self.runs_ns(time_ns);
        if let Some(timing) = timing {
            let least = timing.least_samples * time_ns;
            runs_ns = runs_ns.clamp(least, least.max(timing.budget_ns) + time_ns);
        }
        Cost {
            build_ns: build_ns.unwrap_or(self.any_build_ns),
            measure_ns: self.around_ns + runs_ns,
        }
    }

    /// Median time of all runs of points that take about as long.
    fn runs_ns(&self, time_ns: f64) -> f64 {
        let count = self.sampled_ns.len();
        if count == 0 {
            return RUNS * time_ns;
        }
        let place = self.sampled_ns.partition_point(|(t, _)| *t < time_ns);
        let first = place
            .saturating_sub(NEIGHBOURS / 2)
            .min(count.saturating_sub(NEIGHBOURS));
        let near = &self.sampled_ns[first..(first + NEIGHBOURS).min(count)];
        median(near.iter().map(|(_, all)| *all)).unwrap_or(RUNS * time_ns)
    }
}

/// Time of all stages of a row's build, ns.
fn build_ns(row: &Row) -> Option<f64> {
    let (schedule, lower) = (row.schedule_ns?, row.lower_ns?);
    Some((schedule + lower + row.codegen_ns? + row.jit_ns?) as f64)
}

/// Time of all runs of a row's point: the checked one, warm-up, samples.
fn sampled_ns(row: &Row) -> Option<f64> {
    let runs = 1 + row.warmup.unwrap_or(0) + row.samples? * row.number?;
    Some(runs as f64 * row.time_mean_ns.or(row.time_median_ns)?)
}

/// Mean time that a row of a run took beside its runs and its build, ns: the median over runs.
fn around_ns(rows: &[Row], cores: f64) -> Option<f64> {
    let mut runs: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        runs.entry(&row.run_id).or_default().push(row);
    }
    let of_run = |rows: &Vec<&Row>| -> Option<f64> {
        let times: Vec<f64> = rows
            .iter()
            .filter_map(|row| Some(row.measured_at_utc?.unix_ms() as f64 * 1e6))
            .collect();
        if times.len() < LEAST_ROWS {
            return None;
        }
        let ends = times
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), t| {
                (low.min(*t), high.max(*t))
            });
        let mut programs = BTreeSet::new();
        let mut known_ns = 0.0;
        for row in rows {
            known_ns += sampled_ns(row).unwrap_or(0.0);
            if programs.insert((&row.op_symbol, &row.program_hash)) {
                known_ns += build_ns(row).unwrap_or(0.0) / cores;
            }
        }
        let around = (ends.1 - ends.0 - known_ns) / times.len() as f64;
        Some(around.clamp(0.0, LONGEST_AROUND_NS))
    };
    median(runs.values().filter_map(of_run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::testing::dense_row;

    /// A run of points of `time_ns` each, one every 100 ms, whose kernels took 40 ms on each of two cores.
    fn run(times_ns: &[f64]) -> Vec<Row> {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        times_ns
            .iter()
            .enumerate()
            .map(|(place, time_ns)| Row {
                time_median_ns: Some(*time_ns),
                time_mean_ns: Some(*time_ns),
                samples: Some(10),
                number: Some(1),
                warmup: Some(0),
                schedule_ns: Some(0),
                lower_ns: Some(20_000_000),
                codegen_ns: Some(30_000_000),
                jit_ns: Some(30_000_000),
                program_hash: Some(place.to_string()),
                measured_at_utc: Some(opdata::Timestamp::from_unix_ms(100 * place as i64)),
                ..dense_row(1, 1000, 512, knobs)
            })
            .collect()
    }

    #[test]
    fn costs_are_those_of_rows_like_the_point() {
        let rows = run(&[1e6; 40]);
        let model = CostModel::learn(&rows, 2);
        let cost = model.of("dense", 1e6, None);
        assert_eq!(cost.build_ns, 40e6);
        // 39 pauses of 100 ms for 40 rows with 11 runs of 1 ms and 40 ms of building each.
        assert!(
            (cost.measure_ns - (11e6 + 97.5e6 - 51e6)).abs() < 1.0,
            "{cost:?}"
        );
        assert_eq!(model.of("softmax", 1e6, None).build_ns, 40e6);
    }

    #[test]
    fn a_plan_bounds_what_a_point_costs() {
        let model = CostModel::learn(&run(&[1e6; 40]), 2);
        let timing = |least_samples, budget_ns| {
            Some(Timing {
                least_samples,
                budget_ns,
            })
        };
        let runs =
            |t| model.of("dense", 1e6, t).measure_ns - model.of("dense", 1e6, None).measure_ns;
        assert_eq!(runs(timing(20.0, 5e6)), 20e6 - 11e6);
        assert_eq!(runs(timing(2.0, 5e6)), 6e6 - 11e6);
    }

    #[test]
    fn nothing_known_is_no_reason_for_nothing_to_cost() {
        let cost = CostModel::learn(&[], 4).of("dense", 1e6, None);
        assert_eq!(cost.build_ns, BUILD_NS / 4.0);
        assert_eq!(cost.measure_ns, AROUND_POINT_NS + 10e6);
    }
}
