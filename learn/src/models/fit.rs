//! Fitting any of the models.

use super::kind::ModelKind;
use super::options::FitOptions;
use super::regressor::Regressor;
use super::training_set::TrainingSet;
use super::{baseline, ensemble, member, roofline};
use crate::data::Dataset;
use crate::error::Result;

/// Fits a model of `kind` to some samples of a dataset.
///
/// # Errors
/// Fails if the samples are too few for the model, or its library fails.
pub fn fit(
    kind: ModelKind,
    dataset: &Dataset,
    indices: &[usize],
    options: &FitOptions,
) -> Result<Box<dyn Regressor>> {
    Ok(match kind {
        ModelKind::Ensemble => Box::new(ensemble::Ensemble::fit(dataset, indices, options)?),
        ModelKind::Xgboost => Box::new(member::Member::fit(
            &member::plain(),
            &TrainingSet::new(dataset, indices),
            options.seed,
        )?),
        ModelKind::Roofline => Box::new(roofline::Roofline::fit(dataset, indices)),
        _ => baseline::fit(kind, dataset, indices, options.seed)?,
    })
}
