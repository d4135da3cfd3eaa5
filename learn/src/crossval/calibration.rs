//! Bias correction and intervals of predictions, from errors on held-out samples.

use serde::{Deserialize, Serialize};

use super::bias::{BiasCorrection, BiasEstimator};
use super::conformal::{CalibrationSample, Conformal};
use super::folds::OutOfFold;
use crate::data::Dataset;

/// A model's calibration for one kind of query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Correction of single predictions; sums are left alone.
    #[serde(alias = "shifts")]
    pub bias: BiasCorrection,
    /// Intervals; missing if there were too few workloads.
    pub conformal: Option<Conformal>,
}

impl Calibration {
    /// Calibrates on predictions of held-out samples.
    pub fn fit(dataset: &Dataset, out_of_fold: &OutOfFold) -> Self {
        let measured = out_of_fold.measured(dataset);
        let kinds = out_of_fold.kinds(dataset);
        let bias = BiasEstimator::new(&out_of_fold.predicted, &measured, &out_of_fold.fold, &kinds)
            .estimate(None);
        Self::with_bias(bias, dataset, out_of_fold, &measured)
    }

    /// Calibrates by predictions of samples of held-out machines. Their common error says nothing about the next
    /// machine. So predictions stay as they are, and intervals include that error.
    pub fn fit_machines(dataset: &Dataset, out_of_fold: &OutOfFold) -> Self {
        let measured = out_of_fold.measured(dataset);
        Self::with_bias(BiasCorrection::default(), dataset, out_of_fold, &measured)
    }

    fn with_bias(
        bias: BiasCorrection,
        dataset: &Dataset,
        out_of_fold: &OutOfFold,
        measured: &[f64],
    ) -> Self {
        let predicted = bias.corrected(dataset, out_of_fold);
        let errors: Vec<CalibrationSample> = (0..measured.len())
            .map(|i| CalibrationSample {
                error: measured[i] - predicted[i],
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
