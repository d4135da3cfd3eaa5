//! Models of time: what all of them offer, and the list of those there are.
//!
//! | module | model |
//! | --- | --- |
//! | [`ensemble`] | gradient-boosted trees that correct three estimates; the product |
//! | [`member`] | one of its members: what it sees, corrects and minimises |
//! | [`context`] | what running inside a model does to an operator's time |
//! | [`likeness`] | how much one point's time tells about another's |
//! | [`smooth`] | measured times without their noise |
//! | [`ranker`] | orders the schedules of a workload (`rank:pairwise`) |
//! | [`roofline`] | arithmetic and traffic against the best rates seen; the floor |
//! | [`search`] | hyper-parameters by cross-validation |
//! | [`baseline`] | linear, ridge, lasso, nearest neighbours, forest, support vectors (smartcore) |
//!
//! All predict base-2 logarithms of ns.

pub mod baseline;
pub mod context;
pub mod ensemble;
pub mod likeness;
pub mod member;
pub mod ranker;
pub mod roofline;
pub mod search;
pub mod smooth;

use crate::data::Dataset;
use crate::error::Result;
use crate::features::Point;

/// A fitted model.
pub trait Regressor: Send + Sync {
    /// The base-2 logarithm of each point's time in ns.
    ///
    /// # Errors
    /// The model's library fails.
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>>;

    /// How much the model disagrees with itself on each point, log2; none if it has no opinion.
    ///
    /// # Errors
    /// The model's library fails.
    fn disagreement(&self, _points: &[&Point]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
}

/// The models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Trees over three estimates.
    Ensemble,
    /// One XGBoost model of the time over arithmetic and traffic.
    Xgboost,
    /// Arithmetic and traffic against the best rates seen.
    Roofline,
    /// Ordinary least squares.
    Linear,
    /// … with squared penalty.
    Ridge,
    /// … with absolute penalty.
    Lasso,
    /// k nearest neighbours.
    Knn,
    /// Random forest.
    Forest,
    /// Support-vector regression.
    Svr,
}

/// What runs at the same time while fitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// The members of the ensemble.
    Members,
    /// Nothing: whoever fits runs many fits at the same time.
    Not,
}

/// How to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// What runs at the same time.
    pub parallel: Parallel,
    /// The members of the ensemble.
    pub members: Vec<member::MemberSpec>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            parallel: Parallel::Members,
            members: member::default_members(),
            seed: 42,
        }
    }
}

/// Fits a model of `kind` to some samples of a dataset.
///
/// # Errors
/// The samples are too few for the model, or its library fails.
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
            dataset,
            indices,
            options.seed,
        )?),
        ModelKind::Roofline => Box::new(roofline::Roofline::fit(dataset, indices)),
        _ => baseline::fit(kind, dataset, indices, options.seed)?,
    })
}
