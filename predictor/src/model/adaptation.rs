//! What carries a model over to a new machine: several predictions from a few measurements there, and how much each counts.
//!
//! | place | prediction |
//! | --- | --- |
//! | 0 | the old model's, as it is |
//! | 1 | … times one factor |
//! | 2 | … corrected by level, intensity and kind ([`Correction`]) |
//! | 3 | … and by trees that learned what is left of the measurements |
//! | 4 | the old model's times what the new machine takes for arithmetic, traffic, … over what the old one did ([`Rates`]) |
//! | 5 | that of a model of the measurements alone |
//!
//! Few measurements make neither trees nor rates: then the last three are missing and do not count. None of the corrections goes
//! beyond the ratios to the old model that were measured: between ten points they know little, and outside nothing.

use oplearn::features::Point;
use oplearn::models::Regressor;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::member::Member;
use oplearn::models::rates::Rates;

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
    /// What the old machine takes for each part of a kernel, by the old model, and the new one.
    pub rates: [Rates; 2],
    /// A model of the measurements alone.
    pub alone: Ensemble,
}

/// What carries a model over to a new machine.
#[derive(Debug)]
pub struct Adaptation {
    /// One factor.
    pub factor: Correction,
    /// Level, intensity and kind.
    pub correction: Correction,
    /// Least and greatest ratio of a measurement to the old model's prediction, log2.
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
    pub fn ways(&self, points: &[&Point], kinds: &[&str], old: &[f64]) -> Result<Vec<[f64; WAYS]>> {
        let mut rest = vec![0.0; points.len()];
        let (mut by_rates, mut alone) = (vec![0.0; points.len()], vec![0.0; points.len()]);
        if let Some(fresh) = &self.fresh {
            for member in &fresh.rest {
                for (sum, own) in rest.iter_mut().zip(member.predict(points)?) {
                    *sum += own / fresh.rest.len() as f64;
                }
            }
            let [before, now] = &fresh.rates;
            for ((sum, point), old) in by_rates.iter_mut().zip(points).zip(old) {
                *sum = old + now.estimate(point) - before.estimate(point);
            }
            alone = fresh.alone.predict(points)?;
        }
        let [least, greatest] = self.extent;
        Ok((0..points.len())
            .map(|i| {
                let within = |ratio: f64| old[i] + ratio.max(least).min(greatest);
                let correction = self.correction.of(points[i], kinds[i]);
                let factor = old[i] + self.factor.of(points[i], kinds[i]);
                let (corrected, trees) = (within(correction), within(correction + rest[i]));
                let by_rates = within(by_rates[i] - old[i]);
                [old[i], factor, corrected, trees, by_rates, alone[i]]
            })
            .collect())
    }

    /// Predictions (log2 ns) of points of some kinds on the new machine, from those of the old model.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn carried(&self, points: &[&Point], kinds: &[&str], old: &[f64]) -> Result<Vec<f64>> {
        let ways = self.ways(points, kinds, old)?;
        Ok(ways.iter().map(|own| mixed(&self.shares, own)).collect())
    }

    /// How much a model of the measurements alone counts, 0 to 1.
    pub fn own_share(&self) -> f64 {
        self.shares[ALONE]
    }
}
