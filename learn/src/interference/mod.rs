//! How operators that run at the same time slow each other down.
//!
//! Learned from rows of `opcollect pairs` by facts of each operator alone: traffic, footprint, arithmetic, threads,
//! whether processors are shared, and a run beside a stream of copies. What was measured is taken as measured.
//! [`mod@evaluate`] holds groups and operators out, beside three baselines.

mod evaluate;
mod sample;
mod trees;

use std::collections::HashMap;

use opdata::contract::pairs::PairRow;
use serde::{Deserialize, Serialize};

pub use evaluate::{Errors, Evaluation, evaluate};
pub use sample::Neighbour;

use sample::{Probes, Sample, probes, samples};

use crate::error::Result;
use trees::Trees;

/// Minimum number of samples to train trees on.
const LEAST_SAMPLES: usize = 30;

/// The slowdown of an operator beside another.
#[derive(Debug, Default)]
pub struct Slowdowns {
    /// Measured ones of two operators on processors of their own, by the operator and the one beside it.
    measured: HashMap<(String, String), f64>,
    trees: Option<Trees>,
    kept: Kept,
}

/// The slowdown model as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    samples: Vec<Sample>,
    probes: Probes,
}

impl Slowdowns {
    /// Learned from operators that were measured at the same time.
    ///
    /// # Errors
    /// Fails if XGBoost's library is missing or fails.
    pub fn of_pairs(rows: &[PairRow]) -> Result<Slowdowns> {
        Slowdowns::of_kept(Kept {
            samples: samples(rows),
            probes: probes(rows),
        })
    }

    /// Restores the model from what [`Slowdowns::kept`] returned.
    ///
    /// # Errors
    /// Fails as [`Slowdowns::of_pairs`] does.
    pub fn of_kept(kept: Kept) -> Result<Slowdowns> {
        let mut measured = HashMap::new();
        for sample in kept.samples.iter().filter(|sample| !sample.is_sliced) {
            if let [own, beside] = &sample.workloads[..] {
                measured.insert((own.clone(), beside.clone()), sample.slowdown);
            }
        }
        let trees = match kept.samples.len() >= LEAST_SAMPLES {
            true => Some(Trees::fit(&kept.samples.iter().collect::<Vec<_>>())?),
            false => None,
        };
        Ok(Slowdowns {
            measured,
            trees,
            kept,
        })
    }

    /// The slowdown model as it is stored.
    pub fn kept(&self) -> Kept {
        self.kept.clone()
    }

    /// The slowdown of an operator on processors of its own while another runs on others; 1 without interference.
    pub fn of(&self, own: &Neighbour, beside: &Neighbour) -> f64 {
        let key = (own.workload.clone(), beside.workload.clone());
        match (self.measured.get(&key), &self.trees) {
            (Some(slowdown), _) => *slowdown,
            (None, Some(trees)) => {
                let [own, beside] = [own, beside].map(|side| side.clone().with(&self.kept.probes));
                trees.slowdown(&Sample::of_two(&own, &beside))
            }
            (None, None) => 1.0,
        }
    }

    /// Origin of the slowdowns, in words.
    pub fn about(&self) -> String {
        match (self.kept.samples.len(), &self.trees) {
            (0, _) => "taken for none: no pairs are known (--pairs)".to_owned(),
            (many, Some(_)) => format!("measured, else predicted by {many} samples"),
            (many, None) => format!(
                "{many} measured, else taken for none ({LEAST_SAMPLES} samples are needed to predict)"
            ),
        }
    }
}
