//! Schedules: how an operator's loops are tiled, ordered, vectorised and spread over threads.
//!
//! [`default_schedule`] gives every operator a good schedule from its structure alone. It tries the templates from the
//! most to the least specific, each on a fresh schedule; a template that does not fit an operator says so with an error
//! and the next one is tried, the last of which (no schedule) always fits. Which one was taken, with what knobs, is part
//! of the result and ends in the dataset.
//!
//! | module | for |
//! | --- | --- |
//! | [`contraction`] | one dominating reduction: convolutions, dense, matmuls, pooling, means |
//! | [`knobs`] | … and the tile that suits it |
//! | [`rows`] | several reductions over the same rows: softmax, layer norm |
//! | [`spatial`] | no reduction: element-wise, copies, transposes |
//! | [`space`] | the factors of a template that a sweep can vary, and the values they take |
//! | [`spec`] | which schedule a kernel is to have: the default, knobs, a sample of MetaSchedule's space, a trace |
//!
//! Structure is read from the TensorIR itself ([`tvm_bridge::inspect`]), never from operator names.

mod contraction;
mod factor;
mod knobs;
mod pad;
mod prepare;
mod rows;
mod space;
mod spatial;
mod spec;

use opmodels::tile::VectorUnit;
use tvm_bridge::{PrimFunc, Schedule};

pub use opdata::contract::knobs::{
    CacheWrite, Choice, ContractionKnobs, Epilogue, LevelOrder, Padding, RowsKnobs, SpatialKnobs,
};

pub use factor::{Factor, FactorValue};
pub use space::{Dimension, MAX_UNROLLED, Space};
pub use spec::{ScheduleSpec, Scheduler};

/// A scheduled operator.
#[derive(Debug)]
pub struct Scheduled {
    /// The schedule, with its trace.
    pub schedule: Schedule,
    /// What was chosen.
    pub choice: Choice,
}

type Template = fn(&Schedule, VectorUnit) -> tvm_bridge::Result<Choice>;

/// From the most to the least specific.
const TEMPLATES: [Template; 6] = [
    contraction::close,
    contraction::fused,
    rows::apply,
    contraction::separate,
    spatial::apply,
    |_, _| Ok(Choice::Unscheduled),
];

/// The default schedule of `function` on `unit`; the seed is recorded in the trace.
///
/// # Errors
/// TVM cannot start a schedule of the function at all.
pub fn default_schedule(
    function: &PrimFunc,
    unit: VectorUnit,
    seed: u64,
) -> tvm_bridge::Result<Scheduled> {
    let mut refused = None;
    for template in TEMPLATES {
        let schedule = Schedule::new(function, seed)?;
        match template(&schedule, unit) {
            Ok(choice) => return Ok(Scheduled { schedule, choice }),
            Err(error) => refused = Some(error),
        }
    }
    // The last template cannot refuse; this is reached only if the list is emptied.
    Err(refused.unwrap_or_else(|| unfit("no template")))
}

/// The schedule of `function` with knobs of one's own.
///
/// # Errors
/// The knobs do not fit the function.
pub fn with_choice(
    function: &PrimFunc,
    unit: VectorUnit,
    seed: u64,
    choice: &Choice,
) -> tvm_bridge::Result<Scheduled> {
    let schedule = Schedule::new(function, seed)?;
    let choice = match choice {
        Choice::Contraction(knobs) => contraction::with_knobs(&schedule, unit, knobs)?,
        Choice::Rows(knobs) => rows::with_knobs(&schedule, unit, *knobs)?,
        Choice::Spatial(knobs) => spatial::with_knobs(&schedule, unit, *knobs)?,
        Choice::Unscheduled => Choice::Unscheduled,
        Choice::Sampled(_) | Choice::Recorded => {
            return Err(unfit("a sample or a record is rebuilt from its trace"));
        }
    };
    Ok(Scheduled { schedule, choice })
}

/// The error of a template that does not fit an operator.
fn unfit(reason: &str) -> tvm_bridge::Error {
    tvm_bridge::Error::Unexpected {
        call: "schedule template".to_owned(),
        reason: reason.to_owned(),
    }
}
