//! Previews a plan without measuring: its cost ([`mod@estimate`]), and its points as rows ([`list_candidates`]).

mod estimate;
mod knobs;
mod listing;

pub use estimate::{OperatorEstimate, PlanEstimate, estimate};
pub use knobs::{OperatorKnobs, knobs};
pub use listing::{Listed, list_candidates};
