//! From rows to samples: what is left out, duplicates merged, machines separated, weights by quality.
//!
//! | module | for |
//! | --- | --- |
//! | [`source`] | where rows come from: datasets, runs, logs of other tools |
//! | [`intake`] | rows → samples |
//! | [`dataset`] | the samples with their workloads and machines |
//! | [`disturbed`] | what was measured while something else ran |
//! | [`query_key`] | identity of a default-schedule query: rows with equal keys are repeats |
//! | [`end_to_end`] | models that were timed end to end, with their operators |
//! | [`split`] | which samples are held out together |

pub mod dataset;
pub mod devices;
pub mod disturbed;
pub mod end_to_end;
pub mod intake;
pub mod query_key;
pub mod source;
pub mod split;

mod times;

pub use dataset::{Dataset, Intake, Sample, Workload, points};
pub use end_to_end::{ModelRun, Part};
pub use intake::Machines;
pub use query_key::QueryKey;
pub use source::{RowSet, Source, each_batch};
pub use split::{Fold, Split};
