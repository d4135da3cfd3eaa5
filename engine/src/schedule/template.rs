//! The seam between schedules and devices: what the templates of a device do with an operator's TensorIR.

use std::borrow::Cow;

use tvm_bridge::{PrimFunc, Result, Schedule};

use super::choice::{Choice, Scheduled, unfit};
use super::space::Space;

/// The schedule templates of a device for one target. Kernels are scheduled on several threads at once.
pub trait Templates: std::fmt::Debug + Send + Sync {
    /// Tries the `attempt`th default schedule (from 0, from the most to the least specific) on a fresh schedule; `None`
    /// if there are no more. A schedule that does not fit the operator is an error, and the next one is tried.
    fn suggest(&self, schedule: &Schedule, attempt: usize) -> Option<Result<Choice>>;

    /// The program that a choice starts from, if its algorithm is not the operator library's.
    ///
    /// # Errors
    /// Fails if the algorithm does not compute the operator.
    fn rewritten(&self, _function: &PrimFunc, _choice: &Choice) -> Result<Option<PrimFunc>> {
        Ok(None)
    }

    /// Transforms a fresh schedule by the knobs of one of the templates. Returns the choice that was applied.
    ///
    /// # Errors
    /// Fails if there is no such template, or if its knobs do not fit the operator.
    fn apply(&self, schedule: &Schedule, choice: &Choice) -> Result<Choice>;

    /// The space around the operator's default schedule.
    ///
    /// # Errors
    /// Fails if TVM does.
    fn space(&self, function: &PrimFunc) -> Result<Space>;
}

/// The loops that schedules start from. A function that came scheduled is brought back to plain loops first.
///
/// # Errors
/// Fails if TVM does.
pub(super) fn plain(function: &PrimFunc) -> Result<Cow<'_, PrimFunc>> {
    let plain = function.unscheduled()?;
    Ok(plain.map_or(Cow::Borrowed(function), Cow::Owned))
}

/// The default schedule of `function`; the seed is recorded in the trace. An operator that no template fits stays as
/// TVM's operator library wrote it.
///
/// # Errors
/// Fails if TVM cannot start a schedule of the function at all.
pub fn default_schedule(
    function: &PrimFunc,
    templates: &dyn Templates,
    seed: u64,
) -> Result<Scheduled> {
    let function = plain(function)?;
    for attempt in 0.. {
        let schedule = Schedule::new(&function, seed)?;
        match templates.suggest(&schedule, attempt) {
            Some(Ok(choice)) => return Ok(Scheduled { schedule, choice }),
            Some(Err(_)) => {}
            None => break,
        }
    }
    Ok(Scheduled {
        schedule: Schedule::new(&function, seed)?,
        choice: Choice::unscheduled(),
    })
}

/// The schedule of `function` with knobs of one's own.
///
/// # Errors
/// Fails if the knobs do not fit the function.
pub fn with_choice(
    function: &PrimFunc,
    templates: &dyn Templates,
    seed: u64,
    choice: &Choice,
) -> Result<Scheduled> {
    let function = plain(function)?;
    let rewritten = templates.rewritten(&function, choice)?;
    let schedule = Schedule::new(rewritten.as_ref().unwrap_or(&function), seed)?;
    let choice = match choice.template.as_str() {
        Choice::UNSCHEDULED => choice.clone(),
        Choice::SAMPLED | Choice::RECORDED => {
            return Err(unfit("a sample or a record is rebuilt from its trace"));
        }
        _ => templates.apply(&schedule, choice)?,
    };
    Ok(Scheduled { schedule, choice })
}
