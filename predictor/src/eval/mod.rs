//! How good predictions are on what a model has not seen.
//!
//! | module | for |
//! | --- | --- |
//! | [`split`] | which samples are held out together |
//! | [`folds`] | out-of-fold predictions of any model |
//! | [`shift`] | the constant that makes relative errors smallest |
//! | [`conformal`] | intervals with the coverage they promise |
//! | [`metrics`] | errors, correlation, ordering |
//! | [`whole`] | whole models from their predicted operators |
//! | [`report`] | all of it together, by kind and by workload |

pub mod conformal;
pub mod folds;
pub mod metrics;
pub mod report;
pub mod shift;
pub mod split;
pub mod whole;

pub use folds::{OutOfFold, out_of_fold};
pub use report::{EvalOptions, Report, evaluate};
pub use split::Split;
