//! Turning points: where more threads (larger tiles, larger inputs) stop paying.
//!
//! | module | for |
//! | --- | --- |
//! | [`sweep`] | series of times over one or two axes, from CSV files and datasets |
//! | [`saturation`] | a/x + b·x + c through a few points |
//! | [`segment`] | segmented regression and the knee, with an interval |
//! | [`choose`] | which value to use, from a few probes, other sweeps and some more measurements |
//! | [`analysis`] | all of it for every sweep |
//! | [`knob`] | what each step of one knob of a schedule does, all else equal |
//! | [`surface`] | times over two factors, from sweeps in datasets |
//! | [`crease`] | the line over two factors along which the first stops paying, with an interval |

pub mod analysis;
pub mod choose;
pub mod crease;
pub mod knob;
mod linear;
pub mod saturation;
pub mod segment;
pub mod surface;
pub mod sweep;

pub use analysis::{Analysis, Options, analyse};
pub use crease::Crease;
pub use surface::{Surface, SurfaceReport, Surfaces, analyse_surfaces};
pub use sweep::Sweep;
