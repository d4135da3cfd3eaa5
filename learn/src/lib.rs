//! Predicts how long an operator takes, by models trained on measured rows. It is a library without a command line, so
//! that a tuner can use it as its cost model.
//!
//! | module | owns |
//! | --- | --- |
//! | [`features`] | the one list of features and how a row becomes a vector of them |
//! | [`data`] | rows → samples: what is left out, duplicates, machines, weights; which are held out together |
//! | [`xgboost`] | XGBoost's library, opened at run time |
//! | [`models`] | the ensemble over a roofline, the roofline itself and the baselines |
//! | [`interference`] | slowdowns of operators that run at the same time |
//! | [`crossval`] | out-of-fold predictions, metrics, bias corrections, intervals |

pub mod crossval;
pub mod data;
pub mod error;
pub mod features;
pub mod interference;
pub mod models;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod xgboost;

pub use error::{Error, Result};
