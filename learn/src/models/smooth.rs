//! Measured times without their noise: a regression on the similarity of points, robust against measurements under
//! interference.
//!
//! A quick log has kernels that were measured once while something else ran, and took 1.5 or 3 times as long. Trees
//! learn such a time in a leaf of its own; here the points around it outvote it. The times (less an estimate, as for a
//! member of the ensemble) are a sum of similarities with centres among the points. Roughness is penalised (subset of
//! regressors, Smola and Bartlett 2001); each round counts points less the further off they were (Charbonnier loss by
//! reweighting).

use nalgebra::{Cholesky, DMatrix, DVector};
use opdata::stats::median;

use super::similarity::Similarity;

/// Centres at most.
const CENTRES: usize = 160;
/// Penalty on the roughness of the sum: variance of one measurement over that of the times.
const NOISE: f64 = 0.5;
/// Deviations beyond this count by their size and no longer by its square, log2.
const USUAL_DEVIATION: f64 = 0.3;
/// Minimum weight of a point.
const LEAST_WEIGHT: f64 = 0.05;
/// Rounds of reweighting.
const ROUNDS: usize = 3;

/// Similarities of points with the centres. Smoothing needs nothing else of the points.
#[derive(Debug)]
pub struct Smoother {
    /// Similarity with each centre, a row for each point.
    rows: Vec<f64>,
    /// Similarity of the centres with each other.
    between: Vec<f64>,
    /// Number of centres.
    centres: usize,
}

impl Smoother {
    /// Prepares smoothing over the first `count` points.
    pub fn new(similarity: &Similarity, count: usize) -> Self {
        // Samples of a workload stand together, so even steps leave none out.
        let step = count.div_ceil(CENTRES).max(1);
        let centres: Vec<usize> = (0..count).step_by(step).collect();
        let with = |point: usize| {
            centres
                .iter()
                .map(move |&c| f64::from(similarity.between(point, c)))
        };
        Self {
            rows: (0..count).flat_map(with).collect(),
            between: centres.iter().flat_map(|&c| with(c)).collect(),
            centres: centres.len(),
        }
    }

    /// Smooths one value of each point, with the points' weights.
    pub fn smooth(&self, values: &[f64], weights: &[f64]) -> Vec<f64> {
        let Some(middle) = median(values.to_vec()) else {
            return Vec::new();
        };
        let mut current = weights.to_vec();
        let mut smooth = vec![middle; values.len()];
        for _ in 0..ROUNDS {
            let shares = self.solve(values, middle, &current);
            for (value, row) in smooth.iter_mut().zip(self.rows.chunks_exact(self.centres)) {
                *value = middle + dot(row, &shares);
            }
            for (place, weight) in current.iter_mut().enumerate() {
                let deviation = (values[place] - smooth[place]) / USUAL_DEVIATION;
                *weight = (weights[place] / deviation.hypot(1.0)).max(LEAST_WEIGHT);
            }
        }
        smooth
    }

    /// The coefficient of each centre.
    fn solve(&self, values: &[f64], middle: f64, weights: &[f64]) -> Vec<f64> {
        let width = self.centres;
        // Only the lower triangle of the symmetric matrix is made and read.
        let mut normal = NOISE * DMatrix::from_row_slice(width, width, &self.between);
        let mut right = DVector::zeros(width);
        let points = self.rows.chunks_exact(width).zip(values).zip(weights);
        for ((row, value), weight) in points {
            for (place, own) in row.iter().enumerate() {
                let scaled = weight * own;
                right[place] += scaled * (value - middle);
                let column = &mut normal.column_mut(place).data.into_slice_mut()[place..];
                for (sum, other) in column.iter_mut().zip(&row[place..]) {
                    *sum += scaled * other;
                }
            }
        }
        solve_symmetric(normal, right)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves a symmetric, positive definite system given by its lower triangle.
fn solve_symmetric(mut matrix: DMatrix<f64>, right: DVector<f64>) -> Vec<f64> {
    // Two centres at the same place make the matrix singular; a little on its diagonal lets them share.
    let jitter = 1e-9 * matrix.diagonal().amax().max(1e-9);
    for place in 0..matrix.nrows() {
        matrix[(place, place)] += jitter;
    }
    match Cholesky::new_with_substitute(matrix, jitter) {
        Some(factor) => factor.solve(&right).as_slice().to_vec(),
        None => vec![0.0; right.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Point;
    use crate::testing::{points, two_features};

    fn smoother(places: &[(f32, f32)]) -> Smoother {
        let points = points(places);
        let all: Vec<&Point> = points.iter().collect();
        Smoother::new(&Similarity::new(&two_features(), &all), all.len())
    }

    #[test]
    fn a_system_is_solved() {
        // Lower triangle of [[4, 2], [2, 3]]; the upper entry is not read.
        let matrix = DMatrix::from_row_slice(2, 2, &[4.0, f64::NAN, 2.0, 3.0]);
        let solved = solve_symmetric(matrix, DVector::from_vec(vec![10.0, 9.0]));
        assert!((solved[0] - 1.5).abs() < 1e-6 && (solved[1] - 2.0).abs() < 1e-6);
    }

    #[test]
    fn one_point_alone_keeps_the_middle_and_none_are_none() {
        assert_eq!(smoother(&[(0.0, 0.0)]).smooth(&[3.0], &[1.0]), [3.0]);
        assert_eq!(smoother(&[]).smooth(&[], &[]), [0.0; 0]);
    }

    #[test]
    fn a_disturbed_time_is_outvoted_and_a_trend_is_kept() {
        let places: Vec<(f32, f32)> = (0..60).map(|i| (i as f32 / 10.0, 0.0)).collect();
        let truth: Vec<f64> = (0..60).map(|i| f64::from(i) / 20.0).collect();
        let mut values = truth.clone();
        values[30] += 2.0;
        let smoother = smoother(&places);
        let smooth = smoother.smooth(&values, &[1.0; 60]);
        assert!((smooth[30] - truth[30]).abs() < 0.3, "{}", smooth[30]);
        for place in [5, 20, 45, 55] {
            assert!((smooth[place] - truth[place]).abs() < 0.15, "{place}");
        }
        // A point of little weight is heard less than one of full weight.
        let mut weights = [1.0; 60];
        weights[30] = 0.01;
        let deaf = smoother.smooth(&values, &weights);
        assert!(deaf[30] < smooth[30]);
    }

    #[test]
    fn points_at_one_place_get_one_value() {
        let smooth = smoother(&[(0.0, 0.0); 4]).smooth(&[1.0, 1.2, 0.9, 1.1], &[1.0; 4]);
        assert!(smooth.iter().all(|v| (v - smooth[0]).abs() < 1e-9));
        assert!(smooth[0] > 0.9 && smooth[0] < 1.2);
    }
}
