//! Linear least squares over a few terms, by QR decomposition of the terms' values.

use nalgebra::{DMatrix, DVector};

/// Minimum share of a term, by length, that the terms before it do not explain. Below it the points do not separate the
/// two.
const INDEPENDENT: f64 = 1e-9;

/// Q and R of some terms, each with its value at every point. None if a term is (nearly) a sum of those before it.
fn decomposed(terms: &[Vec<f64>], independent: f64) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
    let points = terms.first()?.len();
    if points < terms.len() {
        return None;
    }
    let matrix = DMatrix::from_fn(points, terms.len(), |point, term| terms[term][point]);
    let lengths: Vec<f64> = matrix.column_iter().map(|column| column.norm()).collect();
    let (q, r) = matrix.qr().unpack();
    let apart = |k: usize| r[(k, k)].abs() > independent * lengths[k];
    (0..terms.len()).all(apart).then_some((q, r))
}

/// The coefficients of `terms` (each with its value at every point) that come closest to `values`. `None` if the points
/// do not determine them.
pub(super) fn least_squares(terms: &[Vec<f64>], values: &[f64]) -> Option<Vec<f64>> {
    let (q, r) = decomposed(terms, INDEPENDENT)?;
    let right = q.tr_mul(&DVector::from_column_slice(values));
    let found = r.solve_upper_triangular(&right)?;
    Some(found.iter().copied().collect())
}

/// Orthonormal series that span `terms`. `None` if less than a share `independent` of a term is not explained by those
/// before it.
pub(super) fn orthonormal(terms: &[Vec<f64>], independent: f64) -> Option<Vec<Vec<f64>>> {
    let (q, _) = decomposed(terms, independent)?;
    Some(
        q.column_iter()
            .map(|column| column.iter().copied().collect())
            .collect(),
    )
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

    #[test]
    fn an_orthonormal_basis_spans_its_terms() {
        let terms = [vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]];
        let basis = orthonormal(&terms, 1e-6).unwrap();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert!((dot(&basis[0], &basis[0]) - 1.0).abs() < 1e-12);
        assert!(dot(&basis[0], &basis[1]).abs() < 1e-12);
        // A line leaves no residual.
        let line = [5.0, 7.0, 9.0, 11.0];
        let explained: f64 = basis.iter().map(|b| dot(b, &line).powi(2)).sum();
        assert!((explained - dot(&line, &line)).abs() < 1e-9);
        assert_eq!(orthonormal(&[terms[0].clone(), vec![2.0; 4]], 1e-6), None);
    }
}
