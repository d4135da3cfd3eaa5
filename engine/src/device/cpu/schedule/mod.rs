//! The schedule templates of CPUs: register tiles, vectors and threads.
//!
//! | module | for |
//! | --- | --- |
//! | [`contraction`] | one dominating reduction: convolutions, dense, matmuls, pooling, means |
//! | [`knobs`] | the knobs of a contraction, and the tile that suits it |
//! | [`tail`] | what is done with the sums before they leave the tile |
//! | [`staged`], [`pad`] | an operand's padding or copy, filled near its use or before |
//! | [`algorithm`] | convolutions by Winograd's algorithm or as one product of matrices |
//! | [`dot`] | products of bytes, four at once in each lane |
//! | [`rows`] | several reductions over the same rows: softmax, layer norm |
//! | [`columns`] | the same over an axis that is not the innermost one: softmax over channels |
//! | [`partial`] | a whole tensor to one value |
//! | [`spatial`] | no reduction: element-wise, copies, transposes |
//! | [`space`], [`mod@combine`] | the values that a sweep can try, and the combinations that are possible |

mod algorithm;
mod columns;
mod combine;
mod contraction;
mod dot;
pub(super) mod factors;
mod knobs;
mod pad;
mod partial;
mod prepare;
mod rows;
mod space;
mod spatial;
mod staged;
mod tail;
#[cfg(test)]
mod tests;

use opmodels::tile::VectorUnit;
use serde::{Deserialize, Serialize};
use tvm_bridge::tensorize::DotProduct;
use tvm_bridge::{PrimFunc, Result, Schedule, Target};

use crate::schedule::{
    Choice, Combined, FactorSettings, Space, Templates, default_schedule, unfit,
};
use combine::Shape;

pub use combine::MAX_UNROLLED;
pub use opdata::contract::knobs::{
    Algorithm, CacheWrite, ContractionKnobs, ConvolutionKnobs, DotKnobs, Epilogue, LevelOrder,
    Padding, PartialKnobs, RowsKnobs, SpatialKnobs,
};

/// Scope of the buffers that hold a tile's sums.
///
/// `global`, as the buffers of the operator itself have it. Only [`dot`] has `local`: the patterns of its intrinsics name
/// that scope.
const SUMS_SCOPE: &str = "global";

/// The knobs of a template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "template", rename_all = "snake_case")]
pub enum Knobs {
    /// Register-tiled reduction.
    Contraction(ContractionKnobs),
    /// Whole rows, one after the other.
    Rows(RowsKnobs),
    /// A whole tensor to one value, by way of partial results.
    Partial(PartialKnobs),
    /// Flattened, vectorised, parallel.
    Spatial(SpatialKnobs),
    /// Dot products of bytes.
    Dot(DotKnobs),
    /// A convolution by another algorithm.
    Convolution(ConvolutionKnobs),
}

impl Knobs {
    /// Output channels in one vector of a dot product.
    pub const DOT_LANES: i64 = 16;

    /// The knobs of a choice.
    ///
    /// # Errors
    /// Fails if they are of no template of CPUs.
    pub fn of(choice: &Choice) -> std::result::Result<Knobs, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(choice)?)
    }

    /// The choice that has these knobs.
    pub fn choice(&self) -> Choice {
        match self {
            Knobs::Contraction(knobs) => Choice::new("contraction", knobs),
            Knobs::Rows(knobs) => Choice::new("rows", knobs),
            Knobs::Partial(knobs) => Choice::new("partial", knobs),
            Knobs::Spatial(knobs) => Choice::new("spatial", knobs),
            Knobs::Dot(knobs) => Choice::new("dot", knobs),
            Knobs::Convolution(knobs) => Choice::new(Choice::CONVOLUTION, knobs),
        }
    }
}

/// A way to schedule an operator by its structure alone.
type Suggestion = fn(&Schedule, VectorUnit) -> Result<Knobs>;

/// Templates, from the most to the least specific.
const SUGGESTIONS: [Suggestion; 7] = [
    |s, unit| partial::suggested(s, unit).map(Knobs::Partial),
    |s, unit| rows::suggested(s, unit).map(Knobs::Rows),
    |s, unit| algorithm::suggested(s, unit).map(Knobs::Convolution),
    // The epilogue computed at the register tile, paddings at the parallel loop.
    |s, unit| {
        contraction::suggested(s, unit, Epilogue::Tile, Padding::Near).map(Knobs::Contraction)
    },
    // Paddings in nests of their own.
    |s, unit| {
        contraction::suggested(s, unit, Epilogue::Tile, Padding::Root).map(Knobs::Contraction)
    },
    // Then the epilogue in a nest of its own, for operators that index the result in another way.
    |s, unit| {
        contraction::suggested(s, unit, Epilogue::Root, Padding::Root).map(Knobs::Contraction)
    },
    |s, unit| spatial::suggested(s, unit).map(Knobs::Spatial),
];

/// The templates for processors with these vector registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTemplates {
    pub unit: VectorUnit,
    pub dot: DotProduct,
}

impl CpuTemplates {
    /// The templates for a target's registers and instructions.
    pub fn of(target: &Target) -> Result<CpuTemplates> {
        let is_x86 = cfg!(target_arch = "x86_64");
        let unit = VectorUnit::of_width(target.vector_width_bits()?, is_x86);
        let dot = DotProduct::of(target)?;
        Ok(CpuTemplates { unit, dot })
    }
}

impl Templates for CpuTemplates {
    fn suggest(&self, schedule: &Schedule, attempt: usize) -> Option<Result<Choice>> {
        let Some(attempt) = attempt.checked_sub(1) else {
            let knobs = dot::suggested(schedule, self.unit, self.dot);
            return Some(knobs.map(|knobs| Knobs::Dot(knobs).choice()));
        };
        let suggestion = SUGGESTIONS.get(attempt)?;
        Some(suggestion(schedule, self.unit).map(|knobs| knobs.choice()))
    }

    fn rewritten(&self, function: &PrimFunc, choice: &Choice) -> Result<Option<PrimFunc>> {
        match Knobs::of(choice) {
            Ok(Knobs::Convolution(knobs)) => algorithm::rewritten(function, self.unit, &knobs),
            _ => Ok(None),
        }
    }

    fn apply(&self, schedule: &Schedule, choice: &Choice) -> Result<Choice> {
        let unit = self.unit;
        let done = match Knobs::of(choice).map_err(|e| unfit(&e.to_string()))? {
            Knobs::Contraction(knobs) => {
                Knobs::Contraction(contraction::with_knobs(schedule, unit, &knobs)?)
            }
            Knobs::Rows(knobs) => Knobs::Rows(rows::with_knobs(schedule, unit, knobs)?),
            Knobs::Partial(knobs) => Knobs::Partial(partial::with_knobs(schedule, unit, knobs)?),
            Knobs::Spatial(knobs) => Knobs::Spatial(spatial::with_knobs(schedule, unit, knobs)?),
            Knobs::Dot(knobs) => Knobs::Dot(dot::with_knobs(schedule, unit, self.dot, knobs)?),
            Knobs::Convolution(knobs) => {
                algorithm::scheduled(schedule, unit, &knobs)?;
                Knobs::Convolution(knobs)
            }
        };
        Ok(done.choice())
    }

    fn space(&self, function: &PrimFunc) -> Result<Space> {
        let base = default_schedule(function, self, 0)?.choice;
        let Ok(mut knobs) = Knobs::of(&base) else {
            return Ok(Space::fixed(base));
        };
        if matches!(knobs, Knobs::Convolution(_)) {
            // The direct convolution's knobs vary; its space has the other algorithms too.
            let s = Schedule::new(function, 0)?;
            let direct = contraction::suggested(&s, self.unit, Epilogue::Tile, Padding::Root)?;
            knobs = Knobs::Contraction(direct);
        }
        let (shape, dimensions) = space::dimensions(function, self.unit, &knobs)?;
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
    let shape = space.shape().map_err(|e| e.to_string())?;
    let shape = shape.unwrap_or(Shape::Fixed);
    combine::combine(&base, &shape, settings).map(|knobs| knobs.choice())
}
