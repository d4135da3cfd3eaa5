//! Effect of one knob of a schedule, all else equal: rows of a workload that differ in that knob alone.
//!
//! A knob of two values has no turning point. So this shows how often each step up pays, and the median gain.

use std::collections::BTreeMap;

use opdata::stats::median;
use serde::Serialize;

use super::factors::Points;

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

/// The steps of a factor, in the order of its values; empty where no two rows differ in it alone.
pub fn steps(points: &Points, factor: &str) -> Vec<KnobStep> {
    let mut ratios: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    for line in points.lines(factor) {
        for pair in line.points.windows(2) {
            let step = (pair[0].0.to_bits(), pair[1].0.to_bits());
            ratios.entry(step).or_default().push(pair[1].1 / pair[0].1);
        }
    }
    let step = |((from, to), ratios): ((u64, u64), Vec<f64>)| {
        let faster = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        Some(KnobStep {
            from: f64::from_bits(from),
            to: f64::from_bits(to),
            pairs: ratios.len(),
            faster: faster as f64 / ratios.len() as f64,
            median_ratio: median(ratios)?,
        })
    };
    ratios.into_iter().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use opdata::{JsonText, Row};
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
        let found = steps(&Points::new(&rows), "nthread");
        let expected = KnobStep {
            from: 1.0,
            to: 2.0,
            pairs: 2,
            faster: 0.5,
            median_ratio: 1.025,
        };
        assert_eq!(found, [expected]);
        assert!(steps(&Points::new(&rows), "other").is_empty());
    }
}
