//! Turning points: where more threads (larger tiles, larger inputs) stop paying.
//!
//! | module | for |
//! | --- | --- |
//! | [`sweep`] | series of times over one or two axes, from CSV files and datasets |
//! | [`saturation`] | a/x + b·x + c through a few points |
//! | [`segment`] | segmented regression and the knee, with an interval |
//! | [`choose`] | which value to use, from a few probes, other sweeps and some more measurements |
//! | [`analysis`] | all of it for every sweep |

pub mod analysis;
pub mod choose;
pub mod saturation;
pub mod segment;
pub mod sweep;

pub use analysis::{Analysis, Options, analyse};
pub use sweep::Sweep;
