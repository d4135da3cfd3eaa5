//! Effect of one knob of a schedule, all else equal: rows of a workload that differ in that knob alone.
//!
//! A knob of two values has no turning point. So this shows how often each step up pays, and the median gain.

use std::collections::BTreeMap;

use opdata::Row;
use serde::Serialize;
use serde_json::{Map, Value};

/// A step of a knob from one value to the next larger one that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnobStep {
    /// The value before.
    pub from: f64,
    /// The value after.
    pub to: f64,
    /// Pairs of rows that differ in the knob alone.
    pub pairs: usize,
    /// Share of them in which the larger value is faster, 0 to 1.
    pub faster: f64,
    /// Median over the pairs of the time with the larger value over that with the smaller one.
    pub median_ratio: f64,
}

/// The steps of a knob, in the order of its values; empty where no two rows differ in it alone.
pub fn steps(rows: &[Row], knob: &str) -> Vec<KnobStep> {
    let mut groups: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status.has_time()) {
        let knobs: Option<Map<String, Value>> = row
            .schedule_knobs
            .as_ref()
            .and_then(|text| text.decode().ok());
        let (Some(mut knobs), Some(time)) = (knobs, row.time_median_ns) else {
            continue;
        };
        let Some(value) = knobs.remove(knob).and_then(|value| value.as_f64()) else {
            continue;
        };
        let target = row.target.as_ref().map_or("", |target| target.as_str());
        let rest = Value::Object(knobs);
        let key = format!(
            "{} {:?} {:?} {target} {rest}",
            oplearn::features::workload_name(row),
            row.threads,
            row.cache_state
        );
        groups.entry(key).or_default().push((value, time));
    }
    let mut ratios: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    for mut points in groups.into_values() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points.dedup_by(|later, first| later.0 == first.0);
        for pair in points.windows(2) {
            let step = (pair[0].0.to_bits(), pair[1].0.to_bits());
            ratios.entry(step).or_default().push(pair[1].1 / pair[0].1);
        }
    }
    let step = |((from, to), mut ratios): ((u64, u64), Vec<f64>)| {
        ratios.sort_by(f64::total_cmp);
        let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        KnobStep {
            from: f64::from_bits(from),
            to: f64::from_bits(to),
            pairs: ratios.len(),
            faster: faster as f64 / ratios.len() as f64,
            median_ratio: ratios[ratios.len() / 2],
        }
    };
    ratios.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use opdata::JsonText;
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_compare_rows_that_differ_in_the_knob_alone() {
        let row = |threads: u64, tile: u64, time: f64| Row {
            schedule_knobs: Some(JsonText::from(&json!({ "nthread": threads, "tile": tile }))),
            time_median_ns: Some(time),
            ..opdata::testing::measured("conv2d")
        };
        let rows = [
            row(1, 4, 100.0),
            row(2, 4, 80.0),
            row(1, 8, 60.0),
            row(2, 8, 75.0),
            row(2, 16, 1.0),
        ];
        let found = steps(&rows, "nthread");
        let expected = KnobStep {
            from: 1.0,
            to: 2.0,
            pairs: 2,
            faster: 0.5,
            median_ratio: 1.25,
        };
        assert_eq!(found, [expected]);
        assert!(steps(&rows, "other").is_empty());
    }
}
