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
//! | [`baseline`] | linear, ridge, lasso, nearest neighbours, forest, support vectors (smartcore) |
//!
//! All predict base-2 logarithms of ns.

pub mod baseline;
pub mod context;
pub mod ensemble;
pub mod kind;
pub mod likeness;
pub mod member;
pub mod options;
pub mod ranker;
pub mod regressor;
pub mod roofline;
pub mod smooth;

mod fit;

pub use fit::fit;
pub use kind::ModelKind;
pub use options::{FitOptions, Parallel};
pub use regressor::Regressor;
