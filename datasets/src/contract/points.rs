//! Points chosen one by one, as `oppredict suggest` writes them and `opcollect --sweep` reads them.
//!
//! ```toml
//! about = "…"                        # for people
//! space = "points"
//! version = 1                        # of this form
//! machine = "47a865cdd1ea8bef"       # env_hash of the machine they were chosen for; may be left out
//! [settings]                         # the model, and how to time
//! modelname = "resnet-18"
//! [[points]]
//! operator = "conv2d_add_relu"       # for people
//! workload = "4fb4db8abd5b77bd"      # as in the rows' column workload_hash
//! knobs = '{"template": …}'          # as in schedule_knobs; the default schedule if left out
//! threads = [1, 2]
//! cache = "model"
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::CacheState;

/// The version of the form.
pub const POINTS_VERSION: u64 = 1;
/// The value of `space` in such a file.
pub const POINTS_SPACE: &str = "points";

/// A file of points; `Setting` is the value of a setting, as TOML has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointsFile<Setting> {
    /// A line for people.
    pub about: String,
    /// [`POINTS_SPACE`].
    pub space: &'static str,
    /// [`POINTS_VERSION`].
    pub version: u64,
    /// `env_hash` of the machine that the points were chosen for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Settings of the run, by the names of the collector's flags.
    pub settings: BTreeMap<String, Setting>,
    /// Batch and image sizes of the imports.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Setting>,
    /// The points.
    pub points: Vec<ChosenPoint>,
}

/// A schedule of an operator, and the conditions of its measurement. `Text` is the type of the knobs' text; a reader
/// may want its position in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenPoint<Text = String> {
    /// Name of the operator, for people.
    pub operator: String,
    /// Hash of the operator's computation.
    pub workload: String,
    /// Its knobs, as in `schedule_knobs`; without them, the default schedule.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub knobs: Option<Text>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// State of the caches.
    pub cache: CacheState,
}
