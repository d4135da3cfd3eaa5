//! Accuracy of a model on samples that it has not seen, and the calibration of its predictions by it.
//!
//! | module | for |
//! | --- | --- |
//! | [`folds`] | out-of-fold predictions of any model |
//! | [`bias`] | the constant that makes relative errors smallest |
//! | [`calibration`] | both of a model's, for one kind of query |
//! | [`conformal`] | intervals with the coverage they promise |
//! | [`metrics`] | errors, correlation, ordering |

pub mod bias;
pub mod calibration;
pub mod conformal;
pub mod folds;
pub mod metrics;

pub use folds::{Members, OutOfFold, out_of_fold};
