//! What a model is worth on samples that it has not seen, and what follows from that for its predictions.
//!
//! | module | for |
//! | --- | --- |
//! | [`folds`] | out-of-fold predictions of any model |
//! | [`bias`] | the constant that makes relative errors smallest |
//! | [`conformal`] | intervals with the coverage they promise |
//! | [`metrics`] | errors, correlation, ordering |
//! | [`search`] | hyper-parameters by cross-validation |

pub mod bias;
pub mod conformal;
pub mod folds;
pub mod metrics;
pub mod search;

pub use folds::{OutOfFold, out_of_fold};
