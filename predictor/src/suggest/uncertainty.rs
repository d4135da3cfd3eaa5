//! Uncertainty of points, given the measured ones: a Gaussian process over [`Similarity`].
//!
//! The variance of a point is 1 where nothing similar was measured and falls towards 0 near measured ones. Measuring a
//! point removes the variance that others share with it. The sum of these reductions, with the weights of the
//! objective, is the point's gain (active learning after Cohn, *Neural network exploration using optimal experiment
//! design*, 1996). Points similar to one already chosen have little left to gain, so a batch chosen one by one is not
//! redundant.

use nalgebra::{Cholesky, DMatrix, DMatrixViewMut};
use rayon::prelude::*;

use super::similarity::Similarity;

/// Variance that measuring cannot remove, relative to that of a point without any information. It is noise, and effects
/// that no feature shows.
const NOISE: f32 = 0.5;

/// The joint uncertainty of some points.
#[derive(Debug, Clone)]
pub struct Uncertainty {
    /// Number of points.
    count: usize,
    /// Their covariance, row by row.
    covariance: Vec<f32>,
    /// Weight of each point in the objective.
    weights: Vec<f32>,
}

impl Uncertainty {
    /// The uncertainty at the points `unknown`, after those at `known` were measured. `weights` are those of the
    /// unknown points in the objective.
    pub fn new(
        similarity: &Similarity,
        known: &[usize],
        unknown: &[usize],
        weights: &[f64],
    ) -> Self {
        let count = unknown.len();
        let explained = explained(similarity, known, unknown);
        let transposed = explained.transpose();
        let block = block(count);
        let mut covariance = vec![0.0; count * count];
        covariance
            .par_chunks_mut((count * block).max(1))
            .enumerate()
            .for_each(|(place, values)| {
                let (first, width) = (place * block, values.len() / count);
                let mut part = DMatrixViewMut::from_slice(values, count, width);
                fill(&mut part, |row, column| {
                    similarity.between(unknown[row], unknown[first + column])
                });
                part.gemm(-1.0, &transposed, &explained.columns(first, width), 1.0);
            });
        Self {
            count,
            covariance,
            weights: weights.iter().map(|i| *i as f32).collect(),
        }
    }

    /// Weighted sum of the variances.
    pub fn total(&self) -> f64 {
        (0..self.count)
            .map(|a| f64::from(self.weights[a] * self.covariance[a * self.count + a].max(0.0)))
            .sum()
    }

    /// Weighted sum of the variances and of the noise that measuring cannot remove. Mean squared errors are
    /// proportional to it.
    pub fn total_with_noise(&self) -> f64 {
        self.total() + f64::from(NOISE) * self.weights.iter().map(|i| f64::from(*i)).sum::<f64>()
    }

    /// Reduction of the weighted sum of variances by the measurement of each point.
    pub fn gains(&self) -> Vec<f32> {
        self.covariance
            .par_chunks(self.count.max(1))
            .enumerate()
            .map(|(a, row)| self.gain(a, row))
            .collect()
    }

    /// Takes a point as measured.
    pub fn learn(&mut self, point: usize) {
        let count = self.count;
        let learned = self.covariance[point * count..(point + 1) * count].to_vec();
        let scale = 1.0 / (learned[point].max(0.0) + NOISE);
        self.covariance
            .par_chunks_mut(count)
            .enumerate()
            .for_each(|(a, row)| subtract(row, learned[a] * scale, &learned));
    }

    fn gain(&self, a: usize, row: &[f32]) -> f32 {
        let squares = row.iter().zip(&self.weights);
        // Eight sums at a time: one would have to be added up in order.
        let mut sums = [0.0f32; 8];
        for (place, (value, weight)) in squares.enumerate() {
            sums[place % 8] += weight * value * value;
        }
        sums.iter().sum::<f32>() / (row[a].max(0.0) + NOISE)
    }
}

/// `row -= factor · column`.
fn subtract(row: &mut [f32], factor: f32, column: &[f32]) {
    for (value, other) in row.iter_mut().zip(column) {
        *value -= factor * other;
    }
}

/// Columns of a matrix that are worked on together.
fn block(columns: usize) -> usize {
    columns.div_ceil(2 * rayon::current_num_threads()).max(1)
}

fn fill(matrix: &mut DMatrixViewMut<'_, f32>, value: impl Fn(usize, usize) -> f32) {
    for (column, mut values) in matrix.column_iter_mut().enumerate() {
        for (row, entry) in values.iter_mut().enumerate() {
            *entry = value(row, column);
        }
    }
}

/// L⁻¹ K of the known points with the unknown ones. L Lᵀ is the known points' own covariance with its noise. Each
/// unknown point has a column. Its squares are what is explained of their variance.
fn explained(similarity: &Similarity, known: &[usize], unknown: &[usize]) -> DMatrix<f32> {
    let size = known.len();
    let mut explained = DMatrix::zeros(size, unknown.len());
    if size == 0 {
        return explained;
    }
    let mut own = DMatrix::zeros(size, size);
    own.as_mut_slice()
        .par_chunks_mut(size)
        .enumerate()
        .for_each(|(column, values)| {
            for row in column..size {
                values[row] = similarity.between(known[column], known[row]);
            }
            values[column] += NOISE;
        });
    // The noise keeps the matrix far from singular: there is always a factor.
    let Some(factor) = Cholesky::new_with_substitute(own, NOISE / 2.0) else {
        return explained;
    };
    let lower = factor.l();
    let block = block(unknown.len());
    explained
        .as_mut_slice()
        .par_chunks_mut(size * block)
        .enumerate()
        .for_each(|(place, values)| {
            let (first, width) = (place * block, values.len() / size);
            let mut part = DMatrixViewMut::from_slice(values, size, width);
            fill(&mut part, |row, column| {
                similarity.between(known[row], unknown[first + column])
            });
            lower.solve_lower_triangular_mut(&mut part);
        });
    explained
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::features::Point;
    use oplearn::testing::points;

    use super::super::similarity::Importance;

    fn similarity() -> Similarity {
        let points = points(&[
            (0.0, 0.0),
            (1.0, 0.0),
            (2.0, 1.0),
            (5.0, 3.0),
            (5.0, 4.0),
            (9.0, 0.0),
        ]);
        Similarity::new(
            &Importance::of_two_features(),
            &points.iter().collect::<Vec<&Point>>(),
        )
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }

    #[test]
    fn a_gain_is_what_learning_takes_away() {
        let weights = [1.0, 2.0, 0.5, 1.0, 3.0];
        let before = Uncertainty::new(&similarity(), &[0], &[1, 2, 3, 4, 5], &weights);
        for (point, gain) in before.gains().into_iter().enumerate() {
            let mut after = before.clone();
            after.learn(point);
            close(before.total() - after.total(), f64::from(gain));
        }
    }

    #[test]
    fn it_does_not_matter_when_a_point_was_measured() {
        let all = Uncertainty::new(&similarity(), &[0, 2], &[1, 3, 4, 5], &[1.0; 4]);
        let mut later = Uncertainty::new(
            &similarity(),
            &[0],
            &[1, 2, 3, 4, 5],
            &[1.0, 0.0, 1.0, 1.0, 1.0],
        );
        later.learn(1);
        close(all.total(), later.total());
        let nothing = Uncertainty::new(&similarity(), &[], &[0, 1], &[1.0; 2]);
        close(nothing.total(), 2.0);
    }
}
