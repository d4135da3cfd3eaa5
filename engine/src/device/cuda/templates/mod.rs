//! The schedule templates of CUDA GPUs.

pub(super) mod factors;
mod fallback;
mod limits;

use serde::{Deserialize, Serialize};
use tvm_bridge::{PrimFunc, Result, Schedule};

use crate::schedule::{Choice, Dimension, FactorValue, Space, Templates, default_schedule, unfit};
pub(crate) use limits::Limits;

pub use fallback::ElementKnobs;

/// The knobs of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "template", rename_all = "snake_case")]
pub enum Knobs {
    /// A thread for each result.
    Fallback(ElementKnobs),
}

impl Knobs {
    /// The knobs of a choice.
    ///
    /// # Errors
    /// They are of no template of CUDA GPUs.
    pub fn of(choice: &Choice) -> std::result::Result<Knobs, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(choice)?)
    }

    /// The choice that has these knobs.
    pub fn choice(&self) -> Choice {
        match self {
            Knobs::Fallback(knobs) => Choice::new("fallback", knobs),
        }
    }
}

/// A way to schedule an operator by its structure alone.
type Suggestion = fn(&Schedule, &Limits) -> Result<Knobs>;

/// From the most to the least specific.
const SUGGESTIONS: [Suggestion; 1] = [|s, _| fallback::suggested(s).map(Knobs::Fallback)];

/// The templates for GPUs with these limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct CudaTemplates {
    pub limits: Limits,
}

impl Templates for CudaTemplates {
    fn suggest(&self, schedule: &Schedule, attempt: usize) -> Option<Result<Choice>> {
        let suggestion = SUGGESTIONS.get(attempt)?;
        Some(suggestion(schedule, &self.limits).map(|knobs| knobs.choice()))
    }

    fn apply(&self, schedule: &Schedule, choice: &Choice) -> Result<Choice> {
        let done = match Knobs::of(choice).map_err(|e| unfit(&e.to_string()))? {
            Knobs::Fallback(k) => Knobs::Fallback(fallback::with_knobs(schedule, k)?),
        };
        Ok(done.choice())
    }

    fn space(&self, function: &PrimFunc) -> Result<Space> {
        let base = default_schedule(function, self, 0)?.choice;
        Ok(match Knobs::of(&base) {
            Ok(Knobs::Fallback(_)) => fallback::space(base),
            Err(_) => Space::fixed(base),
        })
    }
}

/// The schedule of a space with these settings.
///
/// # Errors
/// Why the combination is impossible or not worth compiling.
pub(super) fn combine(
    space: &Space,
    settings: &[(&Dimension, &FactorValue)],
) -> std::result::Result<Choice, String> {
    match Knobs::of(&space.base) {
        Ok(Knobs::Fallback(base)) => fallback::combine(base, settings),
        Err(_) => Ok(space.base.clone()),
    }
}
