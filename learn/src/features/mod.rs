//! From a row to its features: the same code at training and at query.
//!
//! | module | for |
//! | --- | --- |
//! | [`list`], [`scope`], `scale` | names, meaning and scope of every feature; the version of the list |
//! | [`point`] | a row as its features and estimates |
//! | [`base`], `schedule` | estimates that the models correct |
//! | `operator` | what is computed: shapes, sliding windows, what has left the caches |
//! | `knobs` | the schedule's knobs as numbers |
//! | `compiled` | what compilers and counters say of a kernel |
//! | [`machine`] | where it runs: its figures, calibrated rates, interference |
//! | `device` | what a kind of device adds, and the table of kinds |
//! | `cpu`, `cuda`, `vta` | the loops of this project's schedules, and their cost |
//! | `autotvm` | the loops of AutoTVM's templates, from imported logs |
//! | [`ablation`] | switching single estimates off |

pub mod ablation;
pub mod base;
pub mod list;
pub mod machine;
pub mod point;
pub mod scope;

mod autotvm;
mod compiled;
mod cpu;
mod cuda;
mod device;
mod knobs;
mod operator;
mod scale;
mod schedule;
mod vta;

pub use list::{FEATURE_VERSION, FEATURES, Values, positions_of};
pub use point::{Point, point_of, workload_name};
pub use scale::squared_distance;
pub use scope::{Feature, Scale, Scope};
