//! A schedule's knobs as columns of their own, beside their JSON.

use opdata::Row;

use super::templates::Knobs;
use crate::schedule::Choice;

/// Fills the knob columns of a row.
pub(super) fn fill(row: &mut Row, choice: &Choice) {
    if let Ok(Knobs::Fallback(knobs)) = Knobs::of(choice) {
        row.knob_parallel_extent = u64::try_from(knobs.block_size).ok();
    }
}
