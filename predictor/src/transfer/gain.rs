//! What a few measurements on a new machine bring: errors on all that was not measured there.

use oplearn::crossval::metrics::Metrics;
use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, Regressor};
use serde::Serialize;

use super::choose::spread_out;
use crate::error::Result;
use crate::model::Trained;
use crate::model::correction::{Correction, centre};
use crate::model::own::{Measured, Own};

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
    /// … adapted: with the whole correction, mixed with a model of these measurements as far as that helps.
    pub adapted_mape: f64,
    /// How much of it a model of these measurements alone is, 0 to 1.
    pub own_weight: f64,
    /// … adapted by as many points at random.
    pub random_mape: f64,
    /// A model of these measurements alone.
    pub afresh_mape: f64,
    /// Rows of the chosen points.
    pub chosen: Vec<String>,
}

/// What carries a model over to a new machine.
#[derive(Debug)]
pub struct Adapted {
    /// What corrects the old model.
    pub correction: Correction,
    /// What the measurements tell alone, where there are enough of them.
    pub own: Option<Own>,
}

/// Adapts a model with `measurements` points of a dataset of the new machine, and tells the errors on the rest.
///
/// # Errors
/// The dataset has no more points than that, or XGBoost's library fails.
pub fn gain(model: &Trained, dataset: &Dataset, measurements: usize) -> Result<(Gain, Adapted)> {
    dataset.require(measurements + 2, "adapting with a check")?;
    let points: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
    let predicted: Vec<f64> = model
        .ensemble
        .predict(&points)?
        .into_iter()
        .zip(&dataset.samples)
        .map(|(p, sample)| p + model.facts.unseen.shifts.of(&sample.kind))
        .collect();
    let measured = Measured {
        dataset,
        predicted: &predicted,
    };
    let mape = |chosen: &[usize], times: &[f64]| {
        let rest = (0..points.len()).filter(|i| !chosen.contains(i));
        let (measured, times): (Vec<f64>, Vec<f64>) = rest
            .map(|i| (dataset.samples[i].log2_time, times[i]))
            .unzip();
        Metrics::of(&measured, &times).mape
    };
    let adapt = |chosen: &[usize]| -> Result<(Adapted, Vec<f64>)> {
        let adapted = Adapted {
            correction: measured.correction(chosen),
            own: measured.own(chosen)?,
        };
        let carried = (0..points.len()).map(|i| measured.carried(&adapted.correction, i));
        let times = match &adapted.own {
            None => carried.collect(),
            Some(own) => {
                let alone = own.ensemble.predict(&points)?;
                carried
                    .zip(alone)
                    .map(|(carried, alone)| own.mixed(carried, alone))
                    .collect()
            }
        };
        Ok((adapted, times))
    };
    let chosen = spread_out(&points, measurements);
    let random: Vec<usize> = shuffled(points.len(), 1)
        .into_iter()
        .take(measurements)
        .collect();
    let (adapted, times) = adapt(&chosen)?;
    let (_, by_chance) = adapt(&random)?;
    let errors: Vec<f64> = chosen.iter().map(|&i| measured.error(i)).collect();
    let factor = centre(&errors);
    let with_factor: Vec<f64> = predicted.iter().map(|p| p + factor).collect();
    let afresh = Ensemble::fit(dataset, &chosen, &FitOptions::default())?.predict(&points)?;
    let gain = Gain {
        measurements: chosen.len(),
        held_out: points.len() - chosen.len(),
        zero_shot_mape: mape(&chosen, &predicted),
        one_factor_mape: mape(&chosen, &with_factor),
        adapted_mape: mape(&chosen, &times),
        own_weight: adapted.own.as_ref().map_or(0.0, |own| own.weight),
        random_mape: mape(&random, &by_chance),
        afresh_mape: mape(&chosen, &afresh),
        chosen: chosen
            .iter()
            .map(|&i| dataset.samples[i].row_id.clone())
            .collect(),
    };
    Ok((gain, adapted))
}
