//! The plan of a run: everything that decides what is measured and how, validated.
//!
//! Owns [`Plan`] (serialisable; it is stored in `run.json` and printed by `--dry-run`), the
//! reading of settings into it ([`Planned::from_settings`]) and the errors of bad values. It does not
//! look at the model: whether a name exists is checked by the importer.

mod build;
mod model;
pub(crate) mod parse;
mod reader;
mod run_id;

pub use build::{HostFacts, Planned, Warning};

use opdata::contract::PlanRecord;
pub use opdata::contract::plan::WholeModel;
use opengine::device::Conditions;
use opmodels::ImportRequest;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::Origin;
use crate::sweep::Sweep;

/// A validated plan.
pub type Plan = PlanRecord<ImportRequest, Target, Sweep>;

/// Points of one kernel of a plan: thread counts × cache states, in the order they are measured.
pub fn conditions(plan: &Plan) -> impl Iterator<Item = Conditions> + '_ {
    plan.threads.iter().flat_map(|&t| {
        plan.cache_states
            .iter()
            .map(move |&c| Conditions::new(t, c))
    })
}

/// What to compile for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The code generator.
    pub kind: TargetKind,
    /// CPU name for LLVM; `None` for the machine's own.
    pub mcpu: Option<String>,
    /// Feature switches for LLVM, such as `+avx2` or `-avx512f`.
    pub mattr: Vec<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.name())?;
        if let Some(cpu) = &self.mcpu {
            write!(f, " -mcpu={cpu}")?;
        }
        if !self.mattr.is_empty() {
            write!(f, " -mattr={}", self.mattr.join(","))?;
        }
        Ok(())
    }
}

/// Kinds of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The CPU, through LLVM.
    Llvm,
    /// NVIDIA GPUs.
    Cuda,
    /// The VTA accelerator on a PYNQ board.
    Pynq,
}

/// Whether this build can compile for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It can.
    BuiltIn,
    /// It cannot yet.
    NotBuiltIn,
}

impl TargetKind {
    /// All kinds that have a name.
    pub const ALL: [Self; 3] = [Self::Llvm, Self::Cuda, Self::Pynq];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llvm => "llvm",
            Self::Cuda => "cuda",
            Self::Pynq => "pynq",
        }
    }

    /// What it is, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Llvm => "the CPU of this machine, through LLVM",
            Self::Cuda => "NVIDIA GPUs",
            Self::Pynq => "the VTA accelerator on a PYNQ board",
        }
    }

    /// Whether this build can compile for it.
    pub fn availability(self) -> Availability {
        match self {
            Self::Llvm => Availability::BuiltIn,
            Self::Cuda | Self::Pynq => Availability::NotBuiltIn,
        }
    }
}

/// Why settings make no plan. The message says what is wrong where, and what to do next.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// No value where one is needed.
    #[error("{} is missing: {next}", flag(key))]
    Missing {
        /// The setting.
        key: &'static str,
        /// What to do.
        next: String,
    },
    /// A value that cannot be.
    #[error("{} {value} ({origin}): {problem}; {next}", flag(key))]
    BadValue {
        /// The setting.
        key: &'static str,
        /// Its text.
        value: String,
        /// Where it came from.
        origin: Origin,
        /// What is wrong.
        problem: String,
        /// What to do.
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
        /// Where it came from.
        origin: Origin,
        /// What is not there.
        problem: String,
        /// What to do instead.
        next: String,
    },
}

fn flag(key: &str) -> String {
    format!("--{key}")
}
