//! Bias correction and intervals of predictions, from errors on held-out samples.

use serde::{Deserialize, Serialize};

use super::bias::Bias;
use super::conformal::{CalibrationSample, Conformal};
use super::folds::OutOfFold;
use crate::data::Dataset;

/// A model's calibration for one kind of query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Added to the logarithms of single predictions, log2; sums are left alone.
    pub bias: f64,
    /// Intervals; missing if there were too few workloads.
    pub conformal: Option<Conformal>,
}

impl Calibration {
    /// Calibrates on predictions of held-out samples.
    pub fn fit(dataset: &Dataset, out_of_fold: &OutOfFold) -> Self {
        let measured = out_of_fold.measured(dataset);
        let bias = Bias::new(&out_of_fold.predicted, &measured, &out_of_fold.fold);
        Self::with_bias(bias.estimate(None), dataset, out_of_fold, &measured)
    }

    /// Calibrates by predictions of samples of held-out machines. Their common error says nothing about the next
    /// machine. So predictions stay as they are, and intervals include that error.
    pub fn fit_machines(dataset: &Dataset, out_of_fold: &OutOfFold) -> Self {
        let measured = out_of_fold.measured(dataset);
        Self::with_bias(0.0, dataset, out_of_fold, &measured)
    }

    fn with_bias(bias: f64, dataset: &Dataset, out_of_fold: &OutOfFold, measured: &[f64]) -> Self {
        let errors: Vec<CalibrationSample> = (0..measured.len())
            .map(|i| CalibrationSample {
                error: measured[i] - (out_of_fold.predicted[i] + bias),
                disagreement: out_of_fold.disagreement[i],
                group: dataset.samples[out_of_fold.index[i]].workload,
            })
            .collect();
        Self {
            conformal: Conformal::fit(&errors),
            bias,
        }
    }
}
