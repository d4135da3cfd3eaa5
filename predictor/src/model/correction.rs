//! Correction of an old machine's predicted times for a new machine.
//!
//! log2(new ÷ predicted) = offset + slope × (intensity − mean) + residual by kind. The slope separates compute-bound
//! from memory-bound work: a machine with twice the arithmetic and the same memory has one. Each term is shrunk towards
//! zero by a prior number of measurements.

use std::collections::BTreeMap;

use opdata::stats::weighted_median;
use oplearn::features::Point;
use serde::{Deserialize, Serialize};

/// Measurements that the slope is shrunk by (in units of the intensity's variance).
const SLOPE_PRIOR: f64 = 4.0;
/// Number of measurements that a kind's residual is shrunk by.
const KIND_PRIOR: f64 = 3.0;
/// Intensity assumed where there is no arithmetic, log2 flop/byte.
const LEAST_INTENSITY: f64 = -4.0;

/// A correction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Number of measurements that it was fitted to.
    pub measurements: usize,
    offset: f64,
    slope: f64,
    mean: f64,
    kinds: BTreeMap<String, f64>,
}

fn intensity(point: &Point) -> f64 {
    (point.flops / point.bytes.max(1.0))
        .max(1e-9)
        .log2()
        .max(LEAST_INTENSITY)
}

impl Correction {
    /// The offset c for which the mean of |2^c ÷ 2^e − 1| over errors e is smallest. Answers are judged by relative
    /// errors, and those of too large answers have no bound. It is the weighted median with the weights 2^−e.
    pub(crate) fn centre(errors: &[f64]) -> f64 {
        weighted_median(errors.iter().map(|e| (*e, (-e).exp2()))).unwrap_or(0.0)
    }

    /// Fits the correction to points, their kinds and log2(measured ÷ predicted).
    pub fn fit(points: &[&Point], kinds: &[&str], errors: &[f64]) -> Self {
        let offset = Self::centre(errors);
        let intensities: Vec<f64> = points.iter().map(|p| intensity(p)).collect();
        let count = intensities.len().max(1) as f64;
        let mean = intensities.iter().sum::<f64>() / count;
        let variance = intensities.iter().map(|i| (i - mean).powi(2)).sum::<f64>() / count;
        let together: f64 = intensities
            .iter()
            .zip(errors)
            .map(|(i, e)| (i - mean) * (e - offset))
            .sum();
        let spread = variance * (count + SLOPE_PRIOR);
        let slope = if spread > 1e-9 {
            together / spread
        } else {
            0.0
        };
        let mut rests: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for ((kind, error), intensity) in kinds.iter().zip(errors).zip(&intensities) {
            rests
                .entry(kind)
                .or_default()
                .push(error - offset - slope * (intensity - mean));
        }
        Self {
            measurements: errors.len(),
            offset,
            slope,
            mean,
            kinds: rests
                .into_iter()
                .map(|(kind, rest)| {
                    let weight = rest.len() as f64 / (rest.len() as f64 + KIND_PRIOR);
                    (kind.to_owned(), weight * Self::centre(&rest))
                })
                .collect(),
        }
    }

    /// One factor for everything.
    pub fn one_factor(errors: &[f64]) -> Self {
        Self {
            measurements: errors.len(),
            offset: Self::centre(errors),
            ..Self::default()
        }
    }

    /// The correction of a prediction, log2: added to its logarithm.
    pub fn of(&self, point: &Point, kind: &str) -> f64 {
        let rest = self.kinds.get(kind).copied().unwrap_or(0.0);
        self.offset + self.slope * (intensity(point) - self.mean) + rest
    }
}

#[cfg(test)]
mod tests {
    use crate::model::correction::*;
    use oplearn::features::base::Bases;

    fn point(flops: f64, bytes: f64) -> Point {
        Point {
            known: Vec::new(),
            machine: 0,
            features: Vec::new(),
            bases: Bases::default(),
            flops,
            bytes,
            workload: 0,
        }
    }

    #[test]
    fn a_machine_with_more_arithmetic_and_the_same_memory_is_recognised() {
        let points: Vec<Point> = (0..40)
            .map(|i| point(f64::from(1 << (i % 8)), 1.0))
            .collect();
        let all: Vec<&Point> = points.iter().collect();
        // Half the time where arithmetic rules, the same where memory does.
        let errors: Vec<f64> = (0..40)
            .map(|i| if i % 8 >= 4 { -1.0 } else { 0.0 })
            .collect();
        let correction = Correction::fit(&all, &["conv2d"; 40], &errors);
        assert!(correction.of(&point(128.0, 1.0), "conv2d") < -0.8);
        assert!(correction.of(&point(1.0, 1.0), "conv2d") > -0.3);
    }

    #[test]
    fn the_centre_has_the_smallest_relative_error() {
        let errors = [-2.0, -0.3, 0.1, 0.4, 1.5, 2.5];
        let cost = |c: f64| {
            errors
                .iter()
                .map(|e| ((c - e).exp2() - 1.0).abs())
                .sum::<f64>()
        };
        let best = cost(Correction::centre(&errors));
        assert!((-300..300).all(|c| cost(f64::from(c) / 100.0) >= best - 1e-9));
        assert_eq!(Correction::centre(&[]), 0.0);
    }

    #[test]
    fn a_plain_factor_is_found_and_nothing_is_made_of_nothing() {
        let points: Vec<Point> = (1..9).map(|i| point(f64::from(i), 1.0)).collect();
        let all: Vec<&Point> = points.iter().collect();
        let correction = Correction::fit(&all, &["dense"; 8], &[0.7; 8]);
        assert!((correction.of(&points[3], "softmax") - 0.7).abs() < 1e-9);
        let none = Correction::fit(&[], &[], &[]);
        assert_eq!(none.of(&points[0], "dense"), 0.0);
    }
}
