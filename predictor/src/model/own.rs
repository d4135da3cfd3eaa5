//! A model of the new machine's own measurements, mixed with what is carried over from the old one.
//!
//! A few measurements correct the old model; some tens are worth more than it. How much each counts is what errs least on
//! measurements that neither has seen.

use oplearn::crossval::metrics::Metrics;
use oplearn::data::Dataset;
use oplearn::data::split::shuffled;
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, Regressor};

use crate::error::Result;
use crate::model::correction::Correction;

/// Fewer measurements make no model.
const LEAST: usize = 10;
/// Parts that measurements are held out in.
const FOLDS: usize = 5;
/// Weights that are tried.
const STEPS: usize = 10;

/// A model of the new machine alone, and how much it counts.
#[derive(Debug)]
pub struct Own {
    /// The model.
    pub ensemble: Ensemble,
    /// Its share of a prediction's logarithm, 0 to 1.
    pub weight: f64,
}

impl Own {
    /// A prediction (log2 ns) that is carried over, mixed with this model's.
    pub fn mixed(&self, carried: f64, own: f64) -> f64 {
        mixed(self.weight, carried, own)
    }
}

fn mixed(weight: f64, carried: f64, own: f64) -> f64 {
    (1.0 - weight) * carried + weight * own
}

/// Measurements on the new machine and what the old model predicts for them.
pub(crate) struct Measured<'a> {
    pub dataset: &'a Dataset,
    /// The old model's predictions of all samples, log2 ns.
    pub predicted: &'a [f64],
}

impl Measured<'_> {
    fn point(&self, index: usize) -> &Point {
        &self.dataset.samples[index].point
    }

    fn kind(&self, index: usize) -> &str {
        &self.dataset.samples[index].kind
    }

    /// log2(measured ÷ predicted).
    pub fn error(&self, index: usize) -> f64 {
        self.dataset.samples[index].log2_time - self.predicted[index]
    }

    /// The correction from some samples.
    pub fn correction(&self, indices: &[usize]) -> Correction {
        let points: Vec<&Point> = indices.iter().map(|&i| self.point(i)).collect();
        let kinds: Vec<&str> = indices.iter().map(|&i| self.kind(i)).collect();
        let errors: Vec<f64> = indices.iter().map(|&i| self.error(i)).collect();
        Correction::fit(&points, &kinds, &errors)
    }

    /// A sample's prediction, carried over by a correction.
    pub fn carried(&self, correction: &Correction, index: usize) -> f64 {
        self.predicted[index] + correction.of(self.point(index), self.kind(index))
    }

    /// A model of some samples with the weight that errs least on those held out; none if they are too few or it does
    /// not help.
    ///
    /// # Errors
    /// XGBoost's library fails.
    pub fn own(&self, indices: &[usize]) -> Result<Option<Own>> {
        if indices.len() < LEAST {
            return Ok(None);
        }
        let weight = self.weight(indices)?;
        if weight == 0.0 {
            return Ok(None);
        }
        let ensemble = Ensemble::fit(self.dataset, indices, &FitOptions::default())?;
        Ok(Some(Own { ensemble, weight }))
    }

    fn weight(&self, indices: &[usize]) -> Result<f64> {
        let order = shuffled(indices.len(), 1);
        let (mut measured, mut carried, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for fold in 0..FOLDS {
            let part = |inside: bool| -> Vec<usize> {
                let places = order.iter().enumerate();
                places
                    .filter(|(place, _)| (place % FOLDS == fold) == inside)
                    .map(|(_, &i)| indices[i])
                    .collect()
            };
            let (test, train) = (part(true), part(false));
            let correction = self.correction(&train);
            let ensemble = Ensemble::fit(self.dataset, &train, &FitOptions::default())?;
            let points: Vec<&Point> = test.iter().map(|&i| self.point(i)).collect();
            alone.extend(ensemble.predict(&points)?);
            for &index in &test {
                measured.push(self.dataset.samples[index].log2_time);
                carried.push(self.carried(&correction, index));
            }
        }
        let error = |weight: f64| {
            let mixed: Vec<f64> = carried
                .iter()
                .zip(&alone)
                .map(|(carried, alone)| mixed(weight, *carried, *alone))
                .collect();
            Metrics::of(&measured, &mixed).mape
        };
        let weights = (0..=STEPS).map(|step| step as f64 / STEPS as f64);
        let best = weights.min_by(|a, b| error(*a).total_cmp(&error(*b)));
        Ok(best.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::own::*;
    use oplearn::data::{Machines, RowSet};
    use oplearn::testing::dense_row;

    /// Dense layers that take 1 ns for 50 flop.
    fn dataset() -> Dataset {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        let rows = (0..60).map(|number| {
            let (columns, depth) = (64 << (number % 6), 32 << (number / 6 % 10));
            let mut row = dense_row(1, columns, depth, knobs);
            row.point_id = number.to_string();
            row.workload_hash = Some(number.to_string());
            row.time_median_ns = row.flops.map(|flops| flops as f64 / 50.0);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        Dataset::new(&set, &Machines::Single).unwrap()
    }

    #[test]
    fn a_model_of_its_own_counts_as_far_as_it_is_better() {
        let dataset = dataset();
        let right: Vec<f64> = dataset.targets();
        let right = Measured {
            dataset: &dataset,
            predicted: &right,
        };
        assert!(right.own(&dataset.all()).unwrap().is_none());
        // Off by a power of two up or down, without any pattern that a correction could see.
        let wrong: Vec<f64> = dataset.targets();
        let wrong: Vec<f64> = wrong
            .iter()
            .zip(shuffled(wrong.len(), 9))
            .map(|(time, place)| time + if place % 2 == 0 { 2.0 } else { -2.0 })
            .collect();
        let wrong = Measured {
            dataset: &dataset,
            predicted: &wrong,
        };
        assert!(wrong.own(&dataset.all()).unwrap().unwrap().weight >= 0.5);
        assert!(wrong.own(&[0, 1, 2]).unwrap().is_none());
    }
}
