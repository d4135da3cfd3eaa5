//! Accuracy of predictions on data that a model has not seen.
//!
//! | module | for |
//! | --- | --- |
//! | [`apart`] | errors by kind, and by how quietly the samples were measured |
//! | [`whole`] | whole models from their predicted operators |
//! | [`within`] | how many of them are predicted well |
//! | [`report`] | errors overall, by kind and by workload |

pub mod apart;
pub mod report;
pub mod whole;
pub mod within;

pub use report::{EvalOptions, Report, evaluate};
