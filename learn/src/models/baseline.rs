//! Baselines from smartcore: linear, ridge, lasso, nearest neighbours, random forest, support vectors.
//!
//! They predict time over the roofline's estimate from standardised features. What is missing counts as the mean, with
//! nothing that marks it: baselines are for comparison. The cost of support vectors and neighbours grows with the
//! square of the number of samples, so they learn from a part of them.

use opdata::stats::moments;
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::linalg::basic::arrays::Array;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::linear::lasso::{Lasso, LassoParameters};
use smartcore::linear::linear_regression::{LinearRegression, LinearRegressionParameters};
use smartcore::linear::ridge_regression::{RidgeRegression, RidgeRegressionParameters};
use smartcore::neighbors::knn_regressor::{KNNRegressor, KNNRegressorParameters};
use smartcore::svm::Kernels;
use smartcore::svm::svr::{SVR, SVRParameters};

use super::kind::ModelKind;

use super::regressor::Regressor;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::features::base::Base;
use crate::features::{FEATURES, Point};

/// Maximum number of samples for models of quadratic cost.
const QUADRATIC_SAMPLES: usize = 1500;
const NEIGHBOURS: usize = 5;

type Matrix = DenseMatrix<f64>;

/// Means and deviations of the features that vary.
#[derive(Debug, Clone)]
struct Scaler {
    columns: Vec<usize>,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Scaler {
    fn fit(points: &[&Point]) -> Self {
        let mut scaler = Self {
            columns: Vec::new(),
            means: Vec::new(),
            deviations: Vec::new(),
        };
        for column in 0..FEATURES.len() {
            let values: Vec<f64> = points
                .iter()
                .map(|p| f64::from(p.features[column]))
                .filter(|v| v.is_finite())
                .collect();
            if let Some((mean, deviation)) = moments(&values).filter(|m| m.1 > 1e-6) {
                scaler.columns.push(column);
                scaler.means.push(mean);
                scaler.deviations.push(deviation);
            }
        }
        scaler
    }

    fn rows(&self, points: &[&Point]) -> Vec<Vec<f64>> {
        points
            .iter()
            .map(|point| {
                self.columns
                    .iter()
                    .zip(self.means.iter().zip(&self.deviations))
                    .map(|(&column, (mean, deviation))| {
                        let value = f64::from(point.features[column]);
                        if value.is_finite() {
                            ((value - mean) / deviation).clamp(-8.0, 8.0)
                        } else {
                            0.0
                        }
                    })
                    .collect()
            })
            .collect()
    }
}

type Predict = Box<dyn Fn(&[Vec<f64>]) -> Result<Vec<f64>> + Send + Sync>;

struct Baseline {
    scaler: Scaler,
    /// Mean of the targets: not every model here has a constant of its own.
    mean: f64,
    predict: Predict,
}

impl Regressor for Baseline {
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>> {
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let corrections = (self.predict)(&self.scaler.rows(points))?;
        Ok(points
            .iter()
            .zip(corrections)
            .map(|(point, correction)| point.bases.get(Base::Work, None) + self.mean + correction)
            .collect())
    }
}

fn matrix(rows: &[Vec<f64>], model: &'static str) -> Result<Matrix> {
    let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    DenseMatrix::from_2d_array(&rows).map_err(|e| failed(model, &e))
}

fn failed(model: &'static str, error: &impl ToString) -> Error {
    Error::Fit {
        model,
        detail: error.to_string(),
    }
}

/// Every n-th of the indices, so that no more than `most` are left.
fn thinned(indices: &[usize], most: usize) -> Vec<usize> {
    let step = indices.len().div_ceil(most).max(1);
    indices.iter().copied().step_by(step).collect()
}

/// Fits one of the baselines.
pub(super) fn fit(
    kind: ModelKind,
    dataset: &Dataset,
    indices: &[usize],
    seed: u64,
) -> Result<Box<dyn Regressor>> {
    let quadratic = matches!(kind, ModelKind::Svr | ModelKind::Lasso);
    let indices = if quadratic {
        thinned(indices, QUADRATIC_SAMPLES)
    } else {
        indices.to_vec()
    };
    if indices.len() < NEIGHBOURS {
        return Err(Error::TooFew {
            what: "a baseline".to_owned(),
            needed: NEIGHBOURS,
            unit: "samples",
            found: indices.len(),
            next: "collect more with opcollect, or import a log",
        });
    }
    let points: Vec<&Point> = indices.iter().map(|&i| &dataset.samples[i].point).collect();
    let scaler = Scaler::fit(&points);
    let rows = scaler.rows(&points);
    let mut targets: Vec<f64> = indices
        .iter()
        .map(|&i| &dataset.samples[i])
        .map(|s| s.log2_time - s.point.bases.get(Base::Work, None))
        .collect();
    let mean = targets.iter().sum::<f64>() / targets.len() as f64;
    for target in &mut targets {
        *target -= mean;
    }
    let predict = fitted(kind, &rows, &targets, seed)?;
    Ok(Box::new(Baseline {
        scaler,
        mean,
        predict,
    }))
}

macro_rules! model {
    ($name:literal, $rows:expr, $fit:expr) => {{
        let fit = $fit;
        let model = fit(&matrix($rows, $name)?).map_err(|e| failed($name, &e))?;
        Box::new(move |rows: &[Vec<f64>]| {
            model
                .predict(&matrix(rows, $name)?)
                .map_err(|e| failed($name, &e))
        })
    }};
}

fn fitted(kind: ModelKind, rows: &[Vec<f64>], y: &Vec<f64>, seed: u64) -> Result<Predict> {
    Ok(match kind {
        // Features of one nest are dependent, so the plain least squares need a little ridge to have a solution.
        ModelKind::Linear => model!("linear", rows, |x: &Matrix| {
            LinearRegression::fit(x, y, LinearRegressionParameters::default())
        }),
        ModelKind::Ridge => model!("ridge", rows, |x: &Matrix| {
            RidgeRegression::fit(
                x,
                y,
                RidgeRegressionParameters::default()
                    .with_alpha(1.0)
                    .with_normalize(false),
            )
        }),
        ModelKind::Lasso => model!("lasso", rows, |x: &Matrix| {
            Lasso::fit(
                x,
                y,
                LassoParameters::default()
                    .with_alpha(0.01)
                    .with_normalize(false)
                    .with_max_iter(200),
            )
        }),
        ModelKind::Forest => model!("forest", rows, |x: &Matrix| {
            RandomForestRegressor::fit(
                x,
                y,
                RandomForestRegressorParameters::default()
                    .with_n_trees(50)
                    .with_max_depth(14)
                    .with_m((x.shape().1 / 3).max(1))
                    .with_seed(seed),
            )
        }),
        ModelKind::Svr => support_vectors(rows, y)?,
        _ => model!("nearest-neighbours", rows, |x: &Matrix| {
            KNNRegressor::fit(x, y, KNNRegressorParameters::default().with_k(NEIGHBOURS))
        }),
    })
}

/// The trained state: smartcore's instances, weights and constant. It is copied, because the original borrows its
/// training data.
#[derive(serde::Deserialize)]
struct Machine {
    instances: Vec<Vec<f64>>,
    w: Vec<f64>,
    b: f64,
}

fn support_vectors(rows: &[Vec<f64>], targets: &Vec<f64>) -> Result<Predict> {
    const NAME: &str = "support-vector";
    let gamma = 1.0 / rows.first().map_or(1.0, |r| r.len().max(1) as f64);
    let x = matrix(rows, NAME)?;
    let parameters = SVRParameters::default()
        .with_eps(0.1)
        .with_c(10.0)
        .with_kernel(Kernels::rbf().with_gamma(gamma));
    let trained = SVR::fit(&x, targets, &parameters).map_err(|e| failed(NAME, &e))?;
    let trained = serde_json::to_value(&trained).map_err(|e| failed(NAME, &e))?;
    let machine: Machine = serde_json::from_value(trained).map_err(|e| failed(NAME, &e))?;
    Ok(Box::new(move |rows| {
        let distance =
            |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum() };
        let predict = |row: &Vec<f64>| {
            let weighted = machine.instances.iter().zip(&machine.w);
            machine.b
                + weighted
                    .map(|(vector, weight)| weight * (-gamma * distance(row, vector)).exp())
                    .sum::<f64>()
        };
        Ok(rows.iter().map(predict).collect())
    }))
}
