//! Errors of held-out samples by kind of operator, and by interference during the measurement.

use std::collections::BTreeMap;

use oplearn::crossval::folds::OutOfFold;
use oplearn::crossval::metrics::Metrics;
use oplearn::data::{Dataset, Sample};
use serde::Serialize;

/// Metrics of the samples measured on a quiet machine, and of those measured under interference. They separate the
/// predictor's error from that of the measurements. Samples of rows that do not say how they were measured are in
/// neither.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByDisturbance {
    /// Errors of samples measured quietly.
    pub quiet: Metrics,
    /// Errors of samples measured while something else ran.
    pub disturbed: Metrics,
}

impl ByDisturbance {
    /// The metrics. `None` if all samples with this information were measured alike.
    pub(super) fn of(dataset: &Dataset, held_out: &OutOfFold, measured: &[f64]) -> Option<Self> {
        let mut metrics = metrics_by(dataset, held_out, measured, |sample| sample.disturbed);
        Some(Self {
            quiet: metrics.remove(&false)?,
            disturbed: metrics.remove(&true)?,
        })
    }
}

/// Metrics of held-out samples, grouped by a key; samples without a key are left out. `measured` are their times (log2
/// ns), in the same order.
pub(super) fn metrics_by<K: Ord>(
    dataset: &Dataset,
    held_out: &OutOfFold,
    measured: &[f64],
    of: impl Fn(&Sample) -> Option<K>,
) -> BTreeMap<K, Metrics> {
    let mut times: BTreeMap<K, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let pairs = measured.iter().zip(&held_out.predicted);
    for (&index, (&measured, &predicted)) in held_out.index.iter().zip(pairs) {
        if let Some(common) = of(&dataset.samples[index]) {
            let (all_measured, all_predicted) = times.entry(common).or_default();
            all_measured.push(measured);
            all_predicted.push(predicted);
        }
    }
    times
        .into_iter()
        .map(|(common, (measured, predicted))| (common, Metrics::of(&measured, &predicted)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::data::{Machines, RowSet};
    use oplearn::testing::dense_row;

    /// The metrics of samples with these slowdowns, each predicted at this many times its time.
    fn apart(samples: &[(Option<f64>, f64)]) -> Option<ByDisturbance> {
        let row = |(number, (drift_ratio, _)): (usize, &(Option<f64>, f64))| opdata::Row {
            point_id: number.to_string(),
            time_median_ns: Some(1e3 + number as f64),
            drift_ratio: *drift_ratio,
            ..dense_row(1, 8, 8, "{}")
        };
        let rows: Vec<_> = samples.iter().enumerate().map(row).collect();
        let dataset = Dataset::new(&RowSet::from(rows), &Machines::Single).unwrap();
        let measured: Vec<f64> = dataset.samples.iter().map(|s| s.log2_time).collect();
        let times = measured.iter().zip(samples);
        // The held-out samples are in another order than the dataset's.
        let held_out = OutOfFold {
            index: (0..samples.len()).rev().collect(),
            fold: vec![0; samples.len()],
            predicted: times
                .rev()
                .map(|(time, (_, ratio))| time + ratio.log2())
                .collect(),
            disagreement: vec![f64::NAN; samples.len()],
            scores: None,
            of_models: Default::default(),
        };
        let measured: Vec<f64> = measured.into_iter().rev().collect();
        ByDisturbance::of(&dataset, &held_out, &measured)
    }

    #[test]
    fn quiet_and_disturbed_samples_are_judged_apart() {
        let (quiet, disturbed) = (Some(1.0), Some(1.5));
        let both = apart(&[(quiet, 1.1), (disturbed, 0.5), (None, 7.0), (quiet, 1.1)]).unwrap();
        assert_eq!((both.quiet.samples, both.disturbed.samples), (2, 1));
        assert!((both.quiet.median_ape - 10.0).abs() < 1e-6);
        assert!((both.disturbed.median_ape - 50.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_is_apart_where_all_were_measured_alike() {
        assert_eq!(apart(&[(Some(1.0), 1.1), (Some(1.0), 1.1)]), None);
        assert_eq!(apart(&[(Some(1.0), 1.1), (None, 1.1)]), None);
        assert_eq!(apart(&[(None, 1.1), (None, 1.1)]), None);
    }
}
