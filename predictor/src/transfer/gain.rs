//! What a few measurements on a new machine bring: errors on all that was not measured there.

use serde::Serialize;

use super::choose::spread_out;
use super::correction::{Correction, centre};
use crate::data::Dataset;
use crate::error::Result;
use crate::eval::metrics::Metrics;
use crate::eval::split::shuffled;
use crate::features::Point;
use crate::models::ensemble::Ensemble;
use crate::models::{FitOptions, Regressor};
use crate::query::Trained;

/// Errors (mean absolute percentage) on the points that were not chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Points that were taken as measured.
    pub measurements: usize,
    /// Points that errors are of.
    pub held_out: usize,
    /// The old machine's model as it is.
    pub zero_shot_mape: f64,
    /// … with one factor from the measurements.
    pub one_factor_mape: f64,
    /// … with the whole correction.
    pub adapted_mape: f64,
    /// … with the correction from as many points at random.
    pub random_mape: f64,
    /// A model of these measurements alone.
    pub afresh_mape: f64,
    /// Rows of the chosen points.
    pub chosen: Vec<String>,
}

/// Adapts a model with `measurements` points of a dataset of the new machine, and tells the errors on the rest.
///
/// # Errors
/// The dataset has no more points than that, or XGBoost's library fails.
pub fn gain(model: &Trained, dataset: &Dataset, measurements: usize) -> Result<(Gain, Correction)> {
    dataset.require(measurements + 2, "adapting with a check")?;
    let points: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
    let kinds: Vec<&str> = dataset.samples.iter().map(|s| s.kind.as_str()).collect();
    let predicted: Vec<f64> = model
        .ensemble
        .predict(&points)?
        .into_iter()
        .zip(&kinds)
        .map(|(p, kind)| p + model.facts.shifts.of(kind))
        .collect();
    let correction_of = |chosen: &[usize]| {
        let pick: Vec<&Point> = chosen.iter().map(|&i| points[i]).collect();
        let names: Vec<&str> = chosen.iter().map(|&i| kinds[i]).collect();
        let errors: Vec<f64> = chosen
            .iter()
            .map(|&i| dataset.samples[i].log2_time - predicted[i])
            .collect();
        (Correction::fit(&pick, &names, &errors), centre(&errors))
    };
    let mape = |chosen: &[usize], time: &dyn Fn(usize) -> f64| {
        let rest: Vec<usize> = (0..points.len()).filter(|i| !chosen.contains(i)).collect();
        let measured: Vec<f64> = rest.iter().map(|&i| dataset.samples[i].log2_time).collect();
        let times: Vec<f64> = rest.iter().map(|&i| time(i)).collect();
        Metrics::of(&measured, &times).mape
    };
    let chosen = spread_out(&points, measurements);
    let (correction, factor) = correction_of(&chosen);
    let random: Vec<usize> = shuffled(points.len(), 1)
        .into_iter()
        .take(measurements)
        .collect();
    let (by_chance, _) = correction_of(&random);
    let alone = Ensemble::fit(dataset, &chosen, &FitOptions::default())?;
    let afresh = alone.predict(&points)?;
    let gain = Gain {
        measurements: chosen.len(),
        held_out: points.len() - chosen.len(),
        zero_shot_mape: mape(&chosen, &|i| predicted[i]),
        one_factor_mape: mape(&chosen, &|i| predicted[i] + factor),
        adapted_mape: mape(&chosen, &|i| {
            predicted[i] + correction.of(points[i], kinds[i])
        }),
        random_mape: mape(&random, &|i| {
            predicted[i] + by_chance.of(points[i], kinds[i])
        }),
        afresh_mape: mape(&chosen, &|i| afresh[i]),
        chosen: chosen
            .iter()
            .map(|&i| dataset.samples[i].row_id.clone())
            .collect(),
    };
    Ok((gain, correction))
}
