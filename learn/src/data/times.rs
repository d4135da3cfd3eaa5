//! Times of repeated measurements of a point, and what becomes of them: medians, intervals, the spread of repeats.

use opdata::Row;
use opdata::stats::median;

use super::dataset::Sample;
use super::disturbed;
use super::end_to_end::in_model_ns;

/// One measurement of a point.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Time alone, ns.
    alone: f64,
    /// Time inside its model, ns.
    in_model: Option<f64>,
    /// Lower and upper end of its confidence interval, ns.
    interval: Option<(f64, f64)>,
    /// Whether something else ran meanwhile, where that is known.
    disturbed: Option<bool>,
    /// Time of the sentinel kernel around it over its usual time.
    drift: Option<f64>,
}

/// What was measured of one point.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Measured>);

impl Times {
    pub(super) fn add(&mut self, row: &Row, time_ns: f64) {
        let interval = row.time_ci_low_ns.zip(row.time_ci_high_ns);
        self.0.push(Measured {
            alone: time_ns,
            in_model: in_model_ns(row),
            interval: interval.filter(|(low, _)| *low > 0.0),
            disturbed: disturbed::of_row(row),
            drift: row.drift_ratio,
        });
    }

    /// The longest time over the shortest, less one, where there are several.
    fn spread(&self) -> Option<f64> {
        let times = || self.0.iter().map(|m| m.alone);
        let (longest, shortest) = (times().reduce(f64::max)?, times().reduce(f64::min)?);
        (self.0.len() > 1).then(|| longest / shortest - 1.0)
    }

    /// What the point's time is taken from.
    fn of_use(mut self) -> Self {
        disturbed::keep_of_use(&mut self.0, |m| m.disturbed);
        self
    }

    /// From the lowest to the highest end, if all measurements have an interval.
    fn log2_interval(&self) -> Option<(f64, f64)> {
        let intervals: Option<Vec<(f64, f64)>> = self.0.iter().map(|m| m.interval).collect();
        let whole = |(low, high): (f64, f64), (a, b): (f64, f64)| (low.min(a), high.max(b));
        let (low, high) = intervals?.into_iter().reduce(whole)?;
        Some((low.log2(), high.log2()))
    }

    /// Whether all of those that tell were measured while something else ran.
    fn disturbed(&self) -> Option<bool> {
        self.0
            .iter()
            .filter_map(|m| m.disturbed)
            .reduce(|a, b| a && b)
    }

    fn settle(&self, sample: &mut Sample) {
        sample.log2_interval = self.log2_interval();
        sample.disturbed = self.disturbed();
        let drift = self.0.iter().filter_map(|m| m.drift);
        sample.point.set_drift(median(drift));
        let in_model = self.0.iter().filter_map(|m| m.in_model);
        sample.log2_in_model = median(in_model).map(f64::log2);
        let alone = median(self.0.iter().map(|m| m.alone));
        sample.log2_time = alone.unwrap_or(f64::NAN).log2();
    }
}

/// Sets each sample's times to the medians of its measurements, of those without disturbance if there are any; returns the
/// median spread of all measurements of the points with several.
pub(super) fn settle_times(samples: &mut [Sample], times: Vec<Times>) -> Option<f64> {
    let spreads = median(times.iter().filter_map(Times::spread));
    for (sample, times) in samples.iter_mut().zip(times) {
        times.of_use().settle(sample);
    }
    spreads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dense_row;
    use opdata::Quality;

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
        assert!((times.spread().unwrap() - 1.0 / 9.0).abs() < 1e-12);
        times.add(&row(None, None), 90.0);
        assert_eq!(times.log2_interval(), None);
    }

    #[test]
    fn a_quiet_time_is_not_mixed_with_disturbed_ones() {
        let times = |qualities: &[Option<Quality>]| {
            let mut times = Times::default();
            for (place, quality) in qualities.iter().enumerate() {
                let row = Row {
                    quality: *quality,
                    ..dense_row(1, 8, 8, "{}")
                };
                times.add(&row, 100.0 * (place + 1) as f64);
            }
            let times = times.of_use();
            let alone: Vec<f64> = times.0.iter().map(|m| m.alone).collect();
            (alone, times.disturbed())
        };
        let (a, d) = (Some(Quality::A), Some(Quality::D));
        assert_eq!(times(&[d, a, d, a]), (vec![200.0, 400.0], Some(false)));
        assert_eq!(times(&[d, d]), (vec![100.0, 200.0], Some(true)));
        assert_eq!(times(&[None, a]), (vec![200.0], Some(false)));
        assert_eq!(times(&[None, d]), (vec![100.0, 200.0], Some(true)));
        assert_eq!(times(&[None, None]), (vec![100.0, 200.0], None));
    }
}
