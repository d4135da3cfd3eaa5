//! What carries a model over to a new machine: several predictions from a few measurements there, and how much each counts.
//!
//! | place | prediction |
//! | --- | --- |
//! | 0 | the old model's, as it is |
//! | 1 | the old model's of the known machines that the new one is like, times one factor |
//! | 2 | … corrected by level, intensity and kind ([`Correction`]) |
//! | 3 | … and by trees that learned what is left of the measurements |
//! | 4 | 1 without the factor, times what the new machine takes for arithmetic, traffic, … over what those did ([`Rates`]) |
//! | 5 | that of a model of the measurements alone |
//!
//! An old model of several machines is asked as if each of them ran the point; how much each counts, the measurements say.
//! Few measurements make neither trees nor rates: then the last three are missing and do not count. None of the corrections goes
//! beyond the ratios to the old model that were measured: between ten points they know little, and outside nothing.

use oplearn::features::Point;
use oplearn::features::machine::MachineFacts;
use oplearn::models::Regressor;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::member::Member;
use oplearn::models::rates::Rates;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model::Correction;

/// Predictions that are mixed.
pub const WAYS: usize = 6;

/// Place of the prediction of a model of the measurements alone.
pub const ALONE: usize = WAYS - 1;

/// The first of them, which need no more than a few measurements.
pub const SIMPLE: usize = 3;

/// How much each of the predictions counts: not negative, sum one.
pub type Shares = [f64; WAYS];

/// Trees of the new machine's measurements.
#[derive(Debug)]
pub struct Fresh {
    /// What the corrected old model leaves, log2.
    pub rest: Vec<Member>,
    /// What the known machines take for each part of a kernel, by the old model, and what the new one does.
    pub rates: [Rates; 2],
    /// A model of the measurements alone.
    pub alone: Ensemble,
}

/// A machine that the old model was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alike {
    /// What is known of it.
    pub machine: MachineFacts,
    /// How much it counts: by how well it tells what is quicker or slower than what on the new one. Not negative, sum one.
    pub share: f64,
}

/// What the old model predicts of some points, log2 ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Old {
    /// Of the points as they are.
    pub as_is: Vec<f64>,
    /// On the machines that the new one is like.
    pub alike: Vec<f64>,
}

impl Old {
    /// Predictions of points as they are, and of them on known machines, each of which counts its share; without any, those as
    /// they are count.
    pub fn new(as_is: Vec<f64>, known: &[(f64, Vec<f64>)]) -> Self {
        let of = |i: usize| known.iter().map(|(share, own)| share * own[i]).sum();
        let alike = if known.is_empty() {
            as_is.clone()
        } else {
            (0..as_is.len()).map(of).collect()
        };
        Self { as_is, alike }
    }
}

/// What carries a model over to a new machine.
#[derive(Debug)]
pub struct Adaptation {
    /// The machines that the old model was trained on; none where nothing tells them apart, and it is asked as it is.
    pub alike: Vec<Alike>,
    /// One factor.
    pub factor: Correction,
    /// Level, intensity and kind.
    pub correction: Correction,
    /// Least and greatest ratio of a measurement to what the old model predicts of the machines alike, log2.
    pub extent: [f64; 2],
    /// Trees, where there are measurements enough.
    pub fresh: Option<Fresh>,
    /// How much each prediction counts.
    pub shares: Shares,
}

/// A prediction mixed of several, log2.
pub fn mixed<const N: usize>(shares: &[f64; N], own: &[f64; N]) -> f64 {
    shares.iter().zip(own).map(|(share, own)| share * own).sum()
}

impl Adaptation {
    /// The predictions (log2 ns) of points of some kinds, from those of the old model.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn ways(&self, points: &[&Point], kinds: &[&str], old: &Old) -> Result<Vec<[f64; WAYS]>> {
        let mut rest = vec![0.0; points.len()];
        let (mut by_rates, mut alone) = (vec![0.0; points.len()], vec![0.0; points.len()]);
        if let Some(fresh) = &self.fresh {
            for member in &fresh.rest {
                for (sum, own) in rest.iter_mut().zip(member.predict(points)?) {
                    *sum += own / fresh.rest.len() as f64;
                }
            }
            let [before, now] = &fresh.rates;
            for (sum, point) in by_rates.iter_mut().zip(points) {
                *sum = now.estimate(point) - before.estimate(point);
            }
            alone = fresh.alone.predict(points)?;
        }
        let [least, greatest] = self.extent;
        Ok((0..points.len())
            .map(|i| {
                let within = |ratio: f64| old.alike[i] + ratio.max(least).min(greatest);
                let correction = self.correction.of(points[i], kinds[i]);
                let factor = old.alike[i] + self.factor.of(points[i], kinds[i]);
                let (corrected, trees) = (within(correction), within(correction + rest[i]));
                let by_rates = within(by_rates[i]);
                [old.as_is[i], factor, corrected, trees, by_rates, alone[i]]
            })
            .collect())
    }

    /// Predictions (log2 ns) of points of some kinds on the new machine, from those of the old model.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn carried(&self, points: &[&Point], kinds: &[&str], old: &Old) -> Result<Vec<f64>> {
        let ways = self.ways(points, kinds, old)?;
        Ok(ways.iter().map(|own| mixed(&self.shares, own)).collect())
    }

    /// How much a model of the measurements alone counts, 0 to 1.
    pub fn own_share(&self) -> f64 {
        self.shares[ALONE]
    }
}
