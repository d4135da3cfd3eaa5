//! Parameters that carry a model over to a new machine: several predictions from a few measurements there, and the
//! weight of each.
//!
//! | place | prediction |
//! | --- | --- |
//! | 0 | the old model's, as it is |
//! | 1 | the old model's of the known machines that the new one is like, times one factor |
//! | 2 | … corrected by level, intensity and kind ([`Correction`]) |
//! | 3 | … and by trees fitted to the residuals of the measurements |
//! | 4 | 1 without the factor, times the new machine's costs of arithmetic, traffic, … over the known machines' ([`Rates`]) |
//! | 5 | that of a model of the measurements alone |
//!
//! An old model of several machines is asked as if each of them ran the point. The measurements decide the weight of
//! each. Few measurements make neither trees nor rates: then the last three are missing and do not count. No correction
//! goes beyond the measured ratios to the old model, because ten points support no extrapolation.

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

/// Number of the first ways, which need only a few measurements.
pub const SIMPLE: usize = 3;

/// The weight of each prediction: not negative, sum one.
pub type Shares = [f64; WAYS];

/// Trees of the new machine's measurements.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fresh {
    /// Model of the residuals of the corrected old model, log2.
    pub rest: Vec<Member>,
    /// Rates of the known machines for each part of a kernel, fitted to the old model, and those of the new machine.
    pub rates: [Rates; 2],
    /// A model of the measurements alone.
    pub alone: Ensemble,
}

/// A machine that the old model was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alike {
    /// The facts about it.
    pub machine: MachineFacts,
    /// Its weight: by how well its times order the points of the new machine. Not negative, sum one.
    pub share: f64,
}

/// Predictions of the old model for some points, log2 ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Old {
    /// Predictions for the points with the new machine's own properties.
    pub as_is: Vec<f64>,
    /// Predictions for the points on the machines that are most like the new one.
    pub alike: Vec<f64>,
}

impl Old {
    /// Combines predictions of points as they are with predictions of them on known machines, each with a weight.
    /// Without any of the latter, the former count.
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

/// Parameters that carry a model over to a new machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Adaptation {
    /// The machines that the old model was trained on. Empty if nothing tells them apart; the old model is then asked
    /// without a machine.
    pub alike: Vec<Alike>,
    /// One factor.
    pub factor: Correction,
    /// Level, intensity and kind.
    pub correction: Correction,
    /// Smallest and largest ratio of a measurement to the old model's prediction for the similar machines, log2.
    pub extent: [f64; 2],
    /// Trees, where there are measurements enough.
    pub fresh: Option<Fresh>,
    /// The weight of each prediction.
    pub shares: Shares,
}

/// A prediction mixed of several, log2.
pub fn mixed<const N: usize>(shares: &[f64; N], own: &[f64; N]) -> f64 {
    shares.iter().zip(own).map(|(share, own)| share * own).sum()
}

impl Adaptation {
    /// All predictions (log2 ns) of points, from those of the old model; `kinds` has the kind of each point.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
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

    /// Predictions (log2 ns) of points on the new machine, from those of the old model; `kinds` has the kind of each
    /// point.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn carried(&self, points: &[&Point], kinds: &[&str], old: &Old) -> Result<Vec<f64>> {
        let ways = self.ways(points, kinds, old)?;
        Ok(ways.iter().map(|own| mixed(&self.shares, own)).collect())
    }

    /// The weight of a model of the measurements alone, 0 to 1.
    pub fn own_share(&self) -> f64 {
        self.shares[ALONE]
    }
}
