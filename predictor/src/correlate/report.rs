//! All factors of every kind of operator: how strongly each goes with time, how surely, and how they go with each other.

use std::collections::BTreeMap;

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

/// Samples of a kind that the quadratic measures look at.
const SAMPLES: usize = 500;
/// A kind with fewer samples is left out.
const LEAST: usize = 20;
/// Factors whose dependence on each other is reported.
const MATRIX: usize = 12;

/// What factors are set against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The time.
    Time,
    /// The time over the roofline's estimate: what the amount of work does not explain.
    Rate,
}

impl Against {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Time, Self::Rate];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
        }
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Time => "The time",
            Self::Rate => {
                "The time over the roofline's estimate: what the amount of work does not explain"
            }
        }
    }
}

/// What to work out.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelateOptions {
    /// What factors are set against.
    pub against: Against,
    /// Factors of each kind to give a partial dependence for; 0 for none (no model is fitted then).
    pub partial: usize,
    /// How that model is fitted.
    pub fit: FitOptions,
}

/// One factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorReport {
    /// The feature.
    pub factor: &'static str,
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
    /// … of the mutual information.
    pub p_mutual: f64,
    /// Partial dependence, if asked for.
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
    pub matrix_factors: Vec<&'static str>,
    /// Spearman's correlation of these with each other, row by row; missing where a side is constant.
    pub matrix: Vec<Vec<Option<f64>>>,
}

/// Correlates all factors with time, by kind.
///
/// # Errors
/// The model for partial dependence cannot be fitted.
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
            Against::Rate => sample.log2_time - sample.point.bases.get(Base::Work),
        }
    };
    let mut factors: Vec<(usize, FactorReport)> = (0..FEATURES.len())
        .into_par_iter()
        .filter_map(|column| {
            let pairs: Vec<(f64, f64)> = chosen
                .iter()
                .map(|&i| {
                    (
                        f64::from(dataset.samples[i].point.features[column]),
                        target(i),
                    )
                })
                .filter(|(x, _)| x.is_finite())
                .collect();
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let varies = x.iter().any(|v| *v != x[0]);
            (x.len() >= LEAST && varies).then(|| (column, factor(column, &x, &y, options.fit.seed)))
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
        for (column, factor) in factors.iter_mut().take(options.partial) {
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
        matrix_factors: first.iter().map(|&c| FEATURES[c].name).collect(),
        matrix: matrix(dataset, &chosen, &first),
        factors: factors.into_iter().map(|(_, factor)| factor).collect(),
    })
}

/// Rank correlation of each pair of columns over some samples.
fn matrix(dataset: &Dataset, samples: &[usize], columns: &[usize]) -> Vec<Vec<Option<f64>>> {
    let series = |column: usize| -> Vec<f64> {
        let points = samples.iter().map(|&i| &dataset.samples[i].point);
        points.map(|p| f64::from(p.features[column])).collect()
    };
    let correlation = |a: usize, b: usize| {
        let (x, y): (Vec<f64>, Vec<f64>) = series(a)
            .into_iter()
            .zip(series(b))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .unzip();
        spearman(&x, &y)
    };
    columns
        .iter()
        .map(|&a| columns.iter().map(|&b| correlation(a, b)).collect())
        .collect()
}

fn factor(column: usize, x: &[f64], y: &[f64], seed: u64) -> FactorReport {
    let orders = orders(x.len(), seed);
    let (bins_x, bins_y) = (bins(x), bins(y));
    FactorReport {
        factor: FEATURES[column].name,
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
