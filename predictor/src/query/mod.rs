//! Training a model to keep, and asking it.
//!
//! | module | for |
//! | --- | --- |
//! | [`trained`] | what training leaves: trees, calibration, facts about the training data |
//! | [`file`] | the `.opm` file that holds it |
//! | [`known`] | operators that were measured as a question asks for them |
//! | [`neighbours`] | the nearest measured rows |
//! | [`answer`] | a prediction with its interval, reasons and doubts |
//! | [`question`] | an operator described by hand |
//! | [`whatif`] | … at several batch sizes and numbers of threads |
//! | [`batch`] | many questions as JSON |
//! | [`network`] | a whole model, operator by operator |

pub mod answer;
pub mod batch;
pub mod file;
pub mod known;
pub mod neighbours;
pub mod network;
pub mod question;
pub mod trained;
pub mod whatif;

pub use answer::Answer;
pub use trained::{TrainOptions, Trained, train};
