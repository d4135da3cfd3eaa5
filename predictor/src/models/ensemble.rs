//! The ensemble: the mean of its members' logarithms.

use rayon::prelude::*;

use super::member::{Member, members_for};
use super::{FitOptions, Parallel, Regressor};
use crate::data::Dataset;
use crate::error::Result;
use crate::features::Point;

/// A trained ensemble.
#[derive(Debug)]
pub struct Ensemble {
    /// Its members.
    pub members: Vec<Member>,
}

impl Ensemble {
    /// Trains all members.
    ///
    /// # Errors
    /// There are fewer than two samples, or XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Self> {
        let specs = members_for(&options.members, indices.len());
        let fit = |spec| Member::fit(spec, dataset, indices, options.seed);
        // One thread a member: OpenMP's threads wait for each other by spinning, which takes the cores from others.
        let members = match options.parallel {
            Parallel::Members => specs.par_iter().map(fit).collect::<Result<_>>()?,
            Parallel::Not => specs.iter().map(fit).collect::<Result<_>>()?,
        };
        Ok(Self { members })
    }

    /// Mean and standard deviation of the members' predictions, log2.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn spread(&self, points: &[&Point]) -> Result<Vec<(f64, f64)>> {
        let all: Vec<Vec<f64>> = self
            .members
            .iter()
            .map(|member| member.predict(points))
            .collect::<Result<_>>()?;
        let count = all.len() as f64;
        Ok((0..points.len())
            .map(|i| {
                let mean = all.iter().map(|p| p[i]).sum::<f64>() / count;
                let variance = all.iter().map(|p| (p[i] - mean).powi(2)).sum::<f64>() / count;
                (mean, variance.sqrt())
            })
            .collect())
    }
}

impl Regressor for Ensemble {
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>> {
        let spread = self.spread(points)?;
        Ok(spread.into_iter().map(|(mean, _)| mean).collect())
    }

    fn disagreement(&self, points: &[&Point]) -> Result<Option<Vec<f64>>> {
        let spread = self.spread(points)?;
        Ok(Some(
            spread.into_iter().map(|(_, deviation)| deviation).collect(),
        ))
    }
}
