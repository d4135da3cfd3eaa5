//! The effect of running inside a model on an operator's time.
//!
//! Alone, an operator finds its inputs where its last call left them. Inside a model they come from the operator
//! before, perhaps from memory, and its outputs have been evicted since the last pass. Runs that timed the whole model
//! have both times (`time_median_ns` and `in_model_time_ns`). The time inside is a sum: its time alone, times a factor,
//! plus a cost for each byte of the inputs and outputs. Bytes that no cache of a core holds cost more. A constant is
//! added; the rates are fitted, at each number of threads. The times are wanted for sums, so an operator counts by its
//! share of its models' time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rates;
use crate::data::{Dataset, Sample};
use crate::features::Point;

/// Minimum number of samples with both times to fit, for one number of threads.
const LEAST_SAMPLES: usize = 40;
/// Bytes of an input or output that a core's own caches hold beside all else.
const CACHED_BYTES: f64 = 5e5;
/// The least that an operator counts, as a share of its model's time.
const LEAST_SHARE: f64 = 1e-4;
/// Parts of the sum.
const PARTS: usize = 6;

/// The fitted sums; times inside a model are those alone where no whole model was timed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Cost of a unit of each part, ns, by number of threads.
    by_threads: BTreeMap<u64, [f64; PARTS]>,
}

fn parts(point: &Point, alone: f64) -> [f64; PARTS] {
    let [read, written] = point.bases.activations();
    let beyond = |bytes: f64| (bytes - CACHED_BYTES).max(0.0);
    [
        alone.exp2(),
        read,
        written,
        beyond(read),
        beyond(written),
        1.0,
    ]
}

impl Context {
    /// Fits the samples that have both times.
    pub fn fit(dataset: &Dataset, indices: &[usize]) -> Self {
        let mut both: BTreeMap<u64, Vec<([f64; PARTS], f64, f64)>> = BTreeMap::new();
        let shares = dataset.shares();
        for &i in indices {
            let sample: &Sample = &dataset.samples[i];
            if let (Some(inside), Some(threads)) = (sample.log2_in_model, sample.threads) {
                let parts = parts(&sample.point, sample.log2_time);
                let own = both.entry(threads).or_default();
                let weight = f64::from(sample.weight) * shares[i].max(LEAST_SHARE);
                own.push((parts, inside, weight));
            }
        }
        let enough = both
            .into_iter()
            .filter(|(_, samples)| samples.len() >= LEAST_SAMPLES);
        Self {
            by_threads: enough
                .map(|(threads, samples)| (threads, rates::robust(&samples)))
                .collect(),
        }
    }

    /// The time inside a model of a point that takes `alone` by itself, both base-2 logarithms of ns. The rates are
    /// those of the nearest number of threads.
    pub fn time(&self, point: &Point, threads: Option<u64>, alone: f64) -> f64 {
        let asked = threads.unwrap_or(1);
        let nearest = self.by_threads.iter();
        let rates = nearest.min_by_key(|(known, _)| known.abs_diff(asked));
        rates.map_or(alone, |(_, rates)| rates::sum(rates, &parts(point, alone)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Machines, ModelRun, Part, RowSet};
    use crate::testing::dense_row;

    /// `count` products with one row that take 500 ns. Inside a model at two threads they take a tenth more, and 2 ns more
    /// for each kB that is written.
    fn dataset(count: u64) -> Dataset {
        let rows = (0..count).map(|number| {
            let mut row = dense_row(1, 64 << (number % 8), 64 << (number / 8), "{}");
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            row.threads = Some(2);
            row.schedule_space = Some("default".to_owned());
            let alone = 1e3 * (1 + number) as f64;
            row.time_median_ns = Some(alone);
            let written = row.bytes_written.unwrap() as f64;
            row.in_model_time_ns = Some(1.1 * alone + 500.0 + written / 500.0);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        Dataset::new(&set, &Machines::Single).unwrap()
    }

    #[test]
    fn what_a_model_adds_is_found_and_carries_over_to_other_times() {
        let data = dataset(64);
        let context = Context::fit(&data, &data.all());
        for sample in &data.samples {
            let inside = context.time(&sample.point, Some(2), sample.log2_time);
            assert!((inside - sample.log2_in_model.unwrap()).abs() < 0.02);
            // A slower operator of the same size gains as much; other numbers of threads use the nearest rates.
            let slower = context.time(&sample.point, None, sample.log2_time + 4.0);
            let added = inside.exp2() - 1.1 * sample.log2_time.exp2();
            let expected = 1.1 * (sample.log2_time + 4.0).exp2() + added;
            assert!((slower - expected.log2()).abs() < 0.02);
        }
    }

    #[test]
    fn what_a_model_spends_its_time_in_counts_most() {
        let mut data = dataset(64);
        // The slow half takes a fifth more inside, the quick half does not.
        for (place, sample) in data.samples.iter_mut().enumerate() {
            let times = if place < 32 { 1.0 } else { 1.2f64 };
            sample.log2_in_model = Some(sample.log2_time + times.log2());
        }
        let part = |sample: usize| Part {
            sample,
            calls: if sample < 32 { 1 } else { 1000 },
            in_model_ns: Some(data.samples[sample].log2_in_model.unwrap().exp2()),
        };
        data.model_runs = vec![ModelRun {
            run_id: "r".to_owned(),
            model: "m".to_owned(),
            import_key: None,
            threads: 2,
            end_to_end_ns: 1.0,
            drift: None,
            parts: (0..64).map(part).collect(),
        }];
        let shares = data.shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares[0] < LEAST_SHARE && shares[63] > 0.02);
        let factor = |data: &Dataset| {
            let context = Context::fit(data, &data.all());
            let slowest = &data.samples[63];
            (context.time(&slowest.point, Some(2), slowest.log2_time) - slowest.log2_time).exp2()
        };
        let weighted = factor(&data);
        data.model_runs.clear();
        let alike = factor(&data);
        assert!((weighted - 1.2).abs() < 0.01, "{weighted}");
        assert!((alike - 1.2).abs() > 0.02, "{alike}");
    }

    #[test]
    fn a_few_samples_teach_nothing() {
        let data = dataset(39);
        let context = Context::fit(&data, &data.all());
        assert_eq!(context, Context::default());
        assert_eq!(context.time(&data.samples[0].point, Some(2), 12.0), 12.0);
    }
}
