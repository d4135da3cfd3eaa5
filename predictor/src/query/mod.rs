//! Asking a trained model.
//!
//! | module | for |
//! | --- | --- |
//! | [`answer`] | a prediction with its interval, reasons and doubts |
//! | `blank` | the row that a query begins with |
//! | [`operator`] | an operator described by hand |
//! | [`whatif`] | … at several batch sizes and numbers of threads |
//! | [`batch`] | many queries as JSON |
//! | [`compare`] | a model against rows that were measured |
//! | [`network`] | a whole model, operator by operator |

pub mod answer;
pub mod batch;
pub mod compare;
pub mod network;
pub mod operator;
pub mod whatif;

mod blank;

pub use answer::Answer;
