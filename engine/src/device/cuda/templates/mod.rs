//! The schedule templates of CUDA GPUs: tiles in shared memory and registers, fragments of tensor cores, sums shared by
//! threads.
//!
//! | module | for |
//! | --- | --- |
//! | [`contraction`] | products: convolutions, dense layers, matrix products |
//! | [`tensor_core`] | products of half precision and of bfloat16 |
//! | [`pipeline`] | loading a product's next tiles while this one is multiplied |
//! | [`product`] | what a product is, and bringing it into one form |
//! | [`reduction`] | one reduction, several threads for each result: means, products with a vector |
//! | [`rows`] | several reductions over the same rows: softmax, layer norm |
//! | [`window`] | one reduction, a thread for each result: poolings, depthwise convolutions |
//! | [`fallback`] | whatever is left: element-wise, copies, gathers |
//! | [`space`] | the values that a sweep can try, and the combinations that are possible |

mod contraction;
pub(super) mod factors;
mod fallback;
mod knobs;
mod limits;
mod parts;
mod pipeline;
mod product;
mod reduction;
mod rows;
mod space;
mod tensor_core;
#[cfg(test)]
mod tests;
mod window;

use tvm_bridge::{PrimFunc, Result, Schedule};

use crate::schedule::{
    Choice, Combined, FactorSettings, Space, Templates, default_schedule, unfit,
};
pub(crate) use limits::Limits;

pub use knobs::{
    ElementKnobs, FragmentKnobs, Knobs, ReductionKnobs, RowsKnobs, TileKnobs, WindowKnobs,
};

impl Knobs {
    /// The knobs of a choice.
    ///
    /// # Errors
    /// Fails if they are of no template of CUDA GPUs.
    pub fn of(choice: &Choice) -> std::result::Result<Knobs, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(choice)?)
    }

    /// The choice that has these knobs.
    pub fn choice(&self) -> Choice {
        match self {
            Knobs::Contraction(knobs) => Choice::new("contraction", knobs),
            Knobs::TensorCore(knobs) => Choice::new("tensor_core", knobs),
            Knobs::Reduction(knobs) => Choice::new("reduction", knobs),
            Knobs::Rows(knobs) => Choice::new("rows", knobs),
            Knobs::Window(knobs) => Choice::new("window", knobs),
            Knobs::Fallback(knobs) => Choice::new("fallback", knobs),
        }
    }
}

/// A way to schedule an operator by its structure alone.
type Suggestion = fn(&Schedule, &Limits) -> Result<Knobs>;

/// Templates, from the most to the least specific.
const SUGGESTIONS: [Suggestion; 6] = [
    |s, limits| tensor_core::suggested(s, limits).map(Knobs::TensorCore),
    |s, limits| contraction::suggested(s, limits).map(Knobs::Contraction),
    |s, _| rows::suggested(s).map(Knobs::Rows),
    |s, _| reduction::suggested(s).map(Knobs::Reduction),
    |s, _| window::suggested(s).map(Knobs::Window),
    |s, _| fallback::suggested(s).map(Knobs::Fallback),
];

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
            Knobs::Contraction(k) => {
                Knobs::Contraction(contraction::with_knobs(schedule, &k, &self.limits)?)
            }
            Knobs::TensorCore(k) => {
                Knobs::TensorCore(tensor_core::with_knobs(schedule, &k, &self.limits)?)
            }
            Knobs::Reduction(k) => Knobs::Reduction(reduction::with_knobs(schedule, &k)?),
            Knobs::Rows(k) => Knobs::Rows(rows::with_knobs(schedule, &k)?),
            Knobs::Window(k) => Knobs::Window(window::with_knobs(schedule, &k)?),
            Knobs::Fallback(k) => Knobs::Fallback(fallback::with_knobs(schedule, k)?),
        };
        Ok(done.choice())
    }

    fn space(&self, function: &PrimFunc) -> Result<Space> {
        let base = default_schedule(function, self, 0)?.choice;
        let Ok(knobs) = Knobs::of(&base) else {
            return Ok(Space::fixed(base));
        };
        let (shape, dimensions) = space::dimensions(function, &knobs)?;
        Space::with_shape(base, dimensions, &shape).map_err(|e| unfit(&e.to_string()))
    }
}

/// The schedule of a space with these settings.
///
/// # Errors
/// Fails if the combination is impossible or not worth compiling, and says why.
pub(super) fn combine(space: &Space, settings: &FactorSettings<'_>) -> Combined {
    let Ok(base) = Knobs::of(&space.base) else {
        return Ok(space.base.clone());
    };
    let Some(shape) = space.shape().map_err(|e| e.to_string())? else {
        return Ok(space.base.clone());
    };
    space::combine(&base, shape, settings).map(|knobs| knobs.choice())
}
