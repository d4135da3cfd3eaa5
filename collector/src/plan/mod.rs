//! The plan of a run: everything that decides what is measured and how, validated.
//!
//! Owns [`Plan`] (serialisable; it is stored in `run.json` and printed by `--dry-run`), the
//! reading of settings into it ([`Planned::from_settings`]) and the errors of bad values. It does not
//! look at the model: whether a name exists is checked by the importer.

mod build;
mod counters;
mod limits;
mod model;
pub(crate) mod parse;
mod reader;
mod remote;
mod run_id;
mod target;
mod tuning;

pub use build::{HostFacts, Planned, Warning};

use opdata::CacheState;
use opdata::contract::PlanRecord;
pub use opdata::contract::plan::WholeModel;
use opengine::device::{Conditions, Target};
use opmodels::ImportRequest;
use thiserror::Error;

use crate::config::Origin;
use crate::sweep::Sweep;

/// A validated plan.
pub type Plan = PlanRecord<ImportRequest, Target, Sweep>;

/// Points of one kernel of a plan: thread counts × cache states × the device's own conditions, in the order they are
/// measured.
pub fn conditions(plan: &Plan) -> Vec<Conditions> {
    let states = || plan.cache_states.iter();
    let at = |&threads| states().map(move |&cache| Conditions::new(threads, cache));
    let mut all: Vec<Conditions> = plan.threads.iter().flat_map(at).collect();
    for (name, values) in &plan.device_conditions {
        let with = |at: Conditions| {
            values.iter().map(move |value| {
                let mut at = at.clone();
                at.device.insert(name.clone(), value.clone());
                at
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

/// The conditions of a plan's whole model: those of its points, with the caches as the model leaves them.
pub fn model_conditions(plan: &Plan) -> Vec<Conditions> {
    let mut all: Vec<Conditions> = Vec::new();
    for mut at in conditions(plan) {
        at.cache = CacheState::Model;
        if !all.contains(&at) {
            all.push(at);
        }
    }
    all
}

/// Reasons why settings do not make a plan. The message names the fault, its place, and the remedy.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// A setting without a value where one is needed.
    #[error("{} is missing: {next}", flag(key))]
    Missing {
        /// The setting.
        key: &'static str,
        /// The remedy.
        next: String,
    },
    /// A value that cannot be.
    #[error("{} {value} ({origin}): {problem}; {next}", flag(key))]
    BadValue {
        /// The setting.
        key: &'static str,
        /// Its text.
        value: String,
        /// Its origin.
        origin: Origin,
        /// Description of the fault.
        problem: String,
        /// The remedy.
        next: String,
    },
    /// A capability that is not there yet.
    #[error(
        "{} {value} ({origin}): not available yet: {problem}; {next}",
        flag(key)
    )]
    NotAvailable {
        /// The setting.
        key: &'static str,
        /// Its text.
        value: String,
        /// Its origin.
        origin: Origin,
        /// The missing part.
        problem: String,
        /// The alternative.
        next: String,
    },
}

fn flag(key: &str) -> String {
    format!("--{key}")
}
