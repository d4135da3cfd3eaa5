//! Partial dependence: what a model predicts on average when one factor is set and all others stay.

use oplearn::data::Dataset;
use oplearn::features::Point;
use oplearn::models::Regressor;
use serde::Serialize;

use crate::error::Result;

/// Number of samples that a partial dependence averages over.
const SAMPLES: usize = 200;
/// Values of the factor, by quantile.
const VALUES: usize = 9;

/// One point of a partial dependence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dependence {
    /// Value of the factor.
    pub value: f32,
    /// Predicted time over its mean over all values, geometric mean of the samples.
    pub factor: f64,
}

/// The dependence of a model's predictions on a feature, over some samples.
///
/// # Errors
/// Fails if the model fails.
pub fn dependence(
    model: &dyn Regressor,
    dataset: &Dataset,
    indices: &[usize],
    column: usize,
) -> Result<Vec<Dependence>> {
    let mut values: Vec<f32> = indices
        .iter()
        .map(|&i| dataset.samples[i].point.features[column])
        .filter(|v| v.is_finite())
        .collect();
    values.sort_by(f32::total_cmp);
    let mut grid: Vec<f32> = (0..VALUES)
        .filter_map(|k| {
            values
                .get(k * values.len().saturating_sub(1) / (VALUES - 1))
                .copied()
        })
        .collect();
    grid.dedup();
    let step = indices.len().div_ceil(SAMPLES).max(1);
    let mut points: Vec<Point> = indices
        .iter()
        .step_by(step)
        .map(|&i| dataset.samples[i].point.clone())
        .collect();
    let mut means = Vec::with_capacity(grid.len());
    for &value in &grid {
        for point in &mut points {
            point.features[column] = value;
        }
        let predicted = model.predict(&points.iter().collect::<Vec<_>>())?;
        means.push(predicted.iter().sum::<f64>() / predicted.len().max(1) as f64);
    }
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    Ok(grid
        .into_iter()
        .zip(means)
        .map(|(value, own)| Dependence {
            value,
            factor: (own - mean).exp2(),
        })
        .collect())
}
