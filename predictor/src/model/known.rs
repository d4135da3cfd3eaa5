//! Operators that were measured as the default schedule runs them: a query about one of them has its answer.

use std::collections::BTreeMap;

use oplearn::data::{Dataset, QueryKey};
use serde::{Deserialize, Serialize};

/// Measured operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Points by workload, in order, so that the same training writes the same file.
    points: BTreeMap<String, Vec<Entry>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    #[serde(alias = "question")]
    key: QueryKey,
    log2_time: f64,
    log2_in_model: Option<f64>,
    log2_interval: Option<(f64, f64)>,
    machine: String,
}

/// Measured times of an operator, base-2 logarithms of ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownTimes {
    /// Time of the operator alone.
    pub log2_time: f64,
    /// Time inside a running model, if it was measured there.
    pub log2_in_model: Option<f64>,
    /// Ends of the confidence interval of the time alone, if its rows have one.
    pub log2_interval: Option<(f64, f64)>,
}

impl Known {
    /// The samples of a dataset that are answers to queries.
    pub fn new(dataset: &Dataset) -> Self {
        let mut points: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for sample in &dataset.samples {
            if let Some(key) = &sample.query_key {
                points
                    .entry(key.workload().to_owned())
                    .or_default()
                    .push(Entry {
                        key: key.clone(),
                        log2_time: sample.log2_time,
                        log2_in_model: sample.log2_in_model,
                        log2_interval: sample.log2_interval,
                        machine: dataset.machines[sample.machine].id.clone(),
                    });
            }
        }
        Self { points }
    }

    /// Whether no operator was measured with its default schedule.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The times measured on a machine, if there are any.
    pub fn get(&self, key: &QueryKey, machine: &str) -> Option<KnownTimes> {
        let entries = self.points.get(key.workload())?;
        let entry = entries
            .iter()
            .find(|e| e.machine == machine && e.key.same_as(key))?;
        Some(KnownTimes {
            log2_time: entry.log2_time,
            log2_in_model: entry.log2_in_model,
            log2_interval: entry.log2_interval,
        })
    }
}
