//! Errors, correlation and ordering of predictions. Times come as base-2 logarithms of ns.

use serde::Serialize;

use opdata::stats::median;

/// Workloads with fewer samples say little about ordering.
pub const RANKED_SAMPLES: usize = 10;

/// How good some predictions are. Shares and errors in percent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Samples.
    pub samples: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Median absolute percentage error.
    pub median_ape: f64,
    /// Share of predictions within 5 %.
    pub within_5: f64,
    /// Share of predictions within 10 %.
    pub within_10: f64,
    /// Share of predictions within 20 %.
    pub within_20: f64,
    /// Root mean squared error of the time, ms.
    pub rmse_ms: f64,
    /// Root mean squared error of the logarithm.
    pub rmse_log2: f64,
    /// Coefficient of determination of the time.
    pub r2: Option<f64>,
    /// Coefficient of determination of the time's logarithm.
    pub r2_log2: Option<f64>,
    /// Spearman's rank correlation.
    pub spearman: Option<f64>,
    /// Mean of log2(predicted ÷ measured).
    pub bias_log2: f64,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn r2(measured: &[f64], predicted: &[f64]) -> Option<f64> {
    let mean = mean(measured);
    let total: f64 = measured.iter().map(|m| (m - mean).powi(2)).sum();
    let left: f64 = measured
        .iter()
        .zip(predicted)
        .map(|(m, p)| (m - p).powi(2))
        .sum();
    (total > 0.0).then(|| 1.0 - left / total)
}

/// Ranks from 1, ties at their mean.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        let rank = (start + end + 1) as f64 / 2.0;
        for &index in &order[start..end] {
            ranks[index] = rank;
        }
        start = end;
    }
    ranks
}

/// Pearson's correlation. `None` if a side is constant.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let (ma, mb) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        ab += (x - ma) * (y - mb);
        aa += (x - ma).powi(2);
        bb += (y - mb).powi(2);
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

/// Spearman's rank correlation. `None` if a side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

impl Metrics {
    /// The metrics of logarithms of measured and predicted times.
    pub fn of(measured: &[f64], predicted: &[f64]) -> Self {
        let errors: Vec<f64> = measured
            .iter()
            .zip(predicted)
            .map(|(m, p)| 100.0 * ((p - m).exp2() - 1.0).abs())
            .collect();
        let within = |bound: f64| {
            100.0 * errors.iter().filter(|e| **e <= bound).count() as f64
                / errors.len().max(1) as f64
        };
        let ms = |logs: &[f64]| -> Vec<f64> { logs.iter().map(|l| l.exp2() / 1e6).collect() };
        let (measured_ms, predicted_ms) = (ms(measured), ms(predicted));
        let squared = |a: &[f64], b: &[f64]| {
            mean(
                &a.iter()
                    .zip(b)
                    .map(|(x, y)| (x - y).powi(2))
                    .collect::<Vec<_>>(),
            )
            .sqrt()
        };
        Self {
            samples: measured.len(),
            mape: mean(&errors),
            within_5: within(5.0),
            within_10: within(10.0),
            within_20: within(20.0),
            rmse_ms: squared(&measured_ms, &predicted_ms),
            rmse_log2: squared(measured, predicted),
            r2: r2(&measured_ms, &predicted_ms),
            r2_log2: r2(measured, predicted),
            spearman: spearman(measured, predicted),
            bias_log2: mean(predicted) - mean(measured),
            median_ape: median(errors).unwrap_or(0.0),
        }
    }
}

/// Pairs of schedules in the right order; equal times are no pair.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pairs {
    /// Pairs of different times.
    pub pairs: u64,
    /// Pairs that the predictions order as the measurements do; a tie in the prediction is half right.
    pub right: f64,
}

impl Pairs {
    /// Counts the pairs of one workload. Merge sort would be faster; workloads are small enough.
    pub fn of(measured: &[f64], predicted: &[f64]) -> Self {
        let mut counted = Self::default();
        for i in 1..measured.len() {
            for j in 0..i {
                let (m, p) = (measured[i] - measured[j], predicted[i] - predicted[j]);
                if m == 0.0 {
                    continue;
                }
                counted.pairs += 1;
                if p == 0.0 {
                    counted.right += 0.5;
                } else if (m > 0.0) == (p > 0.0) {
                    counted.right += 1.0;
                }
            }
        }
        counted
    }

    /// Share in the right order, percent.
    pub fn share(self) -> Option<f64> {
        (self.pairs > 0).then(|| 100.0 * self.right / self.pairs as f64)
    }
}

/// Best true time over the best true time among the `k` predicted best, 0 to 1.
pub fn top(measured: &[f64], predicted: &[f64], k: usize) -> f64 {
    let mut order: Vec<usize> = (0..measured.len()).collect();
    order.sort_by(|&a, &b| predicted[a].total_cmp(&predicted[b]));
    let best = |indices: &[usize]| {
        indices
            .iter()
            .map(|&i| measured[i])
            .fold(f64::INFINITY, f64::min)
    };
    (best(&order) - best(&order[..k.min(order.len())])).exp2()
}

#[cfg(test)]
mod tests {
    use crate::crossval::metrics::*;

    #[test]
    fn errors_are_relative_to_the_measurement() {
        let measured = [10.0, 10.0, 10.0, 12.0];
        let predicted = [10.0, 11.0, 9.0, 12.0];
        let metrics = Metrics::of(&measured, &predicted);
        assert_eq!((metrics.mape, metrics.median_ape), (37.5, 25.0));
        assert_eq!((metrics.within_10, metrics.bias_log2), (50.0, 0.0));
        assert!((metrics.r2_log2.unwrap() - (1.0 - 2.0 / 3.0)).abs() < 1e-12);
        assert_eq!(Metrics::of(&[1.0, 1.0], &[1.0, 2.0]).spearman, None);
    }

    #[test]
    fn ordering_is_counted_by_pairs() {
        let measured = [1.0, 2.0, 3.0, 3.0];
        assert_eq!(
            Pairs::of(&measured, &[1.0, 2.0, 3.0, 4.0]).share(),
            Some(100.0)
        );
        assert_eq!(
            Pairs::of(&measured, &[4.0, 3.0, 2.0, 1.0]).share(),
            Some(0.0)
        );
        assert_eq!(Pairs::of(&measured, &[0.0; 4]).share(), Some(50.0));
        assert_eq!(Pairs::of(&[1.0, 1.0], &[1.0, 2.0]).share(), None);
        assert_eq!(top(&measured, &[4.0, 1.0, 2.0, 3.0], 1), 0.5);
        assert_eq!(top(&measured, &[4.0, 1.0, 2.0, 3.0], 4), 1.0);
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [2.5, 1.0, 2.5]);
    }
}
