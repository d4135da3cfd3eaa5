//! Times of repeated measurements of a point, and what becomes of them: medians, intervals, the spread of repeats.

use opdata::Row;
use opdata::stats::{median, median_of_sorted};

use super::dataset::Sample;
use super::disturbed::Disturbed;
use super::end_to_end::in_model_ns;

/// What was measured of one point, ns, and how.
#[derive(Debug, Default)]
pub(super) struct Times {
    alone: Vec<f64>,
    in_model: Vec<f64>,
    /// Lower and upper ends of the confidence intervals that there are.
    intervals: Vec<(f64, f64)>,
    disturbed: Disturbed,
}

impl Times {
    pub(super) fn add(&mut self, row: &Row, time_ns: f64) {
        self.alone.push(time_ns);
        self.in_model.extend(in_model_ns(row));
        self.disturbed.add(row);
        let interval = row.time_ci_low_ns.zip(row.time_ci_high_ns);
        self.intervals
            .extend(interval.filter(|(low, _)| *low > 0.0));
    }

    /// From the lowest to the highest end, if all measurements have an interval.
    fn log2_interval(&self) -> Option<(f64, f64)> {
        let whole = |(low, high): (f64, f64), (a, b): (f64, f64)| (low.min(a), high.max(b));
        let all = self.intervals.iter().copied().reduce(whole);
        let complete = self.intervals.len() == self.alone.len();
        all.filter(|_| complete)
            .map(|(low, high)| (low.log2(), high.log2()))
    }
}

/// Sets each sample's times to the medians of its measurements, and whether these are of a disturbed machine; returns the
/// median spread of those with several.
pub(super) fn settle_times(samples: &mut [Sample], times: Vec<Times>) -> Option<f64> {
    let mut spreads = Vec::new();
    for (sample, mut times) in samples.iter_mut().zip(times) {
        sample.log2_interval = times.log2_interval();
        sample.disturbed = times.disturbed.median_is_disturbed();
        sample.log2_in_model = median(times.in_model).map(f64::log2);
        let alone = &mut times.alone;
        alone.sort_by(f64::total_cmp);
        sample.log2_time = median_of_sorted(alone).unwrap_or(f64::NAN).log2();
        if let [shortest, .., longest] = alone.as_slice() {
            spreads.push(longest / shortest - 1.0);
        }
    }
    median(spreads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;

    #[test]
    fn intervals_cover_all_repeats_and_need_them_all() {
        let row = |low: Option<f64>, high: Option<f64>| Row {
            time_ci_low_ns: low,
            time_ci_high_ns: high,
            ..dense_row(1, 8, 8, "{}")
        };
        let mut times = Times::default();
        times.add(&row(Some(64.0), Some(128.0)), 100.0);
        times.add(&row(Some(32.0), Some(100.0)), 90.0);
        assert_eq!(times.log2_interval(), Some((5.0, 7.0)));
        times.add(&row(None, None), 90.0);
        assert_eq!(times.log2_interval(), None);
    }
}
