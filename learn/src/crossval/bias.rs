//! The constants that make the mean relative error smallest when added to logarithms of predictions. Each kind of
//! operator with enough samples has its own; all others share one.
//!
//! With a = predicted ÷ measured, the sum of |s·a − 1| is smallest at the median of 1/a weighted by a.

use std::collections::BTreeMap;

use opdata::stats::weighted_quantile_of_sorted;
use serde::{Deserialize, Serialize};

use super::folds::OutOfFold;
use crate::data::Dataset;

/// The furthest that predictions are moved, log2: beyond it the model is wrong, not the noise.
const LARGEST: f64 = 0.5;
/// A kind with fewer samples gets the correction of all kinds together.
const KIND_SAMPLES: usize = 40;

/// Logarithms of predictions and measurements, sorted once.
#[derive(Debug, Clone)]
pub struct GroupBias {
    /// log2(measured ÷ predicted), weight (predicted ÷ measured), fold; sorted by the first.
    entries: Vec<(f64, f64, usize)>,
}

impl GroupBias {
    /// Prepares predictions, measurements and folds of the same samples.
    pub fn new(predicted: &[f64], measured: &[f64], folds: &[usize]) -> Self {
        let mut entries: Vec<(f64, f64, usize)> = predicted
            .iter()
            .zip(measured)
            .zip(folds)
            .map(|((p, m), &fold)| (m - p, (p - m).exp2(), fold))
            .collect();
        entries.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { entries }
    }

    /// Number of samples, with or without those of one fold.
    fn samples(&self, without: Option<usize>) -> usize {
        self.entries.iter().filter(|e| Some(e.2) != without).count()
    }

    /// The best bias of all samples, or of all but one fold's, log2. 0 without samples.
    pub fn estimate(&self, without: Option<usize>) -> f64 {
        let kept = || self.entries.iter().filter(|e| Some(e.2) != without);
        weighted_quantile_of_sorted(kept().map(|e| (e.0, e.1)), 0.5)
            .map_or(0.0, |ratio| ratio.clamp(-LARGEST, LARGEST))
    }
}

/// The bias correction added to predictions, log2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BiasCorrection {
    overall: f64,
    kinds: BTreeMap<String, f64>,
}

impl BiasCorrection {
    /// The correction of a kind.
    pub fn for_kind(&self, kind: &str) -> f64 {
        self.kinds.get(kind).copied().unwrap_or(self.overall)
    }

    /// Predictions of held-out samples, corrected.
    pub fn corrected(&self, dataset: &Dataset, out_of_fold: &OutOfFold) -> Vec<f64> {
        let of = out_of_fold.predicted.iter().zip(&out_of_fold.index);
        of.map(|(p, &i)| p + self.for_kind(&dataset.samples[i].kind))
            .collect()
    }
}

/// Finds the corrections of all folds, each time without one fold's samples.
#[derive(Debug, Clone)]
pub struct BiasEstimator {
    overall: GroupBias,
    kinds: BTreeMap<String, GroupBias>,
}

impl BiasEstimator {
    /// Prepares predictions, measurements, folds and kinds of the same samples.
    pub fn new(predicted: &[f64], measured: &[f64], folds: &[usize], kinds: &[&str]) -> Self {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, kind) in kinds.iter().enumerate() {
            places.entry(kind).or_default().push(place);
        }
        let kinds = places.into_iter().map(|(kind, places)| {
            let pick = |values: &[f64]| places.iter().map(|&p| values[p]).collect::<Vec<_>>();
            let own: Vec<usize> = places.iter().map(|&p| folds[p]).collect();
            (
                kind.to_owned(),
                GroupBias::new(&pick(predicted), &pick(measured), &own),
            )
        });
        Self {
            overall: GroupBias::new(predicted, measured, folds),
            kinds: kinds.collect(),
        }
    }

    /// The best corrections of all samples, or of all but one fold's.
    pub fn estimate(&self, without: Option<usize>) -> BiasCorrection {
        BiasCorrection {
            overall: self.overall.estimate(without),
            kinds: self
                .kinds
                .iter()
                .filter(|(_, group)| group.samples(without) >= KIND_SAMPLES)
                .map(|(kind, group)| (kind.clone(), group.estimate(without)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::crossval::bias::*;

    #[test]
    fn a_kind_with_enough_samples_has_its_own_bias() {
        let kinds: Vec<&str> = (0..50)
            .map(|i| if i < 45 { "many" } else { "few" })
            .collect();
        let measured: Vec<f64> = (0..50).map(|i| if i < 45 { 0.1 } else { 0.3 }).collect();
        let group = BiasEstimator::new(&[0.0; 50], &measured, &[0; 50], &kinds);
        let correction = group.estimate(None);
        assert_eq!(
            (
                correction.for_kind("many"),
                correction.for_kind("few"),
                correction.for_kind("none")
            ),
            (0.1, 0.1, 0.1)
        );
        assert_eq!(group.estimate(Some(0)), BiasCorrection::default());
        let few: Vec<f64> = measured.iter().map(|m| 0.4 - m).collect();
        let group = BiasEstimator::new(&[0.0; 50], &few, &[0; 50], &kinds);
        assert!((group.estimate(None).for_kind("many") - 0.3).abs() < 1e-12);
    }

    fn error(bias: f64, predicted: &[f64], measured: &[f64]) -> f64 {
        predicted
            .iter()
            .zip(measured)
            .map(|(p, m)| ((p + bias - m).exp2() - 1.0).abs())
            .sum()
    }

    #[test]
    fn the_bias_is_the_best_there_is() {
        let measured = [1.0, 2.0, 3.0, 2.5, 7.0, 4.0];
        let predicted = [1.2, 2.1, 2.7, 2.9, 6.2, 4.3];
        let group = GroupBias::new(&predicted, &measured, &[0; 6]);
        let best = group.estimate(None);
        for step in -50..=50 {
            let other = f64::from(step) / 100.0;
            assert!(
                error(best, &predicted, &measured) <= error(other, &predicted, &measured) + 1e-12
            );
        }
        assert!(best < 0.0, "one that is too slow does not pull the rest up");
    }

    #[test]
    fn a_fold_does_not_measure_its_own_bias() {
        let group = GroupBias::new(&[0.0, 0.0], &[0.2, -0.1], &[0, 1]);
        assert_eq!(
            (group.estimate(Some(0)), group.estimate(Some(1))),
            (-0.1, 0.2)
        );
        assert_eq!(GroupBias::new(&[], &[], &[]).estimate(None), 0.0);
    }
}
