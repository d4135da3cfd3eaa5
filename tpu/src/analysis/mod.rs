//! Analyses of a profile: totals, roll-ups, gaps, overlap, roofline.
//!
//! Pure functions from a [`crate::Profile`] to values; printing is in [`crate::export`].

pub mod dependencies;
pub mod durations;
pub mod gaps;
pub mod intervals;
pub mod overview;
pub mod rollup;
pub mod roofline;
pub mod summary;
pub mod tensors;
