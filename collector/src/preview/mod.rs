//! What a plan would measure, without measuring it: its cost ([`outlook`]), and its points as rows ([`list_candidates`]).

mod knobs;
mod listing;
mod outlook;

pub use knobs::{OperatorKnobs, knobs};
pub use listing::{Listed, list_candidates};
pub use outlook::{OperatorOutlook, Outlook, outlook};
