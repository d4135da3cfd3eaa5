//! Fits the timing model to a log, and computes its error on tasks left out of the fit.
//!
//! Least squares on the logarithm of time, robust against outliers (soft L1), by Levenberg and Marquardt's method over the
//! logarithms of the parameters.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::simulate;
use crate::log::Tasks;
use crate::lower::{Program, Tail, lower};
use crate::profile::{Profile, Timing};

/// Relative error from which on a record counts less.
const SOFT: f64 = 0.02;
/// Maximum number of steps of a fit.
const STEPS: usize = 40;
/// Steps of a fit that starts from another fit's end.
const STEPS_AGAIN: usize = 8;

/// The parameters that are fitted. All others stay as the profile has them.
const FREE: [fn(&mut Timing) -> &mut f64; 11] = [
    |t| &mut t.alu_vector,
    |t| &mut t.inp_row,
    |t| &mut t.inp_beat,
    |t| &mut t.wgt_row,
    |t| &mut t.wgt_beat,
    |t| &mut t.pad_element,
    |t| &mut t.store_row,
    |t| &mut t.uop_load,
    |t| &mut t.load_fixed,
    |t| &mut t.compute_fixed,
    |t| &mut t.host_call_us,
];

/// A configuration that ran on a board, lowered.
#[derive(Debug)]
pub struct Sample {
    /// The number of its task.
    pub task: usize,
    /// Its instructions.
    pub program: Program,
    /// The board's time, nanoseconds.
    pub measured_ns: f64,
}

/// The configurations of a log that can be lowered, and how many cannot.
pub fn samples(profile: &Profile, tasks: &Tasks) -> (Vec<Sample>, usize) {
    let mut refused = 0;
    let mut samples = Vec::new();
    for (task, (workload, configs)) in tasks.iter().enumerate() {
        for (config, seconds) in configs {
            match lower(&profile.hardware, workload, config, Tail::AUTOTVM) {
                Ok(program) => samples.push(Sample {
                    task,
                    program,
                    measured_ns: seconds * 1e9,
                }),
                Err(_) => refused += 1,
            }
        }
    }
    (samples, refused)
}

/// The result of a fit.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The parameters.
    pub timing: Timing,
    /// Mean absolute error on the records that were fitted, percent.
    pub error_percent: f64,
    /// Absolute error of each record by parameters that were fitted without its task, percent.
    pub left_out_percent: Vec<f64>,
}

impl Fit {
    /// Mean absolute error on tasks that were left out, percent.
    pub fn left_out_error_percent(&self) -> f64 {
        mean(&self.left_out_percent)
    }
}

/// Fits the profile's timing to samples; leaves each task out once.
pub fn fit(profile: &Profile, samples: &[Sample]) -> Fit {
    let all: Vec<&Sample> = samples.iter().collect();
    let timing = fitted(profile, &all, STEPS);
    let whole = Profile {
        timing,
        ..profile.clone()
    };
    let tasks = samples
        .iter()
        .map(|s| s.task)
        .max()
        .map_or(0, |last| last + 1);
    let left_out = (0..tasks).into_par_iter().flat_map_iter(|task| {
        let (own, rest): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|s| s.task == task);
        let timing = fitted(&whole, &rest, STEPS_AGAIN);
        let without = Profile {
            timing,
            ..profile.clone()
        };
        own.into_iter()
            .map(move |s| error_percent(&without, s))
            .collect::<Vec<_>>()
    });
    Fit {
        timing,
        error_percent: mean(
            &samples
                .iter()
                .map(|s| error_percent(&whole, s))
                .collect::<Vec<_>>(),
        ),
        left_out_percent: left_out.collect(),
    }
}

/// Error of a profile for a sample, percent of the board's time.
pub fn error_percent(profile: &Profile, sample: &Sample) -> f64 {
    let simulated = simulate(profile, &sample.program).map_or(f64::INFINITY, |s| s.total_ns);
    (simulated / sample.measured_ns - 1.0).abs() * 100.0
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn fitted(profile: &Profile, samples: &[&Sample], steps: usize) -> Timing {
    let mut timing = profile.timing;
    let mut at: Vec<f64> = FREE
        .iter()
        .map(|free| free(&mut timing).max(1e-3).ln())
        .collect();
    let residuals = |at: &[f64]| -> DVector<f64> {
        let mut own = profile.clone();
        for (free, value) in FREE.iter().zip(at) {
            *free(&mut own.timing) = value.exp();
        }
        let residual = |s: &&Sample| {
            let simulated = simulate(&own, &s.program).map_or(1e18, |s| s.total_ns);
            (simulated / s.measured_ns).ln()
        };
        DVector::from_vec(samples.par_iter().map(residual).collect())
    };
    // Soft L1: the square root of the weight of each residual.
    let weights = |r: &DVector<f64>| r.map(|r| (1.0 + (r / SOFT).powi(2)).powf(-0.25));
    let cost = |r: &DVector<f64>| -> f64 {
        r.iter()
            .map(|r| (1.0 + (r / SOFT).powi(2)).sqrt() - 1.0)
            .sum()
    };
    let mut now = residuals(&at);
    let mut damping = 1e-3;
    for _ in 0..steps {
        let w = weights(&now);
        let columns: Vec<DVector<f64>> = (0..at.len())
            .map(|i| {
                const STEP: f64 = 1e-3;
                let mut moved = at.clone();
                moved[i] += STEP;
                (residuals(&moved) - &now).component_mul(&w) / STEP
            })
            .collect();
        let jacobian = DMatrix::from_columns(&columns);
        let gradient = jacobian.transpose() * now.component_mul(&w);
        let normal = jacobian.transpose() * &jacobian;
        let mut improved = false;
        for _ in 0..8 {
            let mut damped = normal.clone();
            for i in 0..at.len() {
                damped[(i, i)] += damping * (normal[(i, i)] + 1e-6);
            }
            let Some(step) = damped.lu().solve(&gradient) else {
                break;
            };
            let moved: Vec<f64> = at
                .iter()
                .zip(step.iter())
                .map(|(a, s)| a - s.clamp(-1.0, 1.0))
                .collect();
            let then = residuals(&moved);
            if cost(&then) < cost(&now) {
                improved = cost(&now) - cost(&then) > 1e-6 * cost(&now);
                (at, now) = (moved, then);
                damping = (damping * 0.3).max(1e-9);
                break;
            }
            damping *= 4.0;
        }
        if !improved {
            break;
        }
    }
    for (free, value) in FREE.iter().zip(&at) {
        *free(&mut timing) = value.exp();
    }
    timing
}
