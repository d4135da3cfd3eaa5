//! Chooses among many members and weighs them, so that the mean relative error of their mixture is smallest.
//!
//! Ensemble selection from a library of models (Caruana and others, 2004). It starts with some default members of equal
//! weight. The member that improves the mixture most is then added again and again, and may be added several times. A
//! member's weight is the number of its additions. So no weight is negative, they sum to one, and the judged error
//! itself is minimised. Cross-validation over the folds finds the number of additions. Where workloads are few or
//! differ much, additions do not generalise. So the default members alone are kept if they are within one standard
//! error of the best mixture (Breiman and others, "Classification and Regression Trees", 1984, section 3.4.3).

use opdata::stats::moments;

use super::bias::GroupBias;
use crate::models::ensemble::mean_and_deviation;

/// Numbers of members in a mixture that are tried beside the default members alone.
const SIZES: [usize; 3] = [8, 12, 20];

/// Out-of-fold predictions of some members for the same samples.
#[derive(Debug, Clone, Default)]
pub struct Predictions {
    /// Predictions of each member for each sample, log2 ns.
    pub members: Vec<Vec<f64>>,
    /// Measured times, log2 ns.
    pub measured: Vec<f64>,
    /// Weight of each sample.
    pub weights: Vec<f64>,
    /// The fold that held each sample out.
    pub fold: Vec<usize>,
    /// Number of default members, which come first.
    pub defaults: usize,
}

impl Predictions {
    /// Weight of each member.
    pub fn mixture(&self) -> Vec<f64> {
        let errors: Vec<Vec<f64>> = self.members.iter().map(|own| self.errors(own)).collect();
        let everything: Vec<usize> = (0..self.measured.len()).collect();
        let folds = self.fold.iter().max().map_or(0, |last| last + 1);
        let sizes = [self.defaults, SIZES[0], SIZES[1], SIZES[2]];
        // By fold, then by size.
        let costs: Vec<Vec<f64>> = (0..folds)
            .map(|fold| {
                let (test, train): (Vec<usize>, Vec<usize>) = everything
                    .iter()
                    .partition(|&&place| self.fold[place] == fold);
                let grown = self.grown(&errors, &train, &sizes);
                let cost = |weights: &Vec<f64>| self.cost(&mixed(&errors, weights, &test), &test);
                grown.iter().map(cost).collect()
            })
            .collect();
        let total = |size: usize| costs.iter().map(|own| own[size]).sum::<f64>();
        let best = (1..sizes.len()).min_by(|&a, &b| total(a).total_cmp(&total(b)));
        let size = best.filter(|&size| {
            let gains: Vec<f64> = costs.iter().map(|own| own[0] - own[size]).collect();
            moments(&gains).is_some_and(|(gain, deviation)| {
                gain > deviation / (gains.len() as f64 - 1.0).sqrt()
            })
        });
        let found = self.grown(&errors, &everything, &[sizes[size.unwrap_or(0)]]);
        found.into_iter().next().unwrap_or_default()
    }

    /// The best mixtures of the given sizes (ascending) for some samples.
    fn grown(&self, errors: &[Vec<f64>], places: &[usize], sizes: &[usize]) -> Vec<Vec<f64>> {
        let mut counts = vec![0.0; errors.len()];
        counts.iter_mut().take(self.defaults).for_each(|c| *c = 1.0);
        let mut sum = mixed(errors, &counts, places);
        let mut taken = self.defaults.min(errors.len());
        let mut found = Vec::new();
        for &size in sizes {
            while taken < size {
                let with = |own: &Vec<f64>| -> f64 {
                    let added = sum.iter().zip(places).map(|(s, &p)| s + own[p]);
                    let mean: Vec<f64> = added.map(|s| s / (taken + 1) as f64).collect();
                    self.cost(&mean, places)
                };
                let costs: Vec<f64> = errors.iter().map(with).collect();
                let order = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
                let Some(next) = order else { break };
                counts[next] += 1.0;
                let more = places.iter().map(|&p| errors[next][p]);
                sum.iter_mut().zip(more).for_each(|(s, e)| *s += e);
                taken += 1;
            }
            let total = taken.max(1) as f64;
            found.push(counts.iter().map(|count| count / total).collect());
        }
        found
    }

    /// The mixture's prediction for each sample, and the disagreement of its members, log2.
    pub fn mixed(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let counting: Vec<(&Vec<f64>, f64)> = self
            .members
            .iter()
            .zip(weights.iter().copied())
            .filter(|(_, weight)| *weight > 0.0)
            .collect();
        (0..self.measured.len())
            .map(|i| mean_and_deviation(counting.iter().map(|(own, weight)| (own[i], *weight))))
            .unzip()
    }

    /// Errors of a member without their common constant, which is corrected later.
    fn errors(&self, predicted: &[f64]) -> Vec<f64> {
        let nobody = vec![0; predicted.len()];
        let bias = GroupBias::new(predicted, &self.measured, &nobody).estimate(None);
        let pairs = predicted.iter().zip(&self.measured);
        pairs.map(|(p, m)| p + bias - m).collect()
    }

    /// Weighted sum of the relative errors of some samples.
    fn cost(&self, errors: &[f64], places: &[usize]) -> f64 {
        let weighted = errors.iter().zip(places);
        weighted
            .map(|(e, &p)| self.weights[p] * (e.exp2() - 1.0).abs())
            .sum()
    }
}

/// Errors of a mixture on some samples.
fn mixed(errors: &[Vec<f64>], weights: &[f64], places: &[usize]) -> Vec<f64> {
    let of = |&place: &usize| {
        errors
            .iter()
            .zip(weights)
            .map(|(own, w)| own[place] * w)
            .sum()
    };
    places.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three members: one errs on even samples, one on odd ones in the other direction, one on all of them by much.
    fn predictions(count: usize) -> Predictions {
        let measured: Vec<f64> = (0..count).map(|i| i as f64 / 10.0).collect();
        let erring = |error: fn(usize) -> f64| {
            let of = measured.iter().enumerate();
            of.map(|(i, m)| m + error(i)).collect::<Vec<f64>>()
        };
        Predictions {
            members: vec![
                erring(|i| if i % 4 == 0 { 0.4 } else { -0.1 }),
                erring(|i| if i % 4 == 0 { -0.4 } else { 0.1 }),
                erring(|i| if i % 2 == 0 { 3.0 } else { -3.0 }),
            ],
            weights: vec![1.0; count],
            fold: (0..count).map(|i| i / 4 % 5).collect(),
            defaults: 1,
            measured,
        }
    }

    #[test]
    fn members_that_make_up_for_each_other_are_mixed() {
        let weights = predictions(80).mixture();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(weights[0] >= 0.4 && weights[1] >= 0.4, "{weights:?}");
        assert_eq!(weights[2], 0.0);
    }

    /// Two members with errors of these sizes in the first `helped` folds, and in the others.
    fn pair(helped: usize, sizes: [[f64; 2]; 2]) -> Predictions {
        let mut all = predictions(80);
        all.members = sizes
            .map(|[first, others]| {
                let error = |place: usize| {
                    let size = if all.fold[place] < helped {
                        first
                    } else {
                        others
                    };
                    if place.is_multiple_of(2) { size } else { -size }
                };
                let measured = all.measured.iter().enumerate();
                measured.map(|(place, m)| m + error(place)).collect()
            })
            .to_vec();
        all
    }

    #[test]
    fn what_helps_in_one_fold_alone_changes_nothing() {
        // The second member is right about the first fold, where the first one errs most, and worse about the others.
        let all = pair(1, [[0.5, 0.1], [0.0, 0.12]]);
        assert_eq!(all.mixture(), [1.0, 0.0]);
    }

    #[test]
    fn a_gain_within_its_standard_error_changes_nothing() {
        // Two folds of five gain more than the three others lose, but the five differ by more than their mean.
        assert_eq!(pair(2, [[0.5, 0.1], [0.0, 0.25]]).mixture(), [1.0, 0.0]);
        let certain = pair(2, [[0.5, 0.1], [0.0, 0.05]]).mixture();
        assert!(certain[1] > 0.8, "{certain:?}");
    }

    #[test]
    fn a_constant_error_is_no_fault_of_a_member() {
        let mut moved = predictions(80);
        moved.members[0].iter_mut().for_each(|p| *p += 0.3);
        assert_eq!(moved.mixture(), predictions(80).mixture());
    }

    #[test]
    fn nothing_is_mixed_of_nothing() {
        assert_eq!(Predictions::default().mixture(), Vec::<f64>::new());
    }
}
