//! Correction for multiple comparisons.
//!
//! Holm's step-down method (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
//! Statistics 6, 1979). It bounds the probability of any false alarm in the family, whatever the dependence between the
//! tests. It is never weaker than Bonferroni's.

/// The corrected probabilities, in the order given. Unknown ones stay unknown and are not counted as tests.
pub(super) fn adjusted(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut known: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(place, p)| Some((place, (*p)?)))
        .collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, (place, p)) in known.iter().enumerate() {
        // Questions not yet answered, this one included.
        let left = (known.len() - rank) as f64;
        largest = largest.max((left * p).min(1.0));
        adjusted[*place] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_example() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02.
        let p = [Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)];
        let wanted = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (found, wanted) in adjusted(&p).into_iter().zip(wanted) {
            match (found, wanted) {
                (Some(f), Some(w)) => assert!((f - w).abs() < 1e-12, "{f} and {w}"),
                (f, w) => assert_eq!(f, w),
            }
        }
        assert_eq!(adjusted(&[Some(0.9), Some(0.8)]), [Some(1.0), Some(1.0)]);
        assert!(adjusted(&[]).is_empty());
    }
}
