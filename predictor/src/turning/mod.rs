//! Turning points: where more threads (larger tiles, larger inputs) stop paying.
//!
//! | module | for |
//! | --- | --- |
//! | [`sweep`] | series of times over one or two axes, from CSV files |
//! | [`factors`] | series over each factor of a dataset's rows, all else equal |
//! | [`saturation`] | a/x + b·x + c through a few points |
//! | [`segment`] | segmented regression and the knee, with an interval |
//! | [`choose`] | which value to use, from a few probes, other sweeps and some more measurements |
//! | [`analysis`] | all of it for every sweep |
//! | [`knob`] | the effect of each step of one knob of a schedule, all else equal |

pub mod analysis;
pub mod choose;
pub mod factors;
pub mod knob;
mod linear;
pub mod saturation;
pub mod segment;
pub mod sweep;

pub use analysis::{Analysis, Options, analyse};
pub use sweep::Sweep;
