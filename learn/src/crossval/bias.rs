//! The constant that makes the mean relative error smallest when it is added to logarithms of predictions.
//!
//! With a = predicted ÷ measured, the sum of |s·a − 1| is smallest at the median of 1/a weighted by a.

use opdata::stats::weighted_quantile_of_sorted;

/// The furthest that predictions are moved, log2: beyond it the model is wrong, not the noise.
const LARGEST: f64 = 0.5;

/// Logarithms of predictions and measurements, sorted once.
#[derive(Debug, Clone)]
pub struct Bias {
    /// log2(measured ÷ predicted), weight (predicted ÷ measured), fold; sorted by the first.
    entries: Vec<(f64, f64, usize)>,
}

impl Bias {
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

    /// The best bias of all samples, or of all but one fold's, log2. 0 without samples.
    pub fn estimate(&self, without: Option<usize>) -> f64 {
        let kept = || self.entries.iter().filter(|e| Some(e.2) != without);
        weighted_quantile_of_sorted(kept().map(|e| (e.0, e.1)), 0.5)
            .map_or(0.0, |ratio| ratio.clamp(-LARGEST, LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use crate::crossval::bias::*;

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
        let best = Bias::new(&predicted, &measured, &[0; 6]).estimate(None);
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
        let bias = Bias::new(&[0.0, 0.0], &[0.2, -0.1], &[0, 1]);
        assert_eq!(
            (bias.estimate(Some(0)), bias.estimate(Some(1))),
            (-0.1, 0.2)
        );
        assert_eq!(Bias::new(&[], &[], &[]).estimate(None), 0.0);
    }
}
