//! Times over two factors: surfaces from datasets with sweeps, and a report on each.
//!
//! A workload measured under several schedules is a surface over each two of its numbers (tiles, vector length,
//! unrolling, threads). Operators of one kind and window are one over such a number and the work or the batch. A cell
//! with several measurements, or with other numbers different, has their median.

use std::collections::{BTreeMap, BTreeSet};

use opdata::stats::median;
use opdata::{LoopKind, Row};
use rayon::prelude::*;
use serde::Serialize;

use super::crease::{Crease, LEAST_POINTS, crease};

/// Minimum number of values of the first factor: two on each side of a turn.
const LEAST_FIRST: usize = 4;
/// Minimum number of values of the second.
const LEAST_SECOND: usize = 3;
/// Maximum number of cells of a surface. Of more, every n-th is kept.
const MOST_CELLS: usize = 600;

/// Times over two factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    /// Name of the sweep.
    pub name: String,
    /// On what.
    pub device: String,
    /// The factor that may stop paying.
    pub first: String,
    /// The factor that may move the turn.
    pub second: String,
    /// First factor, second factor, time; each pair once, all above 0.
    pub cells: Vec<[f64; 3]>,
}

/// The report on one surface.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurfaceReport {
    /// Name of the sweep.
    pub name: String,
    /// On what.
    pub device: String,
    /// The factor that may stop paying.
    pub first: String,
    /// The factor that may move the turn.
    pub second: String,
    /// Pairs of values.
    pub cells: usize,
    /// The turning line, if one is significant.
    pub crease: Option<Crease>,
}

/// Points, grouped by the name of the sweep, the device and the two factors.
#[derive(Debug, Default)]
pub struct Surfaces(BTreeMap<[String; 4], Vec<[f64; 3]>>);

impl Surfaces {
    /// Adds a point to the surface of that name.
    pub fn add(&mut self, [name, device, first, second]: [&str; 4], point: [f64; 3]) {
        let key = [name, device, first, second].map(str::to_owned);
        self.0.entry(key).or_default().push(point);
    }

    /// Adds the points of measured rows.
    pub fn add_rows(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|r| r.status.has_time()) {
            let Some(time_ns) = row.time_median_ns.filter(|t| *t > 0.0) else {
                continue;
            };
            let device = row.env_hash.as_deref().unwrap_or_default();
            let cache = row.cache_state.map_or("", opdata::CacheState::as_str);
            let own = format!("{} {} {cache}", row.op_name, shapes(row));
            let kind = format!("{} {} {cache}", row.op_kind, window(row));
            let choices = choices(row);
            for (first, x) in &choices {
                for (second, z) in choices.iter().filter(|c| c.0 != *first) {
                    self.add([&own, device, first, second], [*x, *z, time_ns]);
                }
                for (second, z) in given(row) {
                    self.add([&kind, device, first, second], [*x, z, time_ns]);
                }
            }
        }
    }

    /// The surfaces with enough values of both factors.
    pub fn complete(self) -> Vec<Surface> {
        let all = self.0.into_iter();
        let surfaces = all.map(|([name, device, first, second], points)| Surface {
            name: name.trim_end().to_owned(),
            device,
            first,
            second,
            cells: cells(points),
        });
        surfaces
            .filter(|s| {
                s.values(0).len() >= LEAST_FIRST
                    && s.values(1).len() >= LEAST_SECOND
                    && s.cells.len() >= LEAST_POINTS
            })
            .collect()
    }
}

impl Surface {
    /// The values of the first (0) or second (1) factor, ascending.
    pub fn values(&self, factor: usize) -> Vec<f64> {
        let bits: BTreeSet<u64> = self.cells.iter().map(|c| c[factor].to_bits()).collect();
        // Numbers above 0 are in the order of their bits.
        bits.into_iter().map(f64::from_bits).collect()
    }
}

/// Looks for the turning line of each surface. Surfaces with one come first, the clearest at the top.
pub fn analyse_surfaces(surfaces: &[Surface]) -> Vec<SurfaceReport> {
    let mut reports: Vec<SurfaceReport> = surfaces
        .par_iter()
        .map(|surface| SurfaceReport {
            name: surface.name.clone(),
            device: surface.device.clone(),
            first: surface.first.clone(),
            second: surface.second.clone(),
            cells: surface.cells.len(),
            crease: crease(&surface.cells),
        })
        .collect();
    let unclear = |r: &SurfaceReport| r.crease.as_ref().map_or(1.0, |c| c.residual_ratio);
    reports.sort_by(|a, b| unclear(a).total_cmp(&unclear(b)));
    reports
}

/// The median of each cell, thinned where there are too many.
fn cells(points: Vec<[f64; 3]>) -> Vec<[f64; 3]> {
    let mut by_place: BTreeMap<[u64; 2], Vec<f64>> = BTreeMap::new();
    for [x, z, time] in points {
        if x > 0.0 && z > 0.0 && time > 0.0 {
            let place = [x.to_bits(), z.to_bits()];
            by_place.entry(place).or_default().push(time);
        }
    }
    let step = by_place.len().div_ceil(MOST_CELLS).max(1);
    by_place
        .into_iter()
        .step_by(step)
        .filter_map(|([x, z], times)| Some([f64::from_bits(x), f64::from_bits(z), median(times)?]))
        .collect()
}

fn shapes(row: &Row) -> String {
    let text = |s: &Option<opdata::Shapes>| s.as_ref().map(ToString::to_string);
    [text(&row.input_shapes), text(&row.weight_shapes)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The attributes that distinguish operators of one kind, sizes aside.
fn window(row: &Row) -> String {
    match (&row.kernel, &row.stride) {
        (Some(kernel), Some(stride)) => format!("{kernel} by {stride}"),
        (Some(kernel), None) => kernel.to_string(),
        (None, _) => String::new(),
    }
}

/// The factors of a row that one can choose: threads, and the numbers of a schedule.
fn choices(row: &Row) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    let mut number = |name: &str, value: Option<u64>| {
        all.extend(value.map(|v| (name.to_owned(), v as f64)));
    };
    number("threads", row.threads);
    number("vector length", row.knob_vector_length);
    number("unrolled steps", row.knob_unroll);
    number("parallel extent", row.knob_parallel_extent);
    for (what, tiles, kind) in [
        ("tile", &row.knob_tile_spatial, LoopKind::Spatial),
        ("cache tile", &row.knob_tile_cache, LoopKind::Spatial),
        ("tile", &row.knob_tile_reduction, LoopKind::Reduction),
    ] {
        let loops = row.loop_nest.iter().flat_map(|nest| &nest.0);
        let extents = tiles.iter().flat_map(|t| t.split('x'));
        for (one, extent) in loops.filter(|l| l.kind == kind).zip(extents) {
            if let Ok(extent) = extent.parse::<f64>() {
                all.push((format!("{what} {}", one.name()), extent));
            }
        }
    }
    all.retain(|(_, value)| *value > 0.0);
    all
}

/// The factors of a row that the model gives, rather than the schedule.
fn given(row: &Row) -> Vec<(&'static str, f64)> {
    let work = row
        .flops
        .map(|flops| (flops + row.flops_epilogue.unwrap_or(0)) as f64);
    let batch = row.batch.map(|batch| batch as f64);
    [("flops", work), ("batch", batch)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|v| *v > 0.0)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::testing::conv_row;

    /// A convolution at 1 to 32 threads and six sizes; threads pay up to `pays(size)`.
    fn rows(pays: fn(f64) -> f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for size in [8u64, 14, 28, 40, 56, 112] {
            for threads in [1u64, 2, 4, 6, 8, 16, 32] {
                let mut row = conv_row([1, 64, size, size], [64, 3, 1], "{}");
                let flops = row.flops.unwrap_or(0) as f64;
                row.threads = Some(threads);
                row.time_median_ns = Some(flops / (threads as f64).min(pays(size as f64)));
                rows.push(row);
            }
        }
        rows
    }

    #[test]
    fn threads_and_work_are_a_surface_and_its_line_is_found() {
        let mut surfaces = Surfaces::default();
        surfaces.add_rows(&rows(|size| size / 4.0));
        let complete = surfaces.complete();
        let shown: Vec<String> = complete
            .iter()
            .map(|s| {
                format!(
                    "{}: {} over {}, {} cells",
                    s.name,
                    s.first,
                    s.second,
                    s.cells.len()
                )
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"conv2d 3x3 by 1x1: threads over flops, 42 cells");
        let report = &analyse_surfaces(&complete)[0];
        let crease = report.crease.as_ref().expect("a planted line");
        // Work grows with the square of the size.
        assert!((crease.moves.value - 0.5).abs() < 0.05, "{crease:?}");
        assert!(
            (crease.turns[2].turn.value - 28.0).abs() < 5.0,
            "{crease:?}"
        );

        let mut straight = Surfaces::default();
        straight.add_rows(&rows(|_| 64.0));
        assert_eq!(analyse_surfaces(&straight.complete())[0].crease, None);
    }

    #[test]
    fn tiles_of_one_workload_are_surfaces_both_ways() {
        let mut surfaces = Surfaces::default();
        let mut rows = Vec::new();
        for wide in [1u64, 2, 4, 7, 8, 14] {
            for deep in [4u64, 8, 16, 32] {
                let mut row = conv_row([1, 64, 56, 56], [64, 3, 1], "{}");
                row.knob_tile_spatial = Some(format!("1x{deep}x1x{wide}"));
                row.time_median_ns = Some(1e6 / (wide * deep) as f64);
                rows.push(row);
            }
        }
        surfaces.add_rows(&rows);
        let factors: Vec<String> = surfaces
            .complete()
            .iter()
            .map(|s| format!("{} over {}", s.first, s.second))
            .collect();
        assert_eq!(factors, ["tile ff over tile xx", "tile xx over tile ff"]);
    }

    #[test]
    fn cells_hold_medians() {
        let points = vec![
            [2.0, 1.0, 5.0],
            [1.0, 1.0, 3.0],
            [2.0, 1.0, 9.0],
            [2.0, 0.0, 1.0],
        ];
        assert_eq!(cells(points), [[1.0, 1.0, 3.0], [2.0, 1.0, 7.0]]);
    }
}
