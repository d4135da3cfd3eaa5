//! Order statistics and quantiles of distributions, for both programs.
//!
//! Two conventions, one for each purpose. The median of an even number of values is the mean of the two in the middle.
//! Any other quantile is the nearest rank, the smallest value with at least that share of the values at or below it.
//! So it is a value that occurred. Weighted quantiles are nearest ranks by weight. Sorting puts NaN last.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;

/// Median of values in any order; `None` of no value.
pub fn median<T: Copy + Into<f64>>(values: impl IntoIterator<Item = T>) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// Median of sorted values; `None` of no value.
pub fn median_of_sorted<T: Copy + Into<f64>>(sorted: &[T]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let (low, high) = (sorted[last / 2], sorted[sorted.len() / 2]);
    Some(f64::midpoint(low.into(), high.into()))
}

/// Quantile of values in any order by nearest rank, `level` in 0..=1; `None` of no value.
pub fn quantile<T: Copy + Into<f64>>(
    values: impl IntoIterator<Item = T>,
    level: f64,
) -> Option<f64> {
    quantile_of_sorted(&sorted(values), level)
}

/// Quantile of sorted values by nearest rank, `level` in 0..=1; `None` of no value.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], level: f64) -> Option<T> {
    let rank = (level * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Mean and standard deviation (of the values themselves, not an estimate from a sample); `None` of no value.
pub fn moments<T: Copy + Into<f64>>(values: &[T]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let sum = |of: &dyn Fn(f64) -> f64| values.iter().map(|&v| of(v.into())).sum::<f64>();
    let mean = sum(&|v| v) / count;
    let variance = sum(&|v| (v - mean).powi(2)) / count;
    (!values.is_empty()).then(|| (mean, variance.sqrt()))
}

/// Weighted median of (value, weight) in any order: the smallest value at which half of the weight is reached; `None` of
/// no value.
pub fn weighted_median(values: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let mut values: Vec<(f64, f64)> = values.into_iter().collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    weighted_quantile_of_sorted(values.iter().copied(), 0.5)
}

/// The smallest value of (value, weight) sorted by value at which the share `level` of the weight is reached; `None` of
/// no value. The iterator is gone through twice.
pub fn weighted_quantile_of_sorted(
    sorted: impl Iterator<Item = (f64, f64)> + Clone,
    level: f64,
) -> Option<f64> {
    let needed = level * sorted.clone().map(|(_, weight)| weight).sum::<f64>();
    let (mut reached, mut last) = (0.0, None);
    for (value, weight) in sorted {
        reached += weight;
        last = Some(value);
        if reached >= needed {
            break;
        }
    }
    last
}

/// The q with a probability of `level` (in 0..1) between −q and q. The distribution is Student's t with that many
/// degrees of freedom, or the normal one if `freedom` is `None`.
///
/// # Panics
/// Panics if `freedom` is not above 0.
pub fn two_sided_quantile(level: f64, freedom: Option<f64>) -> f64 {
    let upper = f64::midpoint(1.0, level);
    match freedom {
        None => Normal::standard().inverse_cdf(upper),
        Some(freedom) => student(freedom).inverse_cdf(upper),
    }
}

/// The probability beyond −|t| and |t|, the p-value of a two-sided test. The distribution is Student's t with that
/// many degrees of freedom, or the normal one if `freedom` is `None`.
///
/// # Panics
/// Panics if `freedom` is not above 0.
pub fn two_sided_tail(t: f64, freedom: Option<f64>) -> f64 {
    match freedom {
        None => erfc(t.abs() / std::f64::consts::SQRT_2),
        Some(freedom) => 2.0 * student(freedom).sf(t.abs()),
    }
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are above 0")
}

fn sorted<T: Copy + Into<f64>>(values: impl IntoIterator<Item = T>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().map(Into::into).collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_median_of_an_even_number_is_the_middle_of_two() {
        assert_eq!(median(Vec::<f64>::new()), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([9.0f32, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median([f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn other_quantiles_are_values_that_occurred() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let at = |level| quantile(values, level);
        assert_eq!(
            (at(0.0), at(0.25), at(0.26)),
            (Some(1.0), Some(1.0), Some(2.0))
        );
        assert_eq!((at(0.95), at(1.0)), (Some(4.0), Some(4.0)));
        assert_eq!(quantile(Vec::<f64>::new(), 0.5), None);
    }

    #[test]
    fn weight_moves_the_median() {
        assert_eq!(
            weighted_median([(5.0, 1.0), (1.0, 1.0), (2.0, 10.0)]),
            Some(2.0)
        );
        assert_eq!(weighted_median([]), None);
    }

    #[test]
    fn mean_and_deviation() {
        assert_eq!(moments(&[1.0f32, 3.0]), Some((2.0, 1.0)));
        assert_eq!(moments(&[7.0]), Some((7.0, 0.0)));
        assert_eq!(moments::<f64>(&[]), None);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let close =
            |found: f64, table: f64| assert!((found - table).abs() < 1e-4, "{found} {table}");
        for (level, freedom, table) in [
            (0.5, None, 0.674_490),
            (0.95, None, 1.959_964),
            (0.99, None, 2.575_829),
            (0.9, Some(1.0), 6.313_752),
            (0.95, Some(2.0), 4.302_653),
            (0.95, Some(5.0), 2.570_582),
            (0.95, Some(39.0), 2.022_691),
        ] {
            close(two_sided_quantile(level, freedom), table);
            close(two_sided_tail(table, freedom), 1.0 - level);
        }
        // Far tails keep their relative accuracy (R: 2 * pnorm(-10), 2 * pt(-20, 30)).
        assert!((two_sided_tail(10.0, None) / 1.523_971e-23 - 1.0).abs() < 1e-4);
        assert!((two_sided_tail(-20.0, Some(30.0)) / 7.275_958e-19 - 1.0).abs() < 0.1);
    }

    proptest! {
        #[test]
        fn quantiles_split_the_values(values in prop::collection::vec(-1e6f64..1e6, 1..40), level in 0.01f64..1.0) {
            let found = quantile(values.iter().copied(), level).unwrap();
            let below = values.iter().filter(|v| **v < found).count() as f64;
            let up_to = values.iter().filter(|v| **v <= found).count() as f64;
            prop_assert!(below < level * values.len() as f64 && level * values.len() as f64 <= up_to);
            let equal = values.iter().map(|v| (*v, 1.0));
            let weighted = weighted_median(equal).unwrap();
            prop_assert_eq!(weighted, quantile(values.iter().copied(), 0.5).unwrap());
        }
    }
}
