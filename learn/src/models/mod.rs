//! Models of time: what all of them offer, and the list of those there are.
//!
//! | module | model |
//! | --- | --- |
//! | [`ensemble`] | gradient-boosted trees that correct estimates; the product |
//! | [`member`] | one of its members: what it sees, corrects and minimises |
//! | [`choice`] | which members an ensemble has, by its training samples |
//! | [`context`] | what running inside a model does to an operator's time |
//! | [`pool`] | all members there are |
//! | [`training_set`] | samples to learn from, with what members that learn from the same ones share |
//! | [`ranker`] | orders the schedules of a workload (`rank:pairwise`) |
//! | [`rates`] | an estimate whose rates are fitted: schedule, arithmetic, traffic, floor |
//! | [`roofline`] | arithmetic and traffic against the best rates seen; the floor |
//! | [`baseline`] | linear, ridge, lasso, nearest neighbours, forest, support vectors (smartcore) |
//!
//! All models predict base-2 logarithms of nanoseconds.

pub mod baseline;
pub mod choice;
pub mod context;
pub mod ensemble;
pub mod kind;
pub mod member;
pub mod options;
pub mod pool;
pub mod ranker;
pub mod rates;
pub mod regressor;
pub mod roofline;
pub mod training_set;

mod fit;
mod part;

pub use choice::{Familiarity, for_queries, members_for, members_for_few};
pub use fit::fit;
pub use kind::ModelKind;
pub use options::{FitOptions, Parallel};
pub use regressor::Regressor;
pub use training_set::TrainingSet;
