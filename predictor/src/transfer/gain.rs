//! The gain of a few measurements on a new machine: errors on all points that were not measured there.

use oplearn::crossval::metrics::Metrics;
use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::features::machine::MachineFacts;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, Regressor};
use serde::Serialize;

use super::choose::typical;
use super::fit::{KnownMachine, Machine};
use crate::error::Result;
use crate::model::adaptation::{Adaptation, Shares};
use crate::model::{Correction, Trained};

/// Errors (mean absolute percentage) on the points that were not chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Points that were taken as measured.
    pub measurements: usize,
    /// Number of points that the errors are over.
    pub held_out: usize,
    /// The old machine's model as it is.
    pub zero_shot_mape: f64,
    /// The old machine's model times one factor from the measurements.
    pub one_factor_mape: f64,
    /// The adapted model: mixed of several corrections and a model of these measurements.
    pub adapted_mape: f64,
    /// Weights of the predictions that [`adaptation`](crate::model::adaptation) mixes.
    pub shares: Shares,
    /// The known machines that the new one is similar to, with weights; empty where the old model is asked without a
    /// machine.
    pub alike: Vec<(String, f64)>,
    /// The error of the model adapted with as many random points.
    pub random_mape: f64,
    /// A model of these measurements alone; missing where they are too few for one.
    pub afresh_mape: Option<f64>,
    /// Rows of the chosen points.
    pub chosen: Vec<String>,
}

/// The old model's predictions of all samples of a dataset of another machine, log2 ns. One is as they are, and one for
/// each machine of the training data is as if that machine ran them.
///
/// # Errors
/// Fails if XGBoost's library fails.
pub fn old_predictions(
    model: &Trained,
    dataset: &Dataset,
) -> Result<(Vec<f64>, Vec<KnownMachine>)> {
    let points: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
    let known = |facts: &MachineFacts| {
        Ok(KnownMachine {
            predictions: model.hosted(facts, &points)?,
            facts: facts.clone(),
        })
    };
    let known = model
        .machines_trained_on()
        .into_iter()
        .map(known)
        .collect::<Result<_>>()?;
    let expected = model.before_adaptation(&points)?;
    let old = expected.into_iter().map(|e| e.centre + e.bias).collect();
    Ok((old, known))
}

/// Adapts a model with `measurements` points of a new machine, and returns the errors on the rest.
///
/// # Errors
/// Fails if there are no more points than that, or XGBoost's library fails.
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
    let all: Vec<usize> = (0..points.len()).collect();
    let carried = |by: &Adaptation| by.carried(&points, &kinds, &machine.old_of(by, &all));
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
        adapted_mape: mape(&chosen, &carried(&adaptation)?),
        shares: adaptation.shares,
        alike: alike(&adaptation),
        random_mape: mape(&random, &carried(&by_chance)?),
        afresh_mape,
        chosen: indices
            .iter()
            .map(|&i| machine.dataset.samples[i].row_id.clone())
            .collect(),
    };
    Ok((gain, adaptation))
}

/// The known machines with a weight, heaviest first.
fn alike(adaptation: &Adaptation) -> Vec<(String, f64)> {
    let named = adaptation
        .alike
        .iter()
        .map(|alike| (alike.machine.label(), alike.share));
    let mut all: Vec<(String, f64)> = named.filter(|(_, share)| *share > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}
