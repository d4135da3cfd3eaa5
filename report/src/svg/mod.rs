//! Pictures as SVG, for reports and browsers; no styles from outside are needed.
//!
//! | module | picture |
//! | --- | --- |
//! | [`plot`] | points and lines on linear or logarithmic axes |
//! | [`heat`] | a cell for each pair of values, coloured by how long it takes |
//! | [`canvas`] | what all of them draw with |

pub mod canvas;
pub mod heat;
pub mod plot;

pub use heat::{Steps, heat};
pub use plot::{Axis, Mark, Scale, Series, plot};
