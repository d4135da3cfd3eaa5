//! Which of many members, and how much of each, make the mean relative error of their mixture smallest.
//!
//! Ensemble selection from a library of models (Caruana and others, 2004): beginning with the best few alone, the member
//! that helps the mixture most is added again and again, and may be added more than once. Its weight is how often. The
//! result is sparse, none of the weights is negative, they sum to one, and what is made small is the error that is judged.

use super::bias::ShiftFinder;
use crate::models::ensemble::mean_and_deviation;

/// Members that are taken to begin with: one may be best by chance.
const FIRST: usize = 4;
/// Members that are taken in all, one more than once.
const TAKEN: usize = 10;

/// Out-of-fold predictions of some members for the same samples.
#[derive(Debug, Clone, Default)]
pub struct Predictions {
    /// By member, then by sample: log2 ns.
    pub members: Vec<Vec<f64>>,
    /// What was measured, log2 ns.
    pub measured: Vec<f64>,
    /// How much each sample counts.
    pub weights: Vec<f64>,
}

impl Predictions {
    /// How much each member counts.
    pub fn mixture(&self) -> Vec<f64> {
        let errors: Vec<Vec<f64>> = self.members.iter().map(|own| self.errors(own)).collect();
        let alone: Vec<f64> = errors.iter().map(|own| self.cost(own)).collect();
        let mut order: Vec<usize> = (0..errors.len()).collect();
        order.sort_by(|&a, &b| alone[a].total_cmp(&alone[b]));
        let mut counts = vec![0.0; errors.len()];
        let mut sum = vec![0.0; self.measured.len()];
        for taken in 1..=TAKEN {
            let next = match order.get(taken - 1) {
                Some(&member) if taken <= FIRST => Some(member),
                _ => self.best_addition(&errors, &sum, taken as f64),
            };
            let Some(next) = next else { break };
            counts[next] += 1.0;
            sum.iter_mut().zip(&errors[next]).for_each(|(s, e)| *s += e);
        }
        let total: f64 = counts.iter().sum::<f64>().max(1.0);
        counts.iter().map(|count| count / total).collect()
    }

    /// What a mixture predicts of each sample, and how much its members disagree, log2.
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

    /// Errors of a member without what it has in common: a constant is corrected later anyway.
    fn errors(&self, predicted: &[f64]) -> Vec<f64> {
        let nobody = vec![0; predicted.len()];
        let shift = ShiftFinder::new(predicted, &self.measured, &nobody).shift(None);
        let pairs = predicted.iter().zip(&self.measured);
        pairs.map(|(p, m)| p + shift - m).collect()
    }

    /// Weighted sum of relative errors.
    fn cost(&self, errors: &[f64]) -> f64 {
        let weighted = errors.iter().zip(&self.weights);
        weighted.map(|(e, w)| w * (e.exp2() - 1.0).abs()).sum()
    }

    /// The member that, added to a sum of errors, makes the mean of `count` members best.
    fn best_addition(&self, errors: &[Vec<f64>], sum: &[f64], count: f64) -> Option<usize> {
        let with = |own: &Vec<f64>| -> f64 {
            let mean: Vec<f64> = sum.iter().zip(own).map(|(s, e)| (s + e) / count).collect();
            self.cost(&mean)
        };
        let costs: Vec<f64> = errors.iter().map(with).collect();
        (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))
    }
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
            measured,
        }
    }

    #[test]
    fn members_that_make_up_for_each_other_are_mixed() {
        let weights = predictions(80).mixture();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(weights[0] >= 0.3 && weights[1] >= 0.3, "{weights:?}");
        assert!(weights[2] <= 0.11, "{weights:?}");
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
