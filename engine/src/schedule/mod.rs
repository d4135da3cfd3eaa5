//! Schedules: how an operator's loops are tiled, ordered, vectorised and parallelised, whatever the device.
//!
//! A device brings [`Templates`]; [`default_schedule`] tries them from the most to the least specific, so that every
//! operator gets a good schedule from its structure alone. The template taken and its knobs are a [`Choice`], which is
//! recorded in the dataset. Structure is read from the TensorIR itself ([`tvm_bridge::inspect`]), never from operator
//! names.
//!
//! | module | for |
//! | --- | --- |
//! | [`choice`] | a template with its knobs, as rows hold it |
//! | [`template`] | what a device's templates do, and applying them |
//! | [`space`], [`factor`] | the factors of an operator's schedule that a sweep can vary, and the values they take |
//! | [`plain`] | the program that outputs are checked against |
//! | [`spec`] | which schedule a kernel is to have: the default, knobs, a sample of MetaSchedule's space, a trace |

mod choice;
mod factor;
mod part;
mod plain;
mod space;
mod spec;
mod template;
#[cfg(test)]
pub(crate) mod testing;

pub use choice::{Choice, Scheduled, unfit};
pub use factor::{ALGORITHM, Factor, FactorInfo, FactorValue};
pub(crate) use part::Part;
pub(crate) use plain::{Run, plain_loops};
pub use space::{Combined, Dimension, FactorSettings, Space};
pub use spec::{ScheduleSpec, Scheduler, as_is};
pub use template::{Templates, default_schedule, with_choice};
