//! A product of sensitivity and pressure, and boosted trees over what it leaves.
//!
//! A slowdown is nearly a product: how sensitive the operator is, times how hard the others press. Both are known from a run
//! beside a stream of copies. So the logarithm is first fitted by least squares in the logarithms of these two and their
//! product; trees over all features predict the rest.

use nalgebra::{DMatrix, DVector};

use super::sample::{PRESSURE, SENSITIVITY, Sample, WIDTH};
use crate::error::Result;
use crate::xgboost::{Booster, Labels, Rows};

/// Trees of the model.
const ROUNDS: u32 = 120;
/// Weight of a coefficient of 1 against a squared residual: it keeps few samples from large coefficients.
const RIDGE: f64 = 0.1;
/// Terms of the product.
const TERMS: usize = 4;

/// Predicts the logarithm of a slowdown.
#[derive(Debug)]
pub(super) struct Trees {
    product: [f64; TERMS],
    booster: Booster,
}

/// The terms of a sample's product; zero where it was not measured beside a stream.
fn terms(features: &[f32; WIDTH]) -> [f64; TERMS] {
    let (own, beside) = (
        f64::from(features[SENSITIVITY]),
        f64::from(features[PRESSURE]),
    );
    match own.is_finite() && beside.is_finite() {
        true => [1.0, own, beside, own * beside],
        false => [0.0; TERMS],
    }
}

impl Trees {
    pub fn fit(samples: &[&Sample]) -> Result<Trees> {
        let own: Vec<&&Sample> = samples.iter().filter(|sample| !sample.is_sliced).collect();
        let rows = own.iter().flat_map(|sample| terms(&sample.features));
        let design = DMatrix::from_row_iterator(own.len(), TERMS, rows);
        let logarithms = DVector::from_iterator(own.len(), own.iter().map(|s| s.slowdown.ln()));
        let normal = design.transpose() * &design + DMatrix::identity(TERMS, TERMS) * RIDGE;
        let solved = normal
            .cholesky()
            .map(|c| c.solve(&(design.transpose() * logarithms)));
        let mut product = [0.0; TERMS];
        if let Some(solved) = solved {
            product.copy_from_slice(solved.as_slice());
        }
        let parameters = [
            ("objective", "reg:squarederror"),
            ("max_depth", "3"),
            ("eta", "0.06"),
            ("subsample", "0.8"),
            ("colsample_bytree", "0.8"),
            ("min_child_weight", "8"),
            ("seed", "42"),
            ("nthread", "1"),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        let values: Vec<f32> = samples.iter().flat_map(|sample| sample.features).collect();
        let rest = |sample: &&Sample| (sample.slowdown.ln() - by_product(&product, sample)) as f32;
        let targets: Vec<f32> = samples.iter().map(rest).collect();
        let rows = Rows {
            values: &values,
            width: WIDTH,
        };
        let labels = Labels {
            targets: &targets,
            ..Labels::default()
        };
        Ok(Trees {
            product,
            booster: Booster::train(&parameters, rows, labels, ROUNDS)?,
        })
    }

    /// The predicted slowdown of a sample; its measured one is ignored.
    pub fn slowdown(&self, sample: &Sample) -> f64 {
        let rows = Rows {
            values: &sample.features,
            width: WIDTH,
        };
        let rest = self.booster.predict(rows).ok();
        let rest = rest.and_then(|all| all.first().copied()).unwrap_or(0.0);
        (by_product(&self.product, sample) + f64::from(rest))
            .exp()
            .max(1.0)
    }
}

/// The part of a logarithm that sensitivity and pressure explain; none on shared processors.
fn by_product(product: &[f64; TERMS], sample: &Sample) -> f64 {
    if sample.is_sliced {
        return 0.0;
    }
    let terms = terms(&sample.features);
    terms
        .iter()
        .zip(product)
        .map(|(term, weight)| term * weight)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_that_was_not_trained_on_is_predicted_by_its_run_beside_a_stream() {
        let sensitivity = |operator: usize| 0.05 * operator as f64;
        let pressure = |operator: usize| 0.4 - 0.03 * operator as f64;
        let mut all = Vec::new();
        for own in 0..10 {
            for beside in 0..10 {
                let mut features = [0.0; WIDTH];
                features[SENSITIVITY] = sensitivity(own) as f32;
                features[PRESSURE] = pressure(beside) as f32;
                all.push(Sample {
                    group: String::new(),
                    workloads: vec![own.to_string(), beside.to_string()],
                    is_sliced: false,
                    crowd: 1.0,
                    features,
                    bandwidth: 1.0,
                    memory_rate: None,
                    slowdown: (2.0 * sensitivity(own) * pressure(beside)).exp(),
                });
            }
        }
        let touches = |sample: &&Sample| sample.workloads.contains(&"7".to_owned());
        let (held, train): (Vec<&Sample>, Vec<&Sample>) = all.iter().partition(touches);
        let trees = Trees::fit(&train).unwrap();
        for sample in held {
            let error = (trees.slowdown(sample) / sample.slowdown - 1.0).abs();
            assert!(error < 0.03, "{error} of {sample:?}");
        }
    }
}
