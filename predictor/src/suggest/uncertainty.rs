//! What is not known about some points, given the measured ones: a Gaussian process over [`Likeness`].
//!
//! The variance of a point is 1 where nothing like it was measured and falls towards 0 beside measured ones. Measuring a
//! point takes away from all others what they share with it; the sum of what is taken away, weighted by who cares, is
//! the point's gain (active learning after Cohn, *Neural network exploration using optimal experiment design*, 1996).
//! Points that are like one already chosen have little left to gain, so a batch chosen one by one is not redundant.

use oplearn::models::likeness::Likeness;
use rayon::prelude::*;

/// Variance that measuring cannot remove, relative to what nothing is known of: noise, and what features do not tell.
const NOISE: f32 = 0.5;

/// The joint uncertainty of some points.
#[derive(Debug, Clone)]
pub struct Uncertainty {
    /// Number of points.
    count: usize,
    /// Their covariance, row by row.
    covariance: Vec<f32>,
    /// How much each point is cared about.
    interest: Vec<f32>,
}

impl Uncertainty {
    /// Of the points at the places `unknown`, after those at `known` were measured. `interest` is how much each unknown
    /// point is cared about.
    pub fn new(likeness: &Likeness, known: &[usize], unknown: &[usize], interest: &[f64]) -> Self {
        let count = unknown.len();
        let shared = solved(likeness, known, unknown);
        let mut covariance = vec![0.0; count * count];
        covariance
            .par_chunks_mut(count.max(1))
            .enumerate()
            .for_each(|(a, row)| {
                for (value, &b) in row.iter_mut().zip(unknown) {
                    *value = likeness.of(unknown[a], b);
                }
                for column in shared.chunks_exact(count) {
                    subtract(row, column[a], column);
                }
            });
        Self {
            count,
            covariance,
            interest: interest.iter().map(|i| *i as f32).collect(),
        }
    }

    /// Weighted sum of the variances.
    pub fn total(&self) -> f64 {
        (0..self.count)
            .map(|a| f64::from(self.interest[a] * self.covariance[a * self.count + a].max(0.0)))
            .sum()
    }

    /// Weighted sum of the variances with what measuring cannot remove: mean squared errors are proportional to it.
    pub fn total_with_noise(&self) -> f64 {
        self.total() + f64::from(NOISE) * self.interest.iter().map(|i| f64::from(*i)).sum::<f64>()
    }

    /// How much the weighted sum of variances would fall if a point were measured, for all points.
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
        let squares = row.iter().zip(&self.interest);
        // Eight sums at a time: one would have to be added up in order.
        let mut sums = [0.0f32; 8];
        for (place, (value, interest)) in squares.enumerate() {
            sums[place % 8] += interest * value * value;
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

/// L⁻¹ K of the known points with the unknown ones, where L Lᵀ is the known points' own covariance: a row for each
/// known point.
fn solved(likeness: &Likeness, known: &[usize], unknown: &[usize]) -> Vec<f32> {
    let width = unknown.len();
    let mut shared: Vec<f32> = known
        .par_iter()
        .flat_map_iter(|&a| unknown.iter().map(move |&b| likeness.of(a, b)))
        .collect();
    let own: Vec<Vec<f32>> = known
        .par_iter()
        .enumerate()
        .map(|(row, &a)| {
            known[..=row]
                .iter()
                .map(|&b| likeness.of(a, b))
                .collect::<Vec<f32>>()
        })
        .collect();
    let factor = cholesky(own);
    // Blocks of columns are independent of each other.
    let block = width.div_ceil(2 * rayon::current_num_threads()).max(1);
    let mut rows: Vec<Vec<&mut [f32]>> = Vec::new();
    for row in shared.chunks_mut(width.max(1)) {
        for (place, part) in row.chunks_mut(block).enumerate() {
            if place == rows.len() {
                rows.push(Vec::new());
            }
            rows[place].push(part);
        }
    }
    rows.par_iter_mut().for_each(|rows| {
        for (row, factors) in factor.iter().enumerate() {
            let (above, below) = rows.split_at_mut(row);
            for (factor, other) in factors.iter().zip(above) {
                subtract(below[0], *factor, other);
            }
            let diagonal = factors[row];
            below[0].iter_mut().for_each(|value| *value /= diagonal);
        }
    });
    shared
}

/// The lower triangle L of `own` + noise = L Lᵀ, row by row.
fn cholesky(mut own: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    for row in 0..own.len() {
        let (above, below) = own.split_at_mut(row);
        let current = &mut below[0];
        for (column, other) in above.iter().enumerate() {
            let dot: f32 = current[..column]
                .iter()
                .zip(&other[..column])
                .map(|(a, b)| a * b)
                .sum();
            current[column] = (current[column] - dot) / other[column];
        }
        let squares: f32 = current[..row].iter().map(|v| v * v).sum();
        // The noise keeps the diagonal far from 0.
        current[row] = (current[row] + NOISE - squares).max(NOISE / 2.0).sqrt();
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::features::Point;
    use oplearn::testing::{points, two_features};

    fn likeness() -> Likeness {
        let points = points(&[
            (0.0, 0.0),
            (1.0, 0.0),
            (2.0, 1.0),
            (5.0, 3.0),
            (5.0, 4.0),
            (9.0, 0.0),
        ]);
        Likeness::new(&two_features(), &points.iter().collect::<Vec<&Point>>())
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }

    #[test]
    fn a_gain_is_what_learning_takes_away() {
        let interest = [1.0, 2.0, 0.5, 1.0, 3.0];
        let before = Uncertainty::new(&likeness(), &[0], &[1, 2, 3, 4, 5], &interest);
        for (point, gain) in before.gains().into_iter().enumerate() {
            let mut after = before.clone();
            after.learn(point);
            close(before.total() - after.total(), f64::from(gain));
        }
    }

    #[test]
    fn it_does_not_matter_when_a_point_was_measured() {
        let all = Uncertainty::new(&likeness(), &[0, 2], &[1, 3, 4, 5], &[1.0; 4]);
        let mut later = Uncertainty::new(
            &likeness(),
            &[0],
            &[1, 2, 3, 4, 5],
            &[1.0, 0.0, 1.0, 1.0, 1.0],
        );
        later.learn(1);
        close(all.total(), later.total());
        let nothing = Uncertainty::new(&likeness(), &[], &[0, 1], &[1.0; 2]);
        close(nothing.total(), 2.0);
    }
}
