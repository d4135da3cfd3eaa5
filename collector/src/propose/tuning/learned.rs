//! The cost model that operators share: gradient-boosted trees over the predictor's features, trained on the rows so far.
//!
//! It predicts the logarithm of a schedule's time over that of the fastest schedule of the same workload. So rows of one
//! operator teach something of the others, and rows of earlier runs something of this one.

use std::collections::HashMap;

use opdata::{Row, finite};
use oplearn::features::machine::MachineFacts;
use oplearn::features::point::point_of;
use oplearn::features::workload_name;
use oplearn::xgboost::{Booster, Labels, Rows};

/// Minimum number of rows to train on.
const LEAST: usize = 14;
/// Rows by which the training set has to grow before it is trained on anew, as a share of it.
const GROWTH: f64 = 0.15;
/// Trees, and their depth: enough for a few thousand rows. Training takes less than a kernel's build.
const ROUNDS: u32 = 120;

/// Rows with a model trained on them.
pub(super) struct Learned {
    machine: MachineFacts,
    features: Vec<Vec<f32>>,
    workloads: Vec<String>,
    times: Vec<f64>,
    trained: Option<(usize, Booster)>,
}

impl Learned {
    pub fn new(machine: MachineFacts) -> Learned {
        Learned {
            machine,
            features: Vec::new(),
            workloads: Vec::new(),
            times: Vec::new(),
            trained: None,
        }
    }

    /// The features of a row, before or after it is measured.
    pub fn features(&self, row: &Row) -> Vec<f32> {
        point_of(row, &self.machine).features
    }

    /// Takes a row that was measured.
    pub fn add(&mut self, row: &Row) {
        // The row of a default schedule does not have its knobs.
        let has_knobs = row.schedule_space.as_deref() != Some("default");
        if let (Some(ns), true) = (row.time_median_ns.and_then(finite), has_knobs) {
            self.features.push(self.features(row));
            let threads = row.threads.unwrap_or_default();
            self.workloads
                .push(format!("{} {threads}", workload_name(row)));
            self.times.push(ns);
        }
    }

    /// Trains the model if enough rows are new.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails or is missing.
    pub fn train(&mut self, seed: u64) -> anyhow::Result<()> {
        let before = self.trained.as_ref().map_or(0, |(rows, _)| *rows);
        let now = self.times.len();
        if now < LEAST || (now as f64) < before as f64 * (1.0 + GROWTH) {
            return Ok(());
        }
        let mut best: HashMap<&str, f64> = HashMap::new();
        for (workload, ns) in self.workloads.iter().zip(&self.times) {
            let own = best.entry(workload).or_insert(*ns);
            *own = own.min(*ns);
        }
        let targets: Vec<f32> = self
            .workloads
            .iter()
            .zip(&self.times)
            .map(|(workload, ns)| (ns / best[workload.as_str()]).ln() as f32)
            .collect();
        let booster = train(&self.features, &targets, "reg:squarederror", ROUNDS, seed)?;
        self.trained = Some((now, booster));
        Ok(())
    }

    /// Whether there is a model yet.
    pub fn has_model(&self) -> bool {
        self.trained.is_some()
    }

    /// Predicted costs of schedules by their features; none before there is a model.
    ///
    /// # Errors
    /// Fails if XGBoost's library fails.
    pub fn predict(&self, features: &[Vec<f32>]) -> anyhow::Result<Option<Vec<f32>>> {
        let Some((_, booster)) = &self.trained else {
            return Ok(None);
        };
        predict(booster, features).map(Some)
    }
}

/// Trains trees on rows of features.
///
/// # Errors
/// Fails if XGBoost's library fails or is missing.
pub(super) fn train(
    features: &[Vec<f32>],
    targets: &[f32],
    objective: &str,
    rounds: u32,
    seed: u64,
) -> anyhow::Result<Booster> {
    let values: Vec<f32> = features.concat();
    let rows = Rows {
        values: &values,
        width: features.first().map_or(0, Vec::len),
    };
    let groups = [targets.len() as u32];
    let labels = Labels {
        targets,
        weights: &[],
        groups: match objective.starts_with("rank") {
            true => &groups,
            false => &[],
        },
    };
    let parameters = [
        ("objective", objective.to_owned()),
        ("max_depth", "6".to_owned()),
        ("eta", "0.15".to_owned()),
        ("subsample", "0.9".to_owned()),
        ("colsample_bytree", "0.7".to_owned()),
        ("min_child_weight", "1".to_owned()),
        ("tree_method", "hist".to_owned()),
        // Kernels are timed in between, so no threads of XGBoost may spin beside them.
        ("nthread", "1".to_owned()),
        ("verbosity", "0".to_owned()),
        ("seed", (seed & 0x7fff_ffff).to_string()),
    ];
    Ok(Booster::train(&parameters, rows, labels, rounds)?)
}

/// Predictions for rows of features.
///
/// # Errors
/// Fails if XGBoost's library fails.
pub(super) fn predict(booster: &Booster, features: &[Vec<f32>]) -> anyhow::Result<Vec<f32>> {
    let values: Vec<f32> = features.concat();
    Ok(booster.predict(Rows {
        values: &values,
        width: features.first().map_or(0, Vec::len),
    })?)
}
