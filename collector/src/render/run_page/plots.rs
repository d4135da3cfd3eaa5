//! The pictures of a run's report.

use std::collections::{BTreeMap, BTreeSet};

use opdata::contract::Calibration;
use opreport::chart::chart;
use opreport::svg::{Axis, Mark, RatioLine, Scale, Series, Steps, forest, heat};
use opreport::units;

use crate::compare::{Change, Comparison};
use crate::render::compare::{operator, ratio_line};
use crate::run_report::CountOfRow;
use crate::run_report::curves::{Curve, Heat};

/// Changes in the picture.
const CHANGES: usize = 30;
/// Counters that have a picture.
const COUNTERS: usize = 12;
/// Characters of a legend's entry.
const LEGEND: usize = 60;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

/// The beginning of a text.
fn short(text: &str) -> String {
    match text.char_indices().nth(LEGEND) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Ratios with their intervals.
pub(super) fn changes(comparison: &Comparison) -> String {
    let shown = comparison.changes.iter().take(CHANGES);
    let picture = forest(
        "Times after over times before, by operator",
        &shown.map(ratio).collect::<Vec<_>>(),
        comparison.threshold,
    );
    format!("<div class=\"wide\">{picture}</div>")
}

fn ratio(change: &Change) -> RatioLine {
    ratio_line(change, short(&operator(change)))
}

/// A picture for each factor: its curves, and where each turns.
pub(super) fn curves(curves: &[Curve]) -> Vec<String> {
    let factors: BTreeSet<&str> = curves.iter().map(|curve| curve.factor).collect();
    let picture = |factor: &str| {
        let of_factor: Vec<&Curve> = curves.iter().filter(|c| c.factor == factor).collect();
        let us = |(value, ns): &(f64, f64)| (*value, ns / 1e3);
        let mut series: Vec<Series> = of_factor
            .iter()
            .map(|curve| Series {
                name: short(&curve.operator),
                mark: Mark::Line,
                points: curve.points.iter().map(us).collect(),
            })
            .collect();
        let turns = of_factor.iter().flat_map(|curve| {
            let turn = curve.points.iter().filter(|p| p.0 == curve.turn);
            turn.map(us)
        });
        series.push(Series {
            name: "turning points".to_owned(),
            mark: Mark::Marks,
            points: turns.collect(),
        });
        // A logarithmic axis has no place for "not unrolled".
        let has_zero = of_factor
            .iter()
            .any(|c| c.points.iter().any(|p| p.0 <= 0.0));
        let scale = if has_zero { Scale::Linear } else { Scale::Log };
        chart(
            &format!("Best time by {factor}"),
            &axis(factor, scale),
            &axis("time, µs", Scale::Log),
            &series,
        )
    };
    factors.into_iter().map(picture).collect()
}

/// Tiles against threads.
pub(super) fn heat_map(map: &Heat) -> String {
    let steps = |label: &str, place: usize| {
        let mut values: Vec<f64> = map.cells.iter().map(|cell| cell[place]).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        Steps {
            label: label.to_owned(),
            values,
        }
    };
    heat(
        &short(&map.operator),
        &steps("register tile, elements", 0),
        &steps("threads", 1),
        &map.cells,
    )
}

/// Measured rows under the roofs of most threads.
pub(super) fn roofline(points: &[(f64, f64)], calibration: &Calibration) -> String {
    let mut series = vec![Series {
        name: "measured rows".to_owned(),
        mark: Mark::Dots,
        points: points.to_vec(),
    }];
    if let Some(rates) = calibration.rates.iter().max_by_key(|r| r.threads) {
        let peak = rates.peak_gflops_per_s.best;
        let intensities = || points.iter().map(|p| p.0);
        let low = intensities().fold(1.0, f64::min).max(1e-3);
        let high = intensities().fold(1.0, f64::max);
        for (level, read) in &rates.read_gbytes_per_s {
            let ridge = peak / read.rate.best;
            let corners = [low, ridge, high.max(ridge)];
            let roof = corners.map(|x| (x, peak.min(x * read.rate.best)));
            series.push(Series {
                name: format!("{} roof, {} threads", level.name(), rates.threads),
                mark: Mark::Line,
                points: roof.into(),
            });
        }
    }
    chart(
        "Roofline",
        &axis("flop a byte", Scale::Log),
        &axis("GFLOP/s", Scale::Log),
        &series,
    )
}

/// Counts against time, by threads, for the counters that most rows have; one that counted nothing anywhere has no
/// picture.
pub(super) fn counters(counters: &BTreeMap<String, Vec<CountOfRow>>) -> Vec<String> {
    let mut all: Vec<_> = counters
        .iter()
        .filter(|(_, counts)| counts.iter().any(|of| of.count > 0.0))
        .collect();
    all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.len()));
    let picture = |(name, counts): (&String, &Vec<CountOfRow>)| {
        let threads: BTreeSet<u64> = counts.iter().map(|of| of.threads).collect();
        let series = threads.into_iter().map(|threads| {
            let rows = counts.iter().filter(|of| of.threads == threads);
            Series {
                name: units::plural(threads, "thread"),
                mark: Mark::Dots,
                points: rows.map(|of| (of.count, of.time_ns / 1e3)).collect(),
            }
        });
        chart(
            name,
            &axis(name, Scale::Log),
            &axis("time, µs", Scale::Log),
            &series.collect::<Vec<_>>(),
        )
    };
    all.into_iter().take(COUNTERS).map(picture).collect()
}
