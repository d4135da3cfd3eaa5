//! Linear least squares over a few terms, by QR decomposition of the terms' values.

use nalgebra::{DMatrix, DVector};

/// Minimum share of a term, by length, that the terms before it do not explain. Below it the points do not separate the
/// two.
const INDEPENDENT: f64 = 1e-9;

/// The coefficients of `terms` (each with its value at every point) that come closest to `values`. `None` if the points
/// do not determine them.
pub(super) fn least_squares(terms: &[Vec<f64>], values: &[f64]) -> Option<Vec<f64>> {
    let points = terms.first()?.len();
    if points < terms.len() {
        return None;
    }
    let matrix = DMatrix::from_fn(points, terms.len(), |point, term| terms[term][point]);
    let lengths: Vec<f64> = matrix.column_iter().map(|column| column.norm()).collect();
    let (q, r) = matrix.qr().unpack();
    let independent = |k: usize| r[(k, k)].abs() > INDEPENDENT * lengths[k];
    if !(0..terms.len()).all(independent) {
        return None;
    }
    let right = q.tr_mul(&DVector::from_column_slice(values));
    let found = r.solve_upper_triangular(&right)?;
    Some(found.iter().copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_noise_that_cancels() {
        let x = vec![0.0, 1.0, 2.0, 3.0];
        let found = least_squares(&[vec![1.0; 4], x], &[1.1, 2.9, 4.9, 7.1]).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_the_points_do_not_determine_is_none() {
        let same = vec![1.0, 2.0, 3.0];
        assert_eq!(least_squares(&[same.clone(), same], &[1.0, 2.0, 3.0]), None);
        assert_eq!(least_squares(&[vec![1.0], vec![2.0]], &[1.0]), None);
        assert_eq!(least_squares(&[vec![0.0; 3]], &[1.0; 3]), None);
        assert_eq!(least_squares(&[], &[]), None);
    }
}
