//! Weights of several predictions: the mixture with the smallest error on held-out measurements. It is found again on
//! many random draws of them and averaged (bagging), so that a few measurements do not decide it.
//!
//! A mixture that few measurements have weighed can be worse than its best part. One prediction may be favoured: it
//! would be the best without any mixing. In draws in which it has the smallest error, it gets nearly all of the weight.

use opdata::random::SplitMix64;

use crate::model::adaptation::mixed;

/// The weights are multiples of one over this.
const STEPS: usize = 10;
/// Random draws of the measurements.
const DRAWS: usize = 60;
/// Seed of the draws.
const SEED: u64 = 7;
/// Weight of the favoured prediction if no other is better; the mixture has the rest.
const ALMOST_ALONE: f64 = 0.8;

/// Weights (not negative, sum one) of predictions of the same measurements, all log2. `counts` weighs the measurements,
/// `favoured` is the index of the favoured prediction. Without measurements, the first prediction alone counts.
pub fn weights<const N: usize>(
    predictions: &[[f64; N]],
    measured: &[f64],
    counts: &[f64],
    favoured: Option<usize>,
) -> [f64; N] {
    let first = only(0);
    if measured.is_empty() {
        return first;
    }
    let mixtures = mixtures::<N>();
    let errors_of = |shares: &[f64; N]| -> Vec<f64> {
        let of = predictions.iter().zip(measured).zip(counts);
        of.map(|((own, time), count)| count * ((mixed(shares, own) - time).exp2() - 1.0).abs())
            .collect()
    };
    let errors: Vec<Vec<f64>> = mixtures.iter().map(errors_of).collect();
    let alone: [Vec<f64>; N] = std::array::from_fn(|place| errors_of(&only(place)));
    let mut random = SplitMix64::new(SEED);
    let mut sum = [0.0; N];
    for _ in 0..DRAWS {
        let mut times = vec![0.0; measured.len()];
        for _ in 0..measured.len() {
            times[(random.next_u64() % measured.len() as u64) as usize] += 1.0;
        }
        let cost = |own: &Vec<f64>| -> f64 { own.iter().zip(&times).map(|(e, t)| e * t).sum() };
        let costs: Vec<f64> = errors.iter().map(cost).collect();
        let best = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        let shares = best.map_or(first, |best| mixtures[best]);
        let cost_alone = |place: usize| cost(&alone[place]);
        let best_alone = (0..N).min_by(|&a, &b| cost_alone(a).total_cmp(&cost_alone(b)));
        let favourite = best_alone.filter(|_| best_alone == favoured);
        let shares = favourite.map_or(shares, |place| almost_alone(place, shares));
        for (sum, share) in sum.iter_mut().zip(shares) {
            *sum += share / DRAWS as f64;
        }
    }
    sum
}

/// Weights of a mixture in which one prediction has the weight [`ALMOST_ALONE`].
fn almost_alone<const N: usize>(place: usize, mixture: [f64; N]) -> [f64; N] {
    let alone = only::<N>(place);
    std::array::from_fn(|own| ALMOST_ALONE * alone[own] + (1.0 - ALMOST_ALONE) * mixture[own])
}

/// Weights of one prediction alone.
fn only<const N: usize>(place: usize) -> [f64; N] {
    std::array::from_fn(|own| if own == place { 1.0 } else { 0.0 })
}

/// All weights that are multiples of a step and sum to one.
fn mixtures<const N: usize>() -> Vec<[f64; N]> {
    let mut found = Vec::new();
    let mut parts = [0; N];
    fill(&mut parts, 0, STEPS, &mut found);
    found
}

fn fill<const N: usize>(
    parts: &mut [usize; N],
    place: usize,
    left: usize,
    found: &mut Vec<[f64; N]>,
) {
    if place + 1 == N {
        parts[place] = left;
        found.push(parts.map(|part| part as f64 / STEPS as f64));
        return;
    }
    for part in 0..=left {
        parts[place] = part;
        fill(parts, place + 1, left - part, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_parts_of_one() {
        let all = mixtures::<3>();
        assert_eq!(all.len(), 66);
        assert!(
            all.iter()
                .all(|w| (w.iter().sum::<f64>() - 1.0).abs() < 1e-9)
        );
    }

    #[test]
    fn what_is_right_counts_and_what_makes_up_for_each_other_is_mixed() {
        let measured: Vec<f64> = (0..40).map(|i| f64::from(i % 7)).collect();
        let counts = vec![1.0; 40];
        let off = |sign: f64| {
            let of = measured.iter().enumerate();
            of.map(move |(i, m)| [m + sign * 0.4, m - sign * 0.4, m + f64::from(i as u32 % 3)])
                .collect::<Vec<_>>()
        };
        let found = weights(&off(1.0), &measured, &counts, None);
        assert!(
            found[0] > 0.3 && found[1] > 0.3 && found[2] < 0.1,
            "{found:?}"
        );
        let right: Vec<[f64; 2]> = measured.iter().map(|m| [m + 1.0, *m]).collect();
        assert!(weights(&right, &measured, &counts, None)[1] > 0.9);
        assert_eq!(weights::<2>(&[], &[], &[], Some(0)), [1.0, 0.0]);
    }

    #[test]
    fn a_measurement_that_stands_for_many_decides() {
        let predictions = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]];
        let measured = [1.0, 2.0, 2.0];
        let found = weights(&predictions, &measured, &[100.0, 1.0, 1.0], None);
        assert!(found[0] > 0.6, "{found:?}");
    }

    #[test]
    fn what_is_favoured_counts_almost_alone_where_it_is_best() {
        let measured: Vec<f64> = (0..40).map(|i| f64::from(i % 7)).collect();
        let counts = vec![1.0; 40];
        // The errors of the first two cancel out. The second has the smaller ones.
        let predictions: Vec<[f64; 3]> = measured
            .iter()
            .map(|m| [m + 0.4, m - 0.3, m + 3.0])
            .collect();
        let of = |favoured| weights(&predictions, &measured, &counts, favoured);
        assert!(of(None)[1] < 0.7 && of(Some(0))[1] < 0.7, "{:?}", of(None));
        let found = of(Some(1));
        assert!(found[1] > 0.8, "{found:?}");
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
