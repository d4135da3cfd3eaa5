//! Times of repeated measurements of a point: medians, intervals, the spread of repeats.

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
    /// Lower and upper end of its confidence interval, ns.
    interval: Option<(f64, f64)>,
    /// Whether something else ran meanwhile, where that is known.
    disturbed: Option<bool>,
    /// Time of the reference kernel around it over its idle time.
    drift: Option<f64>,
}

/// A time inside a model.
#[derive(Debug, Clone, Copy)]
struct Inside {
    ns: f64,
    /// Whether something else ran while the model did, where that is known.
    disturbed: Option<bool>,
}

/// The measurements of one point.
#[derive(Debug, Default)]
pub(super) struct Times {
    measured: Vec<Measured>,
    inside: Vec<Inside>,
}

impl Times {
    /// Adds a row's times. `model_disturbed` says whether something else ran during its whole model, if known.
    pub(super) fn add(&mut self, row: &Row, time_ns: f64, model_disturbed: Option<bool>) {
        self.inside.extend(in_model_ns(row).map(|ns| Inside {
            ns,
            disturbed: model_disturbed,
        }));
        let interval = row.time_ci_low_ns.zip(row.time_ci_high_ns);
        self.measured.push(Measured {
            alone: time_ns,
            interval: interval.filter(|(low, _)| *low > 0.0),
            disturbed: row.interference().was_disturbed(),
            drift: row.drift_ratio,
        });
    }

    /// The longest time over the shortest, less one, where there are several.
    fn spread(&self) -> Option<f64> {
        let times = || self.measured.iter().map(|m| m.alone);
        let (longest, shortest) = (times().reduce(f64::max)?, times().reduce(f64::min)?);
        (self.measured.len() > 1).then(|| longest / shortest - 1.0)
    }

    /// Keeps the measurements that the point's time is computed from.
    fn of_use(mut self) -> Self {
        disturbed::keep_of_use(&mut self.measured, |m| m.disturbed);
        disturbed::keep_of_use(&mut self.inside, |inside| inside.disturbed);
        self
    }

    /// The interval from the lowest to the highest end, if all measurements have one.
    fn log2_interval(&self) -> Option<(f64, f64)> {
        let intervals: Option<Vec<(f64, f64)>> = self.measured.iter().map(|m| m.interval).collect();
        let whole = |(low, high): (f64, f64), (a, b): (f64, f64)| (low.min(a), high.max(b));
        let (low, high) = intervals?.into_iter().reduce(whole)?;
        Some((low.log2(), high.log2()))
    }

    /// Whether all times with this information were measured while something else ran.
    fn disturbed(&self) -> Option<bool> {
        self.measured
            .iter()
            .filter_map(|m| m.disturbed)
            .reduce(|a, b| a && b)
    }

    fn settle(&self, sample: &mut Sample) {
        sample.log2_interval = self.log2_interval();
        sample.disturbed = self.disturbed();
        let drift = self.measured.iter().filter_map(|m| m.drift);
        sample.point.set_drift(median(drift));
        let inside = self.inside.iter().map(|inside| inside.ns);
        sample.log2_in_model = median(inside).map(f64::log2);
        let alone = median(self.measured.iter().map(|m| m.alone));
        sample.log2_time = alone.unwrap_or(f64::NAN).log2();
    }
}

/// Sets each sample's times to the medians of its undisturbed measurements, or of all if there are none. Returns the
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
        times.add(&row(Some(64.0), Some(128.0)), 100.0, None);
        times.add(&row(Some(32.0), Some(100.0)), 90.0, None);
        assert_eq!(times.log2_interval(), Some((5.0, 7.0)));
        assert!((times.spread().unwrap() - 1.0 / 9.0).abs() < 1e-12);
        times.add(&row(None, None), 90.0, None);
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
                times.add(&row, 100.0 * (place + 1) as f64, None);
            }
            let times = times.of_use();
            let alone: Vec<f64> = times.measured.iter().map(|m| m.alone).collect();
            (alone, times.disturbed())
        };
        let (a, d) = (Some(Quality::A), Some(Quality::D));
        assert_eq!(times(&[d, a, d, a]), (vec![200.0, 400.0], Some(false)));
        assert_eq!(times(&[d, d]), (vec![100.0, 200.0], Some(true)));
        assert_eq!(times(&[None, a]), (vec![200.0], Some(false)));
        assert_eq!(times(&[None, d]), (vec![100.0, 200.0], Some(true)));
        assert_eq!(times(&[None, None]), (vec![100.0, 200.0], None));
    }

    #[test]
    fn a_time_inside_a_model_is_of_a_quiet_one_whatever_it_is_alone() {
        let inside = |models: &[(f64, Option<bool>)]| {
            let mut times = Times::default();
            for (ns, disturbed) in models {
                let row = Row {
                    in_model_time_ns: Some(*ns),
                    schedule_space: Some("default".to_owned()),
                    quality: Some(Quality::D),
                    ..dense_row(1, 8, 8, "{}")
                };
                times.add(&row, 100.0, *disturbed);
            }
            let kept = times.of_use().inside;
            kept.iter().map(|inside| inside.ns).collect::<Vec<_>>()
        };
        let (quiet, busy) = (Some(false), Some(true));
        assert_eq!(inside(&[(9.0, busy), (5.0, quiet), (7.0, None)]), [5.0]);
        assert_eq!(inside(&[(9.0, busy), (7.0, None)]), [9.0, 7.0]);
    }
}
