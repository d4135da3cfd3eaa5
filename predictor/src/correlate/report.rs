//! All factors of every kind of operator: the strength and significance of each one's relation to time, and the
//! relations between factors. Factors are the features, known before a point is measured, and the counters read during
//! the measurement.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use oplearn::crossval::metrics::{pearson, ranks, spearman};
use oplearn::data::Dataset;
use oplearn::features::FEATURES;
use oplearn::features::base::Base;
use oplearn::models::{FitOptions, ModelKind, Regressor, fit};
use rayon::prelude::*;
use serde::Serialize;

use super::measures::{bins, distance_correlation, kendall, mutual_information};
use super::partial::{Dependence, dependence};
use super::significance::{corrected, of_bins, of_ranks, orders};
use crate::error::Result;

/// Number of samples of a kind that the quadratic measures use.
const SAMPLES: usize = 500;
/// A kind with fewer samples is left out.
const LEAST: usize = 20;
/// Factors whose dependence on each other is reported.
const MATRIX: usize = 12;

/// Quantity that factors are correlated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The time
    Time,
    /// The time over the roofline's estimate: the part that the amount of work does not explain
    Rate,
}

/// Options of a correlation analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelateOptions {
    /// Quantity that factors are correlated with.
    pub against: Against,
    /// Number of factors of each kind to give a partial dependence for; with 0 no model is fitted.
    pub partial: usize,
    /// How that model is fitted.
    pub fit: FitOptions,
}

/// One factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorReport {
    /// The feature, or the count as `source:name`.
    pub factor: String,
    /// Samples that have it.
    pub samples: usize,
    /// Pearson's correlation.
    pub pearson: Option<f64>,
    /// Spearman's.
    pub spearman: Option<f64>,
    /// Kendall's tau-b.
    pub kendall: Option<f64>,
    /// Distance correlation.
    pub distance: Option<f64>,
    /// Mutual information, bits.
    pub mutual_bits: f64,
    /// Permutation p-value of Spearman's correlation, corrected for the number of factors.
    pub p_spearman: f64,
    /// Permutation p-value of the mutual information, corrected likewise.
    pub p_mutual: f64,
    /// Partial dependence, if requested.
    pub partial: Vec<Dependence>,
}

/// One kind of operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindReport {
    /// The kind.
    pub kind: String,
    /// Its samples.
    pub samples: usize,
    /// Factors, strongest (distance correlation) first.
    pub factors: Vec<FactorReport>,
    /// Names of the first factors.
    pub matrix_factors: Vec<String>,
    /// Spearman's correlation of these with each other, row by row; missing where a side is constant.
    pub matrix: Vec<Vec<Option<f64>>>,
}

/// Correlates all factors with time, by kind.
///
/// # Errors
/// Fails if the model for partial dependence cannot be fitted.
pub fn correlate(dataset: &Dataset, options: &CorrelateOptions) -> Result<Vec<KindReport>> {
    let model = if options.partial > 0 {
        Some(fit(
            ModelKind::Ensemble,
            dataset,
            &dataset.all(),
            &options.fit,
        )?)
    } else {
        None
    };
    let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, sample) in dataset.samples.iter().enumerate() {
        kinds.entry(&sample.kind).or_default().push(index);
    }
    kinds
        .into_iter()
        .filter(|(_, indices)| indices.len() >= LEAST)
        .map(|(kind, indices)| kind_report(dataset, kind, &indices, options, model.as_deref()))
        .collect()
}

fn kind_report(
    dataset: &Dataset,
    kind: &str,
    indices: &[usize],
    options: &CorrelateOptions,
    model: Option<&dyn Regressor>,
) -> Result<KindReport> {
    let step = indices.len().div_ceil(SAMPLES).max(1);
    let chosen: Vec<usize> = indices.iter().copied().step_by(step).collect();
    let target = |index: usize| {
        let sample = &dataset.samples[index];
        match options.against {
            Against::Time => sample.log2_time,
            Against::Rate => sample.log2_time - sample.point.bases.get(Base::Work, None),
        }
    };
    let columns = Columns::of(dataset, &chosen);
    let mut factors: Vec<(usize, FactorReport)> = (0..columns.len())
        .into_par_iter()
        .filter_map(|column| {
            let value = |index: usize| columns.value(dataset, index, column);
            let pairs = chosen.iter().map(|&i| (value(i), target(i)));
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.filter(|(x, _)| x.is_finite()).unzip();
            let varies = x.iter().any(|v| *v != x[0]);
            let name = columns.name(column);
            (x.len() >= LEAST && varies).then(|| (column, factor(name, &x, &y, options.fit.seed)))
        })
        .collect();
    correct(&mut factors);
    factors.sort_by(|a, b| {
        let strength = |f: &FactorReport| f.distance.unwrap_or(0.0);
        strength(&b.1)
            .total_cmp(&strength(&a.1))
            .then(a.0.cmp(&b.0))
    });
    if let Some(model) = model {
        // A model sees features alone: what is counted is not known before a point is measured.
        let features = factors
            .iter_mut()
            .filter(|(column, _)| *column < FEATURES.len());
        for (column, factor) in features.take(options.partial) {
            factor.partial = dependence(model, dataset, indices, *column)?;
        }
    }
    let first: Vec<usize> = factors
        .iter()
        .take(MATRIX)
        .map(|(column, _)| *column)
        .collect();
    Ok(KindReport {
        kind: kind.to_owned(),
        samples: indices.len(),
        matrix_factors: first.iter().map(|&c| columns.name(c).to_owned()).collect(),
        matrix: matrix(dataset, &chosen, &columns, &first),
        factors: factors.into_iter().map(|(_, factor)| factor).collect(),
    })
}

/// The columns of a sample: the features, then the counters that at least one sample of the kind has.
struct Columns<'a> {
    counts: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(dataset: &'a Dataset, samples: &[usize]) -> Columns<'a> {
        let counts = samples
            .iter()
            .filter_map(|&i| dataset.samples[i].counts.as_ref());
        let names: BTreeSet<&str> = counts
            .flat_map(|counts| counts.keys().map(String::as_str))
            .collect();
        Columns {
            counts: names.into_iter().collect(),
        }
    }

    fn len(&self) -> usize {
        FEATURES.len() + self.counts.len()
    }

    fn name(&self, column: usize) -> &'a str {
        match FEATURES.get(column) {
            Some(feature) => feature.name,
            None => self.counts[column - FEATURES.len()],
        }
    }

    /// The value, or NaN if the sample has none.
    fn value(&self, dataset: &Dataset, sample: usize, column: usize) -> f64 {
        let sample = &dataset.samples[sample];
        match sample.point.features.get(column) {
            Some(value) => f64::from(*value),
            None => {
                let counts = sample.counts.as_ref();
                let count = counts.and_then(|counts| counts.get(self.name(column)));
                count.copied().unwrap_or(f64::NAN)
            }
        }
    }
}

/// Rank correlation of each pair of `chosen` columns over some samples.
fn matrix(
    dataset: &Dataset,
    samples: &[usize],
    columns: &Columns<'_>,
    chosen: &[usize],
) -> Vec<Vec<Option<f64>>> {
    let series = |column: usize| -> Vec<f64> {
        let values = samples.iter().map(|&i| columns.value(dataset, i, column));
        values.collect()
    };
    let correlation = |a: usize, b: usize| {
        let (x, y): (Vec<f64>, Vec<f64>) = series(a)
            .into_iter()
            .zip(series(b))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .unzip();
        spearman(&x, &y)
    };
    chosen
        .iter()
        .map(|&a| chosen.iter().map(|&b| correlation(a, b)).collect())
        .collect()
}

fn factor(name: &str, x: &[f64], y: &[f64], seed: u64) -> FactorReport {
    let orders = orders(x.len(), seed);
    let (bins_x, bins_y) = (bins(x), bins(y));
    FactorReport {
        factor: name.to_owned(),
        samples: x.len(),
        pearson: pearson(x, y),
        spearman: spearman(x, y),
        kendall: kendall(x, y),
        distance: distance_correlation(x, y),
        mutual_bits: mutual_information(&bins_x, &bins_y),
        p_spearman: of_ranks(&ranks(x), &ranks(y), &orders),
        p_mutual: of_bins(&bins_x, &bins_y, &orders),
        partial: Vec::new(),
    }
}

/// Corrects both p-values for the number of factors.
fn correct(factors: &mut [(usize, FactorReport)]) {
    let of = |pick: fn(&FactorReport) -> f64| -> Vec<f64> {
        corrected(&factors.iter().map(|(_, f)| pick(f)).collect::<Vec<_>>())
    };
    let (spearman, mutual) = (of(|f| f.p_spearman), of(|f| f.p_mutual));
    for ((_, factor), (s, m)) in factors.iter_mut().zip(spearman.into_iter().zip(mutual)) {
        factor.p_spearman = s;
        factor.p_mutual = m;
    }
}
