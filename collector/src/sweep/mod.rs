//! Sweeps: which factors vary, which are fixed, and how points are drawn.
//!
//! A [`Sweep`] comes from a TOML file ([`mod@file`]) and is stored in the plan, so a run no longer depends on the file.
//! For each operator [`candidates`] draws schedules from its space ([`draw`]): always the default first, then distinct
//! ones up to the sweep's number. The same sweep and seed give an operator the same schedules, whatever else is in the
//! model. So shards, resumed runs and repetitions agree.

mod agree;
mod candidates;
mod device;
mod draw;
mod error;
mod factors;
mod file;
mod points;
mod traces;
mod unchecked;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use candidates::{Drawn, most_schedule_specs, schedule_specs};
pub use error::SweepError;
pub use file::SweepFile;
pub use points::ChosenPoint;

use opengine::schedule::{Factor, FactorValue};

/// The factors that vary in a run, and the design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Its name: the file's, without folder and ending.
    pub name: String,
    /// Origin of the schedules.
    pub space: SpaceKind,
    /// How combinations are drawn.
    pub draw: Draw,
    /// Schedules of an operator, beside the default one.
    pub schedules: u32,
    /// Maximum number of points of the run; the schedules of every operator are reduced alike to stay within.
    pub max_points: Option<u64>,
    /// Kinds or functions of the operators to sweep; all if none is named.
    pub operators: Vec<String>,
    /// The traces of the space [`SpaceKind::Traces`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<Value>,
    /// The points of the space [`SpaceKind::Points`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ChosenPoint>,
    /// The machine that they were chosen for (its `env_hash`); `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Factors of the schedule that vary.
    pub vary: BTreeMap<Factor, Values>,
    /// Factors of the schedule that are fixed.
    pub fix: BTreeMap<Factor, FactorValue>,
    /// Batch sizes; the request's own if none is named.
    pub batches: Vec<u64>,
    /// Heights and widths of the model's images; the model's own if none is named.
    pub input_sizes: Vec<u64>,
}

/// A schedule space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceKind {
    /// The default schedule of each operator and nothing else.
    Default,
    /// The operators' own loops, besides the default schedule.
    AsIs,
    /// Explicit knobs.
    Template,
    /// TVM's MetaSchedule rules, sampled.
    Metaschedule,
    /// Recorded traces.
    Traces,
    /// Points chosen one by one, each with its schedule and threads.
    Points,
}

impl SpaceKind {
    /// Its name in sweeps.
    pub fn name(self) -> &'static str {
        match self {
            SpaceKind::Default => "default",
            SpaceKind::AsIs => "as-is",
            SpaceKind::Template => "template",
            SpaceKind::Metaschedule => "metaschedule",
            SpaceKind::Traces => "traces",
            SpaceKind::Points => "points",
        }
    }
}

/// How combinations of settings are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Every combination; where there are too many, evenly spread over the grid.
    Grid,
    /// Independently at random.
    Random,
    /// Latin hypercube: every value of a factor about equally often.
    LatinHypercube,
    /// Sobol's sequence, Owen-scrambled: evenly spread in every few factors together.
    Sobol,
}

impl Draw {
    /// Its name in sweeps.
    pub fn name(self) -> &'static str {
        match self {
            Draw::Grid => "grid",
            Draw::Random => "random",
            Draw::LatinHypercube => "latin-hypercube",
            Draw::Sobol => "sobol",
        }
    }
}

/// The values a factor takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// All values that the operator's space offers.
    All,
    /// The listed values that the operator's space offers.
    Listed(Vec<FactorValue>),
}
