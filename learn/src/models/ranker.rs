//! Orders the schedules of a workload: XGBoost's `rank:pairwise` with workloads as groups.
//!
//! Its scores mean nothing across workloads; within one, the faster schedule has the higher score.

use super::member::{Objective, member, select};
use crate::data::Dataset;
use crate::error::Result;
use crate::features::base::Base;
use crate::features::{Point, Scope};
use crate::xgboost::{Booster, Labels, Rows};

/// Number of steps of relevance, which is the rank within the workload.
const STEPS: f32 = 31.0;
/// The library's limit of a group's size for exact pairs would be slow; larger groups are cut into pieces.
const LARGEST_GROUP: usize = 256;

/// A trained ranker.
#[derive(Debug)]
pub struct Ranker {
    booster: Booster,
    columns: Vec<usize>,
}

impl Ranker {
    /// Trains on some samples.
    ///
    /// # Errors
    /// Fails if XGBoost's library is missing or fails.
    pub fn fit(dataset: &Dataset, indices: &[usize], seed: u64) -> Result<Self> {
        let spec = member(Base::None, &[Scope::Size], Objective::Squared, 0);
        let columns = spec.columns();
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); dataset.workloads.len()];
        for &index in indices {
            groups[dataset.samples[index].workload].push(index);
        }
        let (mut order, mut targets, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups.iter().filter(|g| g.len() > 1) {
            // Stride through large groups, so that each piece spans the whole of it.
            let pieces = group.len().div_ceil(LARGEST_GROUP);
            for piece in 0..pieces {
                let mut members: Vec<usize> =
                    group.iter().copied().skip(piece).step_by(pieces).collect();
                members.sort_by(|a, b| {
                    dataset.samples[*b]
                        .log2_time
                        .total_cmp(&dataset.samples[*a].log2_time)
                });
                let last = (members.len() - 1).max(1) as f32;
                targets.extend((0..members.len()).map(|rank| (STEPS * rank as f32 / last).round()));
                sizes.push(u32::try_from(members.len()).unwrap_or(u32::MAX));
                order.extend(members);
            }
        }
        let points: Vec<&Point> = order.iter().map(|&i| &dataset.samples[i].point).collect();
        let values = select(&points, &columns);
        let mut parameters = spec.parameters(seed);
        parameters.retain(|(name, _)| *name != "objective");
        parameters.extend([
            ("objective", "rank:pairwise".to_owned()),
            ("lambdarank_pair_method", "mean".to_owned()),
            ("lambdarank_num_pair_per_sample", "8".to_owned()),
        ]);
        let labels = Labels {
            targets: &targets,
            weights: &[],
            groups: &sizes,
        };
        let rows = Rows {
            values: &values,
            width: columns.len(),
        };
        let booster = Booster::train(&parameters, rows, labels, spec.trees.rounds)?;
        Ok(Self { booster, columns })
    }

    /// A score for each point; faster is higher.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn scores(&self, points: &[&Point]) -> Result<Vec<f64>> {
        let values = select(points, &self.columns);
        let rows = Rows {
            values: &values,
            width: self.columns.len(),
        };
        Ok(self
            .booster
            .predict(rows)?
            .into_iter()
            .map(f64::from)
            .collect())
    }
}
