//! When a pairing is proven.
//!
//! A record may be called matched only if no other reading explains the dump with as few losses. A loss is a run of
//! records of one engine, or of words of the nodes, that is gone. So these must hold:
//!
//! - Commands without a sign of loss are taken to be whole. Then records are a subsequence of them, and one that has
//!   the same section in the earliest and in the latest reading is proven ([`super::embed`]).
//! - Unless commands of one section that nobody misses would save a loss of records: see [`Assignment::doubt_skipped`].
//! - Ids stand where the hardware puts them: see [`Assignment::doubt_stray`], and `sync` for the first record.
//!
//! Everything else is guessed.

use crate::chip::Preamble;
use crate::matching::order::Record;
use crate::matching::sections::{Anchor, CommandSection};
use crate::matching::stream::Stream;
use crate::report::Engine;

/// Records, each with its assumed section.
pub(super) struct Assignment<'a> {
    /// The stream.
    pub stream: &'a Stream<'a>,
    /// The records in order.
    pub records: &'a [Record],
    /// The commands' sections.
    pub sections: &'a [CommandSection],
    /// One for each record.
    pub chosen: &'a [u32],
}

impl Assignment<'_> {
    /// Id of a section's first command.
    fn zero(&self, section: u32) -> u32 {
        let first = self.sections[section as usize].first;
        self.stream.base.saturating_add(first)
    }

    /// Doubts what lies between a loss at an end of the stream and whole sections without record. The records beside
    /// these may be of a later section (an earlier one, if the tail is lost). That section was then longer than its
    /// remaining commands. Only that number of losses is needed, each of a command instead of a record.
    pub fn doubt_skipped(&self, certain: &mut [bool]) {
        let skips = |w: &[u32]| w[1] > w[0] + 1;
        let (Some(&first), Some(&last)) = (self.chosen.first(), self.chosen.last()) else {
            return;
        };
        let headless =
            self.stream.anchor == Anchor::End || first > 0 || self.records[0].id > self.zero(first);
        if headless && let Some(at) = self.chosen.windows(2).rposition(skips) {
            certain[..=at].fill(false);
        }
        let end = u64::from(self.zero(last)) + self.sections[last as usize].count;
        let high = self.records.last().map_or(0, |record| record.id);
        let tailless = last as usize + 1 < self.sections.len() || u64::from(high) + 1 < end;
        if tailless && let Some(at) = self.chosen.windows(2).position(skips) {
            certain[at + 1..].fill(false);
        }
    }

    /// Marks a possible stray record as uncertain: some chips write a record with an id of its own after the program.
    /// The last record is not a stray if its id continues the program's or is the last command's.
    pub fn doubt_stray(&self, certain: &mut [bool]) {
        let strays = self.stream.chip.spec().preamble == Preamble::Strays;
        let (Some(last), Some(&section)) = (self.records.last(), self.chosen.last()) else {
            return;
        };
        let end = u64::from(self.zero(section)) + self.sections[section as usize].count;
        let at = self.records.len() - 1;
        let goes_on = at
            .checked_sub(1)
            .is_some_and(|before| self.records[before].id + 1 == last.id);
        if strays && self.stream.engine == Engine::Tiu && !goes_on && u64::from(last.id) + 1 != end
        {
            certain[at] = false;
        }
    }
}
