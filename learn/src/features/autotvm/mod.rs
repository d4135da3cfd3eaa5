//! Kernels of AutoTVM: their loops from the knobs in its logs, and the cycles along them.
//!
//! Reads TVM's schedule templates (TOPI, 0.6 to 0.9). A template is recognised by the splits among its knobs. OpBench
//! writes no such rows; they come from imported logs.

mod cpu;
mod gpu;
pub(super) mod processor;
mod steps;

use opdata::Row;

use super::knobs::Knobs;
use super::operator::Operator;

/// A kernel's loops that knobs of AutoTVM describe.
pub(super) trait Decode: Sized {
    /// The loops, if the knobs are of a template that this trait knows.
    fn decode(operator: &Operator, row: &Row, knobs: &Knobs) -> Option<Self>;
}
