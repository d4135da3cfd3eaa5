//! How long an operator takes on a target, why, and where it turns.
//!
//! | module | owns |
//! | --- | --- |
//! | [`features`] | the one list of features and how a row becomes a vector of them |
//! | [`data`] | rows → samples: what is left out, duplicates, machines, weights |
//! | [`xgboost`] | XGBoost's library, opened at run time |
//! | [`models`] | the ensemble over a roofline, the roofline itself and the baselines |
//! | [`eval`] | splits, metrics, out-of-fold predictions |
//! | [`query`] | training a model to keep, its file, questions and answers |
//! | [`correlate`] | which factors go with time |
//! | [`plot`] | SVG |
//! | [`suggest`] | what to measure next |
//! | [`transfer`] | from one machine to another by a few measurements |
//! | [`turning`] | where more threads stop paying |
//! | [`serve`] | the same questions over HTTP |
//! | [`cli`] | the command line |

pub mod cli;
pub mod correlate;
pub mod data;
pub mod error;
pub mod eval;
pub mod features;
pub mod models;
pub mod plot;
pub mod query;
pub mod serve;
pub mod suggest;
pub mod transfer;
pub mod turning;
pub mod xgboost;

pub use error::{Error, Result};
