//! Conformal intervals: from errors on held-out groups to the errors to expect on the next one.
//!
//! Errors of one workload are alike, so the group, not the sample, is exchangeable. Every workload has the same total
//! weight, however many samples it has. The promised coverage holds for the mean over workloads. An error is measured
//! in units of the model's expected error at that point ([`Difficulty`]: disagreement of its members, by bins). The
//! interval is as wide as the weighted quantiles of both tails.

use opdata::stats::weighted_quantile_of_sorted;
use serde::{Deserialize, Serialize};

/// Maximum number of bins of disagreement.
const BINS: usize = 6;
/// Samples for each bin: the mean error of fewer is chance, and an interval scaled by it holds too little.
const BIN_SAMPLES: usize = 20;
/// With fewer bins, disagreement is ignored.
const LEAST_BINS: usize = 3;

/// One held-out sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationSample {
    /// log2(measured ÷ predicted).
    pub error: f64,
    /// Disagreement of the model, log2; NaN if it has no opinion.
    pub disagreement: f64,
    /// Its workload.
    pub group: usize,
}

/// The expected size of an error by the model's disagreement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Difficulty {
    /// Upper ends of all bins but the last.
    ends: Vec<f64>,
    /// Mean absolute error of each bin, log2.
    sizes: Vec<f64>,
}

/// Calibrated intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conformal {
    difficulty: Difficulty,
    /// Scaled errors and their weights, by error; the weights sum to 1.
    scores: Vec<(f64, f64)>,
    /// Number of groups.
    groups: usize,
}

fn mean(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weight) = values.fold((0.0, 0.0), |(s, w), (value, weight)| {
        (s + value * weight, w + weight)
    });
    if weight > 0.0 { sum / weight } else { 0.0 }
}

/// The weight of each sample. The weights of a group sum to 1.
fn weights(samples: &[CalibrationSample]) -> Vec<f64> {
    let groups = samples.iter().map(|h| h.group).max().map_or(0, |g| g + 1);
    let mut sizes = vec![0.0f64; groups];
    for one in samples {
        sizes[one.group] += 1.0;
    }
    samples.iter().map(|one| 1.0 / sizes[one.group]).collect()
}

impl Difficulty {
    fn fit(samples: &[CalibrationSample], weights: &[f64]) -> Self {
        let known: Vec<usize> = (0..samples.len())
            .filter(|&i| samples[i].disagreement.is_finite())
            .collect();
        let overall = mean(
            samples
                .iter()
                .zip(weights)
                .map(|(h, w)| (h.error.abs(), *w)),
        )
        .max(1e-4);
        let bins = BINS.min(known.len() / BIN_SAMPLES);
        if bins < LEAST_BINS {
            return Self {
                ends: Vec::new(),
                sizes: vec![overall],
            };
        }
        let mut order = known;
        order.sort_by(|&a, &b| samples[a].disagreement.total_cmp(&samples[b].disagreement));
        let total: f64 = order.iter().map(|&i| weights[i]).sum();
        let (mut ends, mut sizes) = (Vec::new(), Vec::new());
        let (mut bin, mut sum) = (Vec::new(), 0.0);
        for &index in &order {
            bin.push((samples[index].error.abs(), weights[index]));
            sum += weights[index];
            if sum >= total / bins as f64 && ends.len() < bins - 1 {
                ends.push(samples[index].disagreement);
                sizes.push(mean(bin.drain(..)).max(1e-4));
                sum = 0.0;
            }
        }
        sizes.push(if bin.is_empty() {
            overall
        } else {
            mean(bin.into_iter()).max(1e-4)
        });
        // The expected error must not fall as disagreement grows.
        for place in 1..sizes.len() {
            sizes[place] = f64::max(sizes[place], sizes[place - 1]);
        }
        Self { ends, sizes }
    }

    fn size(&self, disagreement: f64) -> f64 {
        let bin = if disagreement.is_finite() {
            self.ends.partition_point(|end| *end < disagreement)
        } else {
            self.sizes.len() - 1
        };
        self.sizes[bin.min(self.sizes.len() - 1)]
    }
}

impl Conformal {
    /// Calibrates on held-out samples. `None` with fewer than two groups.
    pub fn fit(samples: &[CalibrationSample]) -> Option<Self> {
        let weights = weights(samples);
        let mut groups: Vec<usize> = samples.iter().map(|h| h.group).collect();
        groups.sort_unstable();
        groups.dedup();
        if groups.len() < 2 {
            return None;
        }
        let difficulty = Difficulty::fit(samples, &weights);
        let total: f64 = weights.iter().sum();
        let mut scores: Vec<(f64, f64)> = samples
            .iter()
            .zip(&weights)
            .map(|(h, w)| (h.error / difficulty.size(h.disagreement), w / total))
            .collect();
        scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self {
            difficulty,
            scores,
            groups: groups.len(),
        })
    }

    fn quantile(&self, level: f64) -> f64 {
        weighted_quantile_of_sorted(self.scores.iter().copied(), level).unwrap_or(0.0)
    }

    /// Number of groups that it was calibrated on.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The least number of groups that intervals of a level need for their promised coverage. With fewer, the next
    /// group lies beyond all of them too often.
    pub fn groups_needed(level: f64) -> usize {
        ((1.0 + level) / (1.0 - level) - 1e-9).ceil() as usize
    }

    /// The intervals that hold the measurement with probability `level`.
    pub fn at(&self, level: f64) -> Intervals<'_> {
        // The new group is one more than those seen, and may lie beyond them all.
        let tail = (1.0 - level) / 2.0;
        let tail = (tail - 0.5 * level / (self.groups as f64 + 1.0)).max(0.0);
        Intervals {
            difficulty: &self.difficulty,
            low: self.quantile(tail),
            high: self.quantile(1.0 - tail),
        }
    }
}

/// The intervals of one level. The quantiles are computed once, because there are as many scores as held-out samples.
#[derive(Debug, Clone, Copy)]
pub struct Intervals<'a> {
    difficulty: &'a Difficulty,
    low: f64,
    high: f64,
}

impl Intervals<'_> {
    /// Lower and upper end around a prediction, log2.
    pub fn around(&self, disagreement: f64) -> (f64, f64) {
        let size = self.difficulty.size(disagreement);
        (self.low * size, self.high * size)
    }
}

#[cfg(test)]
mod tests {
    use crate::crossval::conformal::*;

    /// Errors of 100 groups of 30 samples: uniform in ±(1 + disagreement).
    fn samples() -> Vec<CalibrationSample> {
        let order = crate::data::split::shuffled(3000, 3);
        (0..3000)
            .map(|i| {
                let disagreement = (i % 3) as f64;
                let uniform = order[i] as f64 / 1500.0 - 1.0;
                CalibrationSample {
                    error: uniform * (1.0 + disagreement),
                    disagreement,
                    group: i / 30,
                }
            })
            .collect()
    }

    #[test]
    fn intervals_cover_what_they_promise_and_widen_with_disagreement() {
        let all = samples();
        let conformal = Conformal::fit(&all[..1500]).unwrap();
        for level in [0.5, 0.8, 0.9] {
            let intervals = conformal.at(level);
            let covered = all[1500..]
                .iter()
                .filter(|h| {
                    let (low, high) = intervals.around(h.disagreement);
                    low <= h.error && h.error <= high
                })
                .count() as f64
                / 1500.0;
            assert!((covered - level).abs() < 0.03, "{covered} for {level}");
        }
        let width = |d: f64| {
            let (low, high) = conformal.at(0.9).around(d);
            high - low
        };
        assert!(width(2.0) > 1.8 * width(0.0));
        assert!(width(f64::NAN) >= width(2.0), "no opinion is no certainty");
    }

    #[test]
    fn a_bin_has_enough_samples_to_show_its_errors() {
        for (count, bins) in [(3000, 6), (110, 5), (60, 3), (50, 1)] {
            let some = samples().into_iter().step_by(3000 / count).take(count);
            let conformal = Conformal::fit(&some.collect::<Vec<_>>()).unwrap();
            assert_eq!(conformal.difficulty.sizes.len(), bins, "{count} samples");
        }
    }

    #[test]
    fn a_large_group_counts_as_much_as_a_small_one() {
        // 40 groups: every fourth has 400 samples with errors of a hundredth, the others 4 with errors of up to 1.
        let mut samples = Vec::new();
        for group in 0..40 {
            let (count, size) = if group % 4 == 0 {
                (400, 0.01)
            } else {
                (4, 1.0)
            };
            for sample in 0..count {
                samples.push(CalibrationSample {
                    error: size * f64::from((7 * group + 3 * sample) % 21 - 10) / 10.0,
                    disagreement: f64::NAN,
                    group: group as usize,
                });
            }
        }
        let conformal = Conformal::fit(&samples).unwrap();
        let (low, high) = conformal.at(0.9).around(f64::NAN);
        assert!(low < -0.7 && high > 0.7, "{low} {high}");
    }

    #[test]
    fn few_groups_promise_little() {
        assert_eq!(Conformal::groups_needed(0.5), 3);
        assert_eq!(Conformal::groups_needed(0.9), 19);
    }

    #[test]
    fn one_group_calibrates_nothing() {
        let mut one = samples();
        for samples in &mut one {
            samples.group = 0;
        }
        assert_eq!(Conformal::fit(&one), None);
        assert_eq!(Conformal::fit(&[]), None);
    }
}
