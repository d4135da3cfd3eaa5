//! Every sweep's turn, knee and choices, and how good the choices are.

use serde::Serialize;

use super::choose::{from_probes, probes, with_more};
use super::segment::{Turn, knee, turn};
use super::sweep::Sweep;

/// Options of the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Measurements beyond the probes.
    pub more: usize,
}

/// Ratio to the shortest time within which a smaller number of workers suffices.
const ENOUGH: f64 = 1.05;

/// One sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepReport {
    /// Name of the sweep.
    pub name: String,
    /// The device that the operator ran on.
    pub device: String,
    /// Over which axis.
    pub axis: String,
    /// Points.
    pub points: usize,
    /// Value with the shortest time.
    pub best: f64,
    /// Smallest value within 5 % of the best.
    pub enough: f64,
    /// Where two lines on logarithmic axes meet.
    pub turn: Option<Turn>,
    /// Where the curve bends most.
    pub knee: Option<f64>,
    /// Choice from the probes, if there are at least three.
    pub chosen: Option<ChosenValue>,
    /// Choice after more measurements.
    pub chosen_with_more: Option<ChosenValue>,
}

/// A chosen value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChosenValue {
    /// The value.
    pub x: f64,
    /// Its time over the best.
    pub ratio: f64,
    /// Measurements that it took.
    pub measurements: usize,
}

/// All sweeps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// The sweeps.
    pub sweeps: Vec<SweepReport>,
    /// Mean over sweeps of the choice from probes over the best.
    pub mean_ratio: Option<f64>,
    /// Mean over sweeps of the choice after more measurements over the best.
    pub mean_ratio_with_more: Option<f64>,
    /// Measurements beyond the probes.
    pub more: usize,
}

/// Analyses sweeps. A sweep is helped by the others on its device and axis, never by itself.
pub fn analyse(sweeps: &[Sweep], options: Options) -> Analysis {
    let reports: Vec<SweepReport> = sweeps
        .iter()
        .map(|sweep| report(sweep, sweeps, options))
        .collect();
    let mean = |pick: fn(&SweepReport) -> Option<ChosenValue>| {
        let ratios: Vec<f64> = reports.iter().filter_map(pick).map(|c| c.ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    };
    Analysis {
        mean_ratio: mean(|r| r.chosen),
        mean_ratio_with_more: mean(|r| r.chosen_with_more),
        sweeps: reports,
        more: options.more,
    }
}

fn report(sweep: &Sweep, all: &[Sweep], options: Options) -> SweepReport {
    let others: Vec<&Sweep> = all
        .iter()
        .filter(|o| o.device == sweep.device && o.axis == sweep.axis && o.name != sweep.name)
        .collect();
    let best = sweep.best();
    let enough = (0..sweep.x.len())
        .find(|&i| sweep.ratio(i) <= ENOUGH)
        .map_or(sweep.x[best], |i| sweep.x[i]);
    let probed = probes(sweep).len();
    let choice = |position: usize, measurements: usize| ChosenValue {
        x: sweep.x[position],
        ratio: sweep.ratio(position),
        measurements,
    };
    // Probes are powers of two, which an axis of logarithms does not have.
    let usable = probed >= 3 && !sweep.axis.starts_with("log2") && sweep.x[0] >= 1.0;
    SweepReport {
        name: sweep.name.clone(),
        device: sweep.device.clone(),
        axis: sweep.axis.clone(),
        points: sweep.x.len(),
        best: sweep.x[best],
        enough,
        turn: turn(&sweep.x, &sweep.time),
        knee: knee(&sweep.x, &sweep.time),
        chosen: usable.then(|| choice(from_probes(sweep, &others), probed)),
        chosen_with_more: usable.then(|| {
            let (position, known) = with_more(sweep, &others, options.more);
            choice(position, known.len())
        }),
    }
}
