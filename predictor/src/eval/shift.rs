//! The constant that, added to logarithms of predictions, makes the mean relative error smallest.
//!
//! With a = predicted ÷ measured, the sum of |s·a − 1| is smallest at the median of 1/a weighted by a.

/// The furthest that predictions are moved, log2: beyond it the model is wrong, not the noise.
const LARGEST: f64 = 0.25;

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

    /// The best shift of all samples, or of all but one fold's, log2. 0 without samples.
    pub fn shift(&self, without: Option<usize>) -> f64 {
        let kept = || self.entries.iter().filter(|e| Some(e.2) != without);
        let half = kept().map(|e| e.1).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        for (ratio, weight, _) in kept() {
            sum += weight;
            if sum >= half {
                return ratio.clamp(-LARGEST, LARGEST);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
