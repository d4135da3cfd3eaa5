//! Sections where commands are lost: what shows it, and which of those that fit are believed.

use std::ops::Range;

use crate::input::nodes::{Command, NONE, Origin};
use crate::matching::certain::{Found, Search};
use crate::matching::sections::{Anchor, CommandSection, Pair, RecordSection, fits_exactly};
use crate::matching::strict;

/// More restored commands than this may stand in another section than they were sent in: programs repeat themselves.
const FEW_RESTORED: usize = 3;

impl Search<'_> {
    /// Commands are lost: what fits exactly is certain where sections are in step (`lost` is `None`), or where no other
    /// alignment comes near.
    pub(super) fn doubted(
        &self,
        sections: Vec<CommandSection>,
        lost: Option<usize>,
    ) -> (Vec<CommandSection>, Found) {
        let recorded = sections.clone();
        let (sections, pairs) = self.with_borders(sections);
        let base = self.stream.base;
        let in_step = lost.is_none() && self.parts.len() == sections.len();
        let lost = lost
            .unwrap_or(0)
            .max(self.parts.len().abs_diff(sections.len()));
        let (pairs, certain) = if in_step {
            let fits = |(r, c): (&RecordSection, &CommandSection)| fits_exactly(r, c, base);
            let certain = self.parts.iter().zip(&sections).map(fits).collect();
            let pair = |number| Pair {
                records: number,
                commands: number,
            };
            ((0..sections.len()).map(pair).collect(), certain)
        } else {
            match strict::align(self.parts, &sections, base, lost) {
                Some(found) => (found.pairs, found.certain),
                None => {
                    let none = vec![false; pairs.len()];
                    (pairs, none)
                }
            }
        };
        let placed = sections == recorded || self.restored(0..self.commands.len()) <= FEW_RESTORED;
        let mut found = self.paired(&pairs);
        for (pair, fits) in pairs.iter().zip(certain) {
            let section = &sections[pair.commands];
            let range = self.parts[pair.records].range.clone();
            let alone = self.restored(section.range.clone()) == section.range.len();
            let known =
                fits && placed && !alone && !self.goes_on_without_name(&sections, pair.commands);
            if known {
                let places = range.clone().zip(section.range.clone());
                for (record, command) in places {
                    found.certain[record] = self.kernel_is_known(section, command);
                }
            }
            if in_step {
                found.in_step.push((range, known));
            }
        }
        (sections, found)
    }

    /// Whether all sections of records without commands are such as frame a program: before all others or after them,
    /// and, unless it is a compiled model, pairs, in a program without sections as short.
    pub(super) fn only_frames_left(&self, pairs: &[Pair], sections: &[CommandSection]) -> bool {
        const PAIR: usize = 2;
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else {
            return false;
        };
        // What frames a program has ids of its own, one after the other.
        let highest = sections.iter().map(|s| u64::from(s.first) + s.count).max();
        let whole = |part: &RecordSection| {
            (part.high - part.low) as usize + 1 == part.range.len()
                && (part.low == self.stream.base || Some(u64::from(part.low)) >= highest)
        };
        let like_frames = || sections.iter().any(|s| s.count <= PAIR as u64);
        let frames = |part: &RecordSection| {
            self.of_descriptors() || part.range.len() <= PAIR && !like_frames() && whole(part)
        };
        last.records - first.records + 1 == pairs.len()
            && self.parts[..first.records].iter().all(frames)
            && self.parts[last.records + 1..].iter().all(frames)
    }

    /// Whether the first section of records begins with the first id, but is longer than the first section of commands, so
    /// that it was taken for a later one: that commands are missing is as likely as that whole sections of records are.
    pub(super) fn first_is_too_short(&self, sections: &[CommandSection], found: &Found) -> bool {
        let (part, first) = (&self.parts[0], &sections[0]);
        let zero = self.stream.base.saturating_add(first.first);
        self.stream.anchor == Anchor::Start
            && !self.of_descriptors()
            && part.low == zero
            && u64::from(part.high - zero) >= first.count
            && found.groups.first().is_some_and(|group| group.commands > 0)
    }

    /// How many of these commands are restored.
    fn restored(&self, commands: Range<usize>) -> usize {
        let list = self.commands[commands].iter();
        list.filter(|c| c.origin == Origin::Restored).count()
    }

    /// Whether a command of a section was recorded, or restored between others of one kernel.
    fn kernel_is_known(&self, section: &CommandSection, at: usize) -> bool {
        if self.commands[at].origin != Origin::Restored {
            return true;
        }
        let recorded = |c: &&Command| c.origin != Origin::Restored;
        let before = self.commands[section.range.start..at]
            .iter()
            .rfind(recorded);
        let after = self.commands[at..section.range.end].iter().find(recorded);
        match (before, after) {
            (Some(before), Some(after)) => before.tags.scope == after.tags.scope,
            // Before the first kernel others may have been sent.
            (None, _) => section.range.start > 0,
            _ => true,
        }
    }

    /// Whether a section has the kernel of the one before it: the name between them may be lost.
    fn goes_on_without_name(&self, sections: &[CommandSection], at: usize) -> bool {
        let recorded = |c: &&Command| c.origin != Origin::Restored;
        let list = |at: usize| self.commands[sections[at].range.clone()].iter();
        let first = list(at).find(recorded).map(|c| c.tags.scope);
        let before = at.checked_sub(1).and_then(|b| list(b).rfind(recorded));
        first.is_some_and(|scope| scope != NONE) && first == before.map(|c| c.tags.scope)
    }
}
