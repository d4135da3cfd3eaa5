//! What running inside a model does to an operator's time.
//!
//! Alone, an operator finds its inputs where its last call left them; inside a model they come from the operator before,
//! perhaps from another core's cache, and buffers lie elsewhere. Runs that timed the whole model have both times
//! (`time_median_ns` and `in_model_time_ns`); a few trees learn the logarithm of their ratio.

use super::member::{Member, context};
use super::regressor::Regressor;
use crate::data::Dataset;
use crate::error::Result;
use crate::features::Point;

/// Least samples with both times to learn from.
const LEAST_SAMPLES: usize = 40;

/// The learned ratio; 1 where no whole model was timed.
#[derive(Debug, Default)]
pub struct Context {
    member: Option<Member>,
}

impl Context {
    /// Learns from those of some samples that have both times.
    ///
    /// # Errors
    /// XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], seed: u64) -> Result<Self> {
        let (both, ratios): (Vec<usize>, Vec<f64>) = indices
            .iter()
            .filter_map(|&i| {
                let sample = &dataset.samples[i];
                Some((i, sample.log2_in_model? - sample.log2_time))
            })
            .unzip();
        if both.len() < LEAST_SAMPLES {
            return Ok(Self::default());
        }
        Ok(Self {
            member: Some(Member::taught(&context(), dataset, &both, &ratios, seed)?),
        })
    }

    /// The learned trees, if there are any.
    pub fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// From trained trees.
    pub fn of_member(member: Option<Member>) -> Self {
        Self { member }
    }

    /// Base-2 logarithms of time inside a model over time alone.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn ratios(&self, points: &[&Point]) -> Result<Vec<f64>> {
        match &self.member {
            Some(member) => member.predict(points),
            None => Ok(vec![0.0; points.len()]),
        }
    }
}
