//! Answers how long an operator takes on a target, why, and where a factor stops paying.
//!
//! The crate `oplearn` learns and predicts; this crate asks it and prints the answers.
//!
//! | module | owns |
//! | --- | --- |
//! | [`eval`] | errors on held-out samples, by kind, by workload, of models end to end |
//! | [`model`] | training a model to keep, what it knows besides its trees, its file |
//! | [`query`] | queries and answers |
//! | [`place`] | where operators go that run side by side |
//! | [`schedule`] | which operators of a model run at the same time |
//! | [`correlate`] | which factors go with time |
//! | [`suggest`] | what to measure next |
//! | [`transfer`] | from one machine to another by a few measurements |
//! | [`turning`] | where more threads stop paying |
//! | [`serve`] | the same queries over HTTP |
//! | [`render`] | results as text |
//! | [`cli`] | the command line |

pub mod cli;
pub mod correlate;
pub mod error;
pub mod eval;
pub mod model;
pub mod place;
pub mod query;
pub mod render;
pub mod schedule;
pub mod serve;
pub mod suggest;
pub mod transfer;
pub mod turning;

pub use error::{Error, Result};
