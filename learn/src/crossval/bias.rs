//! The constants that, added to logarithms of predictions, make the mean relative error smallest: one for each kind of
//! operator with enough samples, one for all others.
//!
//! With a = predicted ÷ measured, the sum of |s·a − 1| is smallest at the median of 1/a weighted by a.

use std::collections::BTreeMap;

use opdata::stats::weighted_quantile_of_sorted;
use serde::{Deserialize, Serialize};

use super::folds::OutOfFold;
use crate::data::Dataset;

/// The furthest that predictions are moved, log2: beyond it the model is wrong, not the noise.
const LARGEST: f64 = 0.5;
/// A kind with fewer samples is moved as all others are.
const KIND_SAMPLES: usize = 40;

/// Logarithms of predictions and measurements, sorted once.
#[derive(Debug, Clone)]
pub struct ShiftFinder {
    /// log2(measured ÷ predicted), weight (predicted ÷ measured), fold; by the first.
    entries: Vec<(f64, f64, usize)>,
}

impl ShiftFinder {
    /// From predictions, measurements and folds of the same samples.
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

    /// Samples, all or without one fold's.
    fn samples(&self, without: Option<usize>) -> usize {
        self.entries.iter().filter(|e| Some(e.2) != without).count()
    }

    /// The best shift of all samples, or of all but one fold's, log2. 0 without samples.
    pub fn shift(&self, without: Option<usize>) -> f64 {
        let kept = || self.entries.iter().filter(|e| Some(e.2) != without);
        weighted_quantile_of_sorted(kept().map(|e| (e.0, e.1)), 0.5)
            .map_or(0.0, |ratio| ratio.clamp(-LARGEST, LARGEST))
    }
}

/// What predictions are moved by, log2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shifts {
    overall: f64,
    kinds: BTreeMap<String, f64>,
}

impl Shifts {
    /// The shift of a kind.
    pub fn of(&self, kind: &str) -> f64 {
        self.kinds.get(kind).copied().unwrap_or(self.overall)
    }

    /// Predictions of held-out samples, moved.
    pub fn shifted(&self, dataset: &Dataset, held: &OutOfFold) -> Vec<f64> {
        let of = held.predicted.iter().zip(&held.index);
        of.map(|(p, &i)| p + self.of(&dataset.samples[i].kind))
            .collect()
    }
}

/// Finds shifts again and again, each time without one fold.
#[derive(Debug, Clone)]
pub struct ShiftsFinder {
    overall: ShiftFinder,
    kinds: BTreeMap<String, ShiftFinder>,
}

impl ShiftsFinder {
    /// From predictions, measurements, folds and kinds of the same samples.
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
                ShiftFinder::new(&pick(predicted), &pick(measured), &own),
            )
        });
        Self {
            overall: ShiftFinder::new(predicted, measured, folds),
            kinds: kinds.collect(),
        }
    }

    /// The best shifts of all samples, or of all but one fold's.
    pub fn shifts(&self, without: Option<usize>) -> Shifts {
        Shifts {
            overall: self.overall.shift(without),
            kinds: self
                .kinds
                .iter()
                .filter(|(_, finder)| finder.samples(without) >= KIND_SAMPLES)
                .map(|(kind, finder)| (kind.clone(), finder.shift(without)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::crossval::bias::*;

    #[test]
    fn a_kind_with_enough_samples_has_its_own_shift() {
        let kinds: Vec<&str> = (0..50)
            .map(|i| if i < 45 { "many" } else { "few" })
            .collect();
        let measured: Vec<f64> = (0..50).map(|i| if i < 45 { 0.1 } else { 0.3 }).collect();
        let finder = ShiftsFinder::new(&[0.0; 50], &measured, &[0; 50], &kinds);
        let shifts = finder.shifts(None);
        assert_eq!(
            (shifts.of("many"), shifts.of("few"), shifts.of("none")),
            (0.1, 0.1, 0.1)
        );
        assert_eq!(finder.shifts(Some(0)), Shifts::default());
        let few: Vec<f64> = measured.iter().map(|m| 0.4 - m).collect();
        let finder = ShiftsFinder::new(&[0.0; 50], &few, &[0; 50], &kinds);
        assert!((finder.shifts(None).of("many") - 0.3).abs() < 1e-12);
    }

    fn error(shift: f64, predicted: &[f64], measured: &[f64]) -> f64 {
        predicted
            .iter()
            .zip(measured)
            .map(|(p, m)| ((p + shift - m).exp2() - 1.0).abs())
            .sum()
    }

    #[test]
    fn the_shift_is_the_best_there_is() {
        let measured = [1.0, 2.0, 3.0, 2.5, 7.0, 4.0];
        let predicted = [1.2, 2.1, 2.7, 2.9, 6.2, 4.3];
        let finder = ShiftFinder::new(&predicted, &measured, &[0; 6]);
        let best = finder.shift(None);
        for step in -50..=50 {
            let other = f64::from(step) / 100.0;
            assert!(
                error(best, &predicted, &measured) <= error(other, &predicted, &measured) + 1e-12
            );
        }
        assert!(best < 0.0, "one that is too slow does not pull the rest up");
    }

    #[test]
    fn a_fold_does_not_tell_its_own_shift() {
        let finder = ShiftFinder::new(&[0.0, 0.0], &[0.2, -0.1], &[0, 1]);
        assert_eq!((finder.shift(Some(0)), finder.shift(Some(1))), (-0.1, 0.2));
        assert_eq!(ShiftFinder::new(&[], &[], &[]).shift(None), 0.0);
    }
}
