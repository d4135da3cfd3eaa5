//! What a few measurements on a new machine bring: errors on all that was not measured there.

use oplearn::crossval::metrics::Metrics;
use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, Regressor};
use serde::Serialize;

use super::choose::typical;
use super::fit::Machine;
use crate::error::Result;
use crate::model::adaptation::{Adaptation, Shares};
use crate::model::{Correction, Trained};

/// Errors (mean absolute percentage) on the points that were not chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Points that were taken as measured.
    pub measurements: usize,
    /// Points that errors are of.
    pub held_out: usize,
    /// The old machine's model as it is.
    pub zero_shot_mape: f64,
    /// The old machine's model times one factor from the measurements.
    pub one_factor_mape: f64,
    /// The adapted model: mixed of several corrections and a model of these measurements.
    pub adapted_mape: f64,
    /// How much each counts: the old model, with one factor, corrected, corrected by trees, too, by
    /// rates, a model of the measurements.
    pub shares: Shares,
    /// The model adapted by as many points at random.
    pub random_mape: f64,
    /// A model of these measurements alone; missing where they are too few for one.
    pub afresh_mape: Option<f64>,
    /// Rows of the chosen points.
    pub chosen: Vec<String>,
}

/// The old model's predictions of all samples of a dataset of another machine, log2 ns.
///
/// # Errors
/// XGBoost's library fails.
pub fn old_predictions(model: &Trained, dataset: &Dataset) -> Result<Vec<f64>> {
    let (points, kinds): (Vec<&Point>, Vec<&str>) = dataset
        .samples
        .iter()
        .map(|s| (&s.point, s.kind.as_str()))
        .unzip();
    let expected = model.before_adaptation(&points, &kinds)?;
    Ok(expected.into_iter().map(|e| e.centre + e.bias).collect())
}

/// Adapts a model with `measurements` points of a new machine, and tells the errors on the rest.
///
/// # Errors
/// There are no more points than that, or XGBoost's library fails.
pub fn gain(machine: &Machine<'_>, measurements: usize) -> Result<(Gain, Adaptation)> {
    let points = machine.points();
    let measured = machine.measured();
    let kinds: Vec<&str> = machine
        .samples
        .iter()
        .map(|&i| machine.dataset.samples[i].kind.as_str())
        .collect();
    let mape = |chosen: &[usize], times: &[f64]| {
        let rest = (0..points.len()).filter(|i| !chosen.contains(i));
        let (measured, times): (Vec<f64>, Vec<f64>) = rest.map(|i| (measured[i], times[i])).unzip();
        Metrics::of(&measured, &times).mape
    };
    let chosen = typical(&points, measurements);
    let random: Vec<usize> = shuffled(points.len(), 1)
        .into_iter()
        .take(measurements)
        .collect();
    let adaptation = machine.adapt(&chosen)?;
    let by_chance = machine.adapt(&random)?;
    let errors: Vec<f64> = chosen
        .iter()
        .map(|&p| measured[p] - machine.old[p])
        .collect();
    let factor = Correction::one_factor(&errors);
    let with_factor: Vec<f64> = (0..points.len())
        .map(|p| machine.old[p] + factor.of(points[p], kinds[p]))
        .collect();
    let indices: Vec<usize> = chosen.iter().map(|&p| machine.samples[p]).collect();
    let afresh_mape = if indices.len() < 2 {
        None
    } else {
        let afresh = Ensemble::fit(machine.dataset, &indices, &FitOptions::default())?;
        Some(mape(&chosen, &afresh.predict(&points)?))
    };
    let gain = Gain {
        measurements: chosen.len(),
        held_out: points.len() - chosen.len(),
        zero_shot_mape: mape(&chosen, machine.old),
        one_factor_mape: mape(&chosen, &with_factor),
        adapted_mape: mape(&chosen, &adaptation.carried(&points, &kinds, machine.old)?),
        shares: adaptation.shares,
        random_mape: mape(&random, &by_chance.carried(&points, &kinds, machine.old)?),
        afresh_mape,
        chosen: indices
            .iter()
            .map(|&i| machine.dataset.samples[i].row_id.clone())
            .collect(),
    };
    Ok((gain, adaptation))
}
