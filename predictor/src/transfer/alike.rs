//! Finds the machines of the training data that a new one is similar to.
//!
//! The model predicts the measured points as if each known machine ran them. A constant factor between two machines
//! says nothing about their similarity, so only the rest of the error counts. Under normal errors of unknown size a
//! machine's likelihood is (mean square)^(−measurements ÷ 2).

use crate::model::Correction;

/// Weight of a measurement: those of similar shapes partly repeat each other.
const WORTH: f64 = 0.5;
/// Larger errors, log2, count as this one, so that one measurement under interference does not decide.
const LARGEST_ERROR: f64 = 2.0;
/// Added to mean squares, log2². Smaller differences between machines are noise of the measurements.
const NOISE: f64 = 1e-4;

/// Shares below this are left out: each machine that counts is asked about every point.
const NEGLIGIBLE: f64 = 0.01;

/// Weights of some machines (not negative, sum one), from log2(measured ÷ predicted as if it ran the point) by machine,
/// then by measurement. Without measurements all are equal.
pub fn shares(errors: &[Vec<f64>]) -> Vec<f64> {
    let likelihoods: Vec<f64> = errors.iter().map(|own| log_likelihood(own)).collect();
    let best = likelihoods
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let counts: Vec<f64> = likelihoods.iter().map(|own| (own - best).exp()).collect();
    let least = NEGLIGIBLE * counts.iter().sum::<f64>();
    let counting = |count: f64| if count < least { 0.0 } else { count };
    let sum: f64 = counts.iter().copied().map(counting).sum();
    counts
        .into_iter()
        .map(|count| counting(count) / sum)
        .collect()
}

/// Natural logarithm, up to a constant.
fn log_likelihood(errors: &[f64]) -> f64 {
    let centre = Correction::centre(errors);
    let squares = errors
        .iter()
        .map(|error| (error - centre).abs().min(LARGEST_ERROR).powi(2));
    let mean = squares.sum::<f64>() / errors.len().max(1) as f64;
    -WORTH * errors.len() as f64 / 2.0 * (mean + NOISE).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_factor_explains_is_like_however_slow() {
        let wave = |number: usize, size: f64| size * f64::from([1, -1, 0, 1, 0, -1][number % 6]);
        let errors = |offset: f64, size: f64| (0..12).map(|i| offset + wave(i, size)).collect();
        let found = shares(&[errors(3.0, 0.1), errors(0.0, 0.4), errors(0.0, 0.1)]);
        assert!(
            (found[0] - found[2]).abs() < 1e-9 && found[1] < 0.01,
            "{found:?}"
        );
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_measurements_say_little_and_none_nothing() {
        let few = shares(&[vec![0.1, -0.1], vec![0.2, -0.2]]);
        assert!(few[1] > 0.2, "{few:?}");
        assert_eq!(shares(&[vec![], vec![]]), [0.5, 0.5]);
        assert_eq!(shares(&[vec![0.3]]), [1.0]);
        assert!(shares(&[]).is_empty());
    }
}
