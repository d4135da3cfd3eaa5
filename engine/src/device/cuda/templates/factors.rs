//! The factors of the templates, by their names in sweeps.

use crate::schedule::{Factor, FactorInfo};

/// Threads of a block.
pub(super) const BLOCK_SIZE: &str = "block-size";

/// All factors, in the order in which they are listed.
pub(crate) const FACTORS: &[FactorInfo] = &[FactorInfo {
    factor: Factor::named(BLOCK_SIZE),
    about: "threads of a block",
}];
