//! The ensemble: the mean of its members' logarithms.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::likeness::{Importance, Likeness};
use super::member::{Member, MemberSpec};
use super::options::{FitOptions, Parallel};
use super::regressor::Regressor;
use super::smooth::Smoother;
use crate::data::Dataset;
use crate::error::Result;
use crate::features::Point;
use crate::features::base::Base;

/// A trained ensemble.
#[derive(Debug)]
pub struct Ensemble {
    /// Its members.
    pub members: Vec<Member>,
}

/// A dataset with fewer samples is learned from twice: where there is little to learn from, chance decides much, and
/// trees are cheap.
const FEW_SAMPLES: usize = 3000;
/// Added to the seeds the second time.
const SECOND_SEED: u64 = 1000;
/// Samples that are asked what moves predictions.
const ASKED: usize = 32;

impl Ensemble {
    /// Trains all members; where samples are few, twice. In the log of a tool that measures each kernel once on a CPU, one
    /// disturbed time then decides much: there the second ones learn from times smoothed by what the first ones found
    /// to matter. Graded times and those of GPUs are steady enough as they are, and smoothing would blur what tells
    /// operators apart.
    ///
    /// # Errors
    /// There are fewer than two samples, or XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], options: &FitOptions) -> Result<Self> {
        let fit = |spec: &MemberSpec| Member::fit(spec, dataset, indices, options.seed);
        let mut members = each(&options.members, options.parallel, fit)?;
        if indices.len() < FEW_SAMPLES {
            let doubtful = indices.iter().all(|&i| dataset.samples[i].doubtful);
            let smoothed = if doubtful {
                smoothed(dataset, indices, &members)?
            } else {
                BTreeMap::new()
            };
            let again = |spec: &MemberSpec| {
                let spec = MemberSpec {
                    seed: spec.seed + SECOND_SEED,
                    ..spec.clone()
                };
                match smoothed.get(&spec.base) {
                    Some(times) => Member::taught(&spec, dataset, indices, times, options.seed),
                    None => Member::fit(&spec, dataset, indices, options.seed),
                }
            };
            members.extend(each(&options.members, options.parallel, again)?);
        }
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

/// Trains one member for each of some.
fn each(
    specs: &[MemberSpec],
    parallel: Parallel,
    train: impl Fn(&MemberSpec) -> Result<Member> + Send + Sync,
) -> Result<Vec<Member>> {
    // One thread a member: OpenMP's threads wait for each other by spinning, which takes the cores from others.
    match parallel {
        Parallel::Members => specs.par_iter().map(train).collect(),
        Parallel::Not => specs.iter().map(train).collect(),
    }
}

/// The samples' times without their noise (log2 ns), for each estimate that a member corrects.
fn smoothed(
    dataset: &Dataset,
    indices: &[usize],
    members: &[Member],
) -> Result<BTreeMap<Base, Vec<f64>>> {
    let samples = || indices.iter().map(|&i| &dataset.samples[i]);
    let points: Vec<&Point> = samples().map(|s| &s.point).collect();
    let importance = Importance::new(members, &points, ASKED)?;
    let smoother = Smoother::new(&Likeness::new(&importance, &points), points.len());
    let weights: Vec<f64> = samples().map(|s| f64::from(s.weight)).collect();
    let bases: BTreeSet<Base> = members.iter().map(|member| member.spec.base).collect();
    let smooth = |base: Base| {
        let ratios: Vec<f64> = samples()
            .map(|s| s.log2_time - s.point.bases.get(base))
            .collect();
        smoother
            .smooth(&ratios, &weights)
            .into_iter()
            .zip(&points)
            .map(|(ratio, point)| ratio + point.bases.get(base))
            .collect()
    };
    Ok(bases.into_iter().map(|base| (base, smooth(base))).collect())
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
