//! Pictures as SVG, for reports and browsers; no styles from outside are needed.
//!
//! | module | picture |
//! | --- | --- |
//! | [`mod@plot`] | points and lines on linear or logarithmic axes |
//! | [`mod@heat`] | a cell for each pair of values, coloured by how long it takes |
//! | [`mod@forest`] | ratios with their intervals, for a page |
//! | [`mod@gantt`] | bars on lanes over time |
//! | [`canvas`] | what plots and heat maps draw with |

pub mod canvas;
pub mod forest;
pub mod gantt;
pub mod heat;
pub mod plot;

pub use forest::{Line as RatioLine, forest};
pub use gantt::{Bar, gantt};
pub use heat::{Steps, heat};
pub use plot::{Axis, Mark, Scale, Series, plot};
