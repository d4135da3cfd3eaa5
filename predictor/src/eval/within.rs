//! Number of whole models whose prediction is within a bound of the measurement.

use std::collections::BTreeMap;

use serde::Serialize;

use super::whole::WholeModel;

/// Number of whole models predicted well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Models.
    pub models: usize,
    /// Models within the bound.
    pub within: usize,
}

/// Number of whole models at one number of threads that are within 10 % of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModelsWithin {
    /// Threads.
    pub threads: u64,
    /// Count of all models.
    pub all: Count,
    /// Count of models measured while nothing else ran; `None` if no run says so.
    pub quiet: Option<Count>,
}

/// Counts the models within 10 %, fewest threads first.
pub fn within_10(models: &[WholeModel]) -> Vec<ModelsWithin> {
    let mut by_threads: BTreeMap<u64, Vec<&WholeModel>> = BTreeMap::new();
    for model in models {
        by_threads.entry(model.threads).or_default().push(model);
    }
    let count = |models: &[&WholeModel]| Count {
        models: models.len(),
        within: models.iter().filter(|m| m.error.abs() <= 10.0).count(),
    };
    let counts = |(threads, models): (u64, Vec<&WholeModel>)| {
        let says = models.iter().any(|m| m.drift.is_some());
        let mut quiet = models.clone();
        quiet.retain(|m| m.disturbed() == Some(false));
        ModelsWithin {
            threads,
            all: count(&models),
            quiet: says.then(|| count(&quiet)),
        }
    };
    by_threads.into_iter().map(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_counted_by_threads_and_by_how_they_were_measured() {
        let model = |threads, error, drift| WholeModel {
            model: "m".to_owned(),
            import_key: None,
            interval_ms: None,
            threads,
            measured_ms: 1.0,
            predicted_ms: 1.0 + error / 100.0,
            error,
            drift,
        };
        let counts = within_10(&[
            model(2, -10.5, Some(1.3)),
            model(2, -9.5, Some(1.1)),
            model(2, 9.5, None),
            model(1, 10.5, None),
        ]);
        let count = |models, within| Count { models, within };
        let at = |threads, all, quiet| ModelsWithin {
            threads,
            all,
            quiet,
        };
        assert_eq!(
            counts,
            [
                at(1, count(1, 0), None),
                at(2, count(3, 2), Some(count(1, 1)))
            ]
        );
    }
}
