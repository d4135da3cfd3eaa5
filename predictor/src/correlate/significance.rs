//! Significance of a dependence: permutation tests, with Benjamini and Hochberg's correction for many of them.

use oplearn::crossval::metrics::pearson;
use oplearn::data::split::shuffled;

use super::measures::mutual_information;

/// Number of random orders that a statistic is compared with; the smallest p-value is 1 ÷ (this + 1).
pub const PERMUTATIONS: usize = 199;

/// The random orders that all factors are tested with.
pub fn orders(count: usize, seed: u64) -> Vec<Vec<usize>> {
    (0..PERMUTATIONS)
        .map(|round| shuffled(count, seed.wrapping_add(round as u64)))
        .collect()
}

fn p_value(observed: f64, others: impl Iterator<Item = f64>) -> f64 {
    let (at_least, count) = others.fold((1.0, 1.0), |(hits, count), other| {
        (
            hits + f64::from(u8::from(other >= observed - 1e-12)),
            count + 1.0,
        )
    });
    at_least / count
}

/// p-value of a correlation of ranks.
pub fn of_ranks(a: &[f64], b: &[f64], orders: &[Vec<usize>]) -> f64 {
    let strength = |b: &[f64]| pearson(a, b).map_or(0.0, f64::abs);
    p_value(
        strength(b),
        orders.iter().map(|order| {
            let moved: Vec<f64> = order.iter().map(|&i| b[i]).collect();
            strength(&moved)
        }),
    )
}

/// p-value of a mutual information of bins.
pub fn of_bins(a: &[usize], b: &[usize], orders: &[Vec<usize>]) -> f64 {
    p_value(
        mutual_information(a, b),
        orders.iter().map(|order| {
            let moved: Vec<usize> = order.iter().map(|&i| b[i]).collect();
            mutual_information(a, &moved)
        }),
    )
}

/// p-values corrected for the number of tests (false discovery rate), in the order given.
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| p_values[b].total_cmp(&p_values[a]));
    let mut result = vec![1.0; count];
    let mut smallest = 1.0f64;
    for (place, index) in order.into_iter().enumerate() {
        let rank = (count - place) as f64;
        smallest = smallest.min(p_values[index] * count as f64 / rank);
        result[index] = smallest;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_distinguished_from_dependence() {
        let x: Vec<f64> = (0..60).map(f64::from).collect();
        let noise: Vec<f64> = shuffled(60, 9).into_iter().map(|v| v as f64).collect();
        let orders = orders(60, 1);
        assert!(of_ranks(&x, &x, &orders) < 0.006);
        assert!(of_ranks(&x, &noise, &orders) > 0.05);
    }

    #[test]
    fn corrections_are_those_of_the_textbook() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let wanted = [0.02, 0.04, 0.04, 0.02];
        for (found, wanted) in corrected(&p).iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
    }
}
