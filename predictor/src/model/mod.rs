//! A trained model: what is kept of training, and its file.
//!
//! | module | for |
//! | --- | --- |
//! | [`trained`] | what training leaves: trees, calibration, facts about the training data |
//! | [`mod@file`] | the `.opm` file that holds it |
//! | [`known`] | operators that were measured as a query asks for them |
//! | [`neighbours`] | the nearest measured rows |
//! | [`correction`] | how times change on a new machine: a factor, its slope with intensity, and residuals by kind |
//! | [`expected`] | predictions for points |
//! | [`watch`] | progress of training, for the caller to show |
//! | [`adaptation`] | what carries a model over to a new machine: several predictions and how much each counts |

pub mod adaptation;
pub mod correction;
pub mod expected;
pub mod file;
pub mod known;
pub mod neighbours;
pub mod trained;
pub mod watch;

pub use adaptation::Adaptation;
pub use correction::Correction;
pub use trained::{TrainOptions, Trained, train};
