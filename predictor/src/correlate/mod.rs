//! Finds the factors that correlate with time, their significance and the form of their effect.
//!
//! | module | for |
//! | --- | --- |
//! | [`measures`] | Kendall's tau, distance correlation, mutual information |
//! | [`significance`] | permutation p-values, correction for many tests |
//! | [`partial`] | partial dependence of a model's prediction on a factor |
//! | [`report`] | all factors of every kind |
//!
//! A correlation over different operators mostly says that more work takes longer. By kind, and against time for each
//! flop or byte ([`Against::Rate`]), it shows the effect of schedule and machine.

pub mod measures;
pub mod partial;
pub mod report;
pub mod significance;

pub use report::{Against, CorrelateOptions, FactorReport, KindReport, correlate};
