//! Finds the commands of records in a damaged dump. A whole dump never needs this.
//!
//! A pair is certain if no other reading of the records as a subsequence of the commands contradicts it ([`embed`],
//! [`proof`]). Where they are no subsequence, commands are lost or records are not of the program. Sections are aligned
//! at the least cost, and all of it is guessed. `shift` guesses where numbers in a section that lost commands begin to
//! be shifted.

mod embed;
mod proof;
pub(super) mod shift;

use crate::input::nodes::Command;
use crate::matching::order::Record;
use crate::matching::pairing::{Group, Pairing};
use crate::matching::recovery::embed::{Bounds, Embedding};
use crate::matching::recovery::proof::Assignment;
use crate::matching::sections::{Anchor, CommandSection, Fit, Pair, RecordSection, align};
use crate::matching::stream::Stream;

/// Records and commands of a stream.
pub(in crate::matching) struct Search<'a> {
    /// The stream.
    pub stream: &'a Stream<'a>,
    /// Its records.
    pub records: &'a [Record],
    /// Their sections.
    pub parts: &'a [RecordSection],
    /// Its commands.
    pub commands: &'a [Command],
    /// Their sections.
    pub sections: &'a [CommandSection],
}

impl Search<'_> {
    /// Finds the sections of the records.
    pub fn run(&self) -> Pairing {
        if self.stream.fit == Fit::Equal {
            // With several cores' commands for one port, `cdma` decides whether they may be another core's.
            let mut found = self.aligned(&self.align());
            found.certain.fill(true);
            return found;
        }
        if let Some(mut found) = self.ordered(|_| true) {
            found.misfit = self.first_is_too_short(&found);
            return found;
        }
        let pairs = self.align();
        let has_partner = |part: usize| pairs.binary_search_by_key(&part, |p| p.records).is_ok();
        let mut found = match self.ordered(has_partner) {
            Some(found) => found,
            None => Pairing {
                misfit: true,
                ..self.aligned(&pairs)
            },
        };
        found.misfit |= !self.only_frames_left(&pairs);
        found
    }

    fn aligned(&self, pairs: &[Pair]) -> Pairing {
        Pairing::guessed(self.records.len(), self.parts, pairs)
    }

    fn of_descriptors(&self) -> bool {
        let first = self.commands.first();
        first.is_some_and(|command| command.kind.is_of_model())
    }

    fn align(&self) -> Vec<Pair> {
        let Stream {
            base, anchor, fit, ..
        } = *self.stream;
        align(self.parts, self.sections, base, anchor, fit)
    }

    /// Sections by the order of records alone; `None` if the records of the `wanted` parts are not a subsequence of the
    /// commands.
    fn ordered(&self, wanted: impl Fn(usize) -> bool) -> Option<Pairing> {
        let places: Vec<usize> = (0..self.parts.len())
            .filter(|&part| wanted(part))
            .flat_map(|part| self.parts[part].range.clone())
            .collect();
        let records: Vec<Record> = places.iter().map(|&p| self.records[p]).collect();
        let records = if places.len() == self.records.len() {
            self.records
        } else {
            &records
        };
        if records.is_empty() {
            return None;
        }
        let (chosen, certain) = self.choose(records)?;
        let mut found = Pairing::guessed(self.records.len(), self.parts, &[]);
        for (n, &place) in places.iter().enumerate() {
            found.certain[place] = certain[n];
            let section = chosen[n] as usize;
            match found.groups.last_mut() {
                Some(group) if group.commands == section && group.records.end == place => {
                    group.records.end += 1;
                }
                _ => found.groups.push(Group {
                    records: place..place + 1,
                    commands: section,
                    shift: None,
                }),
            }
        }
        self.doubt_frames(&mut found);
        Some(found)
    }

    /// The section of each record, and whether it is certain.
    fn choose(&self, records: &[Record]) -> Option<(Vec<u32>, Vec<bool>)> {
        let by_ids = Embedding {
            records,
            sections: self.sections,
            base: self.stream.base,
        };
        let Bounds { earliest, latest } = by_ids.bounds()?;
        if self.stream.latest
            && let Some(last) = by_ids.suffix()
        {
            return Some((last, vec![true; records.len()]));
        }
        let same = earliest.iter().zip(&latest).map(|(a, b)| a == b);
        let mut certain: Vec<bool> = same.collect();
        // If a stream has lost its beginning, its remaining records are more likely its end.
        let headless = records[0].id > self.stream.base || self.stream.anchor == Anchor::End;
        let chosen = if headless { latest } else { earliest };
        let reading = Assignment {
            stream: self.stream,
            records,
            sections: self.sections,
            chosen: &chosen,
        };
        reading.doubt_skipped(&mut certain);
        reading.doubt_stray(&mut certain);
        Some((chosen, certain))
    }

    /// A compiled model is framed by pairs of records without a command. A record that may be in such a pair is not
    /// certain, neither by itself nor before a gap in the ids that follow it.
    fn doubt_frames(&self, found: &mut Pairing) {
        const PAIR: usize = 2;
        if !self.of_descriptors() {
            return;
        }
        for group in &found.groups {
            if self.sections[group.commands].count <= PAIR as u64 {
                continue;
            }
            let list = &self.records[group.records.clone()];
            let run = 1 + list
                .windows(2)
                .take_while(|w| w[1].id == w[0].id + 1)
                .count();
            if run <= PAIR {
                let from = group.records.start;
                found.certain[from..from + run].fill(false);
            }
        }
    }

    /// Whether all sections of records without commands may frame a program. They are before all others or after them.
    /// Except in a compiled model, they are pairs, in a program without equally short sections.
    fn only_frames_left(&self, pairs: &[Pair]) -> bool {
        const PAIR: usize = 2;
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else {
            return false;
        };
        // The records that frame a program have consecutive ids of their own.
        let highest = self
            .sections
            .iter()
            .map(|s| u64::from(s.first) + s.count)
            .max();
        let whole = |part: &RecordSection| {
            (part.high - part.low) as usize + 1 == part.range.len()
                && (part.low == self.stream.base || Some(u64::from(part.low)) >= highest)
        };
        let like_frames = || self.sections.iter().any(|s| s.count <= PAIR as u64);
        let frames = |part: &RecordSection| {
            self.of_descriptors() || part.range.len() <= PAIR && !like_frames() && whole(part)
        };
        last.records - first.records + 1 == pairs.len()
            && self.parts[..first.records].iter().all(frames)
            && self.parts[last.records + 1..].iter().all(frames)
    }

    /// Whether the first section of records has the first id, but more records than the first section of commands has
    /// commands. It was then paired with a later section. Missing commands would explain it as well as missing sections of
    /// records.
    fn first_is_too_short(&self, found: &Pairing) -> bool {
        let (part, first) = (&self.parts[0], &self.sections[0]);
        let zero = self.stream.base.saturating_add(first.first);
        self.stream.anchor == Anchor::Start
            && !self.of_descriptors()
            && part.low == zero
            && u64::from(part.high - zero) >= first.count
            && found.groups.first().is_some_and(|group| group.commands > 0)
    }
}
