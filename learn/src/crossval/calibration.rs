//! What held-out errors say of predictions: the constants that they are moved by, and their intervals.

use serde::{Deserialize, Serialize};

use super::bias::{Shifts, ShiftsFinder};
use super::conformal::{Conformal, Held};
use super::folds::OutOfFold;
use crate::data::Dataset;

/// A model's calibration for one kind of query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What single predictions are moved by; sums are not.
    pub shifts: Shifts,
    /// Intervals; missing if there were too few workloads.
    pub conformal: Option<Conformal>,
}

impl Calibration {
    /// From predictions of held-out samples.
    pub fn of(dataset: &Dataset, held: &OutOfFold) -> Self {
        let measured = held.measured(dataset);
        let kinds: Vec<&str> = held
            .index
            .iter()
            .map(|&i| dataset.samples[i].kind.as_str())
            .collect();
        let shifts = ShiftsFinder::new(&held.predicted, &measured, &held.fold, &kinds).shifts(None);
        let predicted = shifts.shifted(dataset, held);
        let errors: Vec<Held> = (0..measured.len())
            .map(|i| Held {
                error: measured[i] - predicted[i],
                disagreement: held.disagreement[i],
                group: dataset.samples[held.index[i]].workload,
            })
            .collect();
        Self {
            conformal: Conformal::fit(&errors),
            shifts,
        }
    }
}
