//! From a row to its features: the same code at training and at query.
//!
//! | module | for |
//! | --- | --- |
//! | [`list`] | names, meaning and scope of every feature; the version of the list |
//! | [`operator`] | what is computed |
//! | [`knobs`] | the schedule's knobs as numbers |
//! | [`gpu`], [`cpu`] | the loop nest under the schedule |
//! | [`default_tile`] | … of a default schedule, from the operator |
//! | [`runs`] | how an operator goes through rows of neighbours |
//! | [`windows`] | how windows that slide over each channel go through rows |
//! | [`epilogue`] | what exponentials take that are fused behind a reduction |
//! | [`tile_axes`] | how a register tile lies on the axes |
//! | [`sampled`] | … of a sample of MetaSchedule's space |
//! | [`machine`] | where it runs, from the run's environment |
//! | [`drift`] | how much slower something else made the machine |
//! | [`point`] | a row as its features and estimates |
//! | [`compiled`] | what compilers and counters say of a kernel |
//! | [`moving`] | arithmetic and traffic at the machine's calibrated rates |
//! | [`ablation`] | switching single estimates off |
//! | [`base`] | estimates that the models correct |
//! | [`steps`] | instructions along the loops of other tools' CPU kernels, for one of them |
//! | [`cycles`] | what a core takes for this project's own, for the same |
//! | [`waves`] | what a GPU takes for a kernel's blocks, for the same |

pub mod ablation;
pub mod base;
pub mod cpu;
pub mod drift;
pub mod gpu;
pub mod knobs;
pub mod list;
pub mod machine;
pub mod operator;
pub mod point;
pub mod scope;

mod compiled;
mod cpu_templates;
mod cycles;
mod default_tile;
mod derive_cpu;
mod derive_gpu;
mod epilogue;
mod gpu_own;
mod gpu_templates;
mod host;
mod moving;
mod nest;
mod reuse;
mod runs;
mod sampled;
mod scale;
mod steps;
mod tile_axes;
mod waves;
mod windows;

pub use list::{FEATURE_VERSION, FEATURES, Values, positions_of};
pub use point::{Point, point_of, workload_name};
pub use scale::squared_distance;
pub use scope::{Feature, Scale, Scope};
