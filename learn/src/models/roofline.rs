//! The roofline: the longer of arithmetic and traffic at the best rates seen, by number of threads.
//!
//! A lower bound on time, and a baseline for every model. Rates are high quantiles over the training samples, because
//! most logs come without a calibration. The largest rate itself is often a faulty measurement.

use std::collections::BTreeMap;

use opdata::stats::quantile;

use super::regressor::Regressor;
use crate::data::Dataset;
use crate::error::Result;
use crate::features::{FEATURES, Point};

/// The quantile of the rates that counts as reachable.
const REACHABLE: f64 = 0.98;

/// Reachable rates.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    flops_per_ns: f64,
    bytes_per_ns: f64,
}

/// A fitted roofline.
#[derive(Debug, Clone, PartialEq)]
pub struct Roofline {
    by_threads: BTreeMap<u32, Rates>,
    overall: Rates,
    threads_column: Option<usize>,
}

impl Roofline {
    /// Reads the rates off some samples.
    pub fn fit(dataset: &Dataset, indices: &[usize]) -> Self {
        let rates = |chosen: &[usize]| {
            let rate = |work: fn(&Point) -> f64| {
                let values = chosen
                    .iter()
                    .map(|&i| &dataset.samples[i])
                    .map(|s| work(&s.point) / s.log2_time.exp2())
                    .filter(|rate| rate.is_finite() && *rate > 0.0);
                quantile(values, REACHABLE).unwrap_or(1.0)
            };
            Rates {
                flops_per_ns: rate(|p| p.flops),
                bytes_per_ns: rate(|p| p.bytes),
            }
        };
        let mut by_threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for &index in indices {
            if let Some(threads) = dataset.samples[index]
                .threads
                .and_then(|t| u32::try_from(t).ok())
            {
                by_threads.entry(threads).or_default().push(index);
            }
        }
        Self {
            by_threads: by_threads
                .into_iter()
                .map(|(threads, chosen)| (threads, rates(&chosen)))
                .collect(),
            overall: rates(indices),
            threads_column: FEATURES.iter().position(|f| f.name == "threads"),
        }
    }

    fn rates_of(&self, point: &Point) -> Rates {
        self.threads_column
            .map(|column| point.features[column].exp2())
            .filter(|threads| threads.is_finite())
            .and_then(|threads| self.by_threads.get(&(threads.round() as u32)))
            .copied()
            .unwrap_or(self.overall)
    }

    /// Base-2 logarithms of the ns that arithmetic and traffic take.
    pub fn bounds(&self, point: &Point) -> [f64; 2] {
        let rates = self.rates_of(point);
        [
            (point.flops / rates.flops_per_ns).max(1e-3).log2(),
            (point.bytes / rates.bytes_per_ns).max(1e-3).log2(),
        ]
    }
}

impl Regressor for Roofline {
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>> {
        Ok(points
            .iter()
            .map(|point| {
                let [compute, memory] = self.bounds(point);
                compute.max(memory)
            })
            .collect())
    }
}
