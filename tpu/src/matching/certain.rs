//! Which command section each record is of, and whether that is certain.
//!
//! Certain is what no other reading contradicts: lists that correspond, or records whose earliest and latest section
//! are the same (see `embed`), with what another engine of the core did at the time as a witness. Only where records are
//! no subsequence of the commands (some are not of the program, or commands are lost) are sections aligned by price.

use std::ops::Range;

use crate::input::nodes::Command;
use crate::matching::embed::{Bounds, Embedding};
use crate::matching::order::Record;
use crate::matching::proof::Reading;
use crate::matching::repair::repartition;
use crate::matching::sections::{
    Anchor, CommandSection, Fit, Pair, RecordSection, align, correspond, correspond_shifted,
    of_commands,
};
use crate::matching::stream::{Stream, Trust};
use crate::report::Engine;

/// Records of one command section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Their places.
    pub records: Range<usize>,
    /// The section.
    pub commands: usize,
    /// Id of its first command, where ids do not begin at the base.
    pub shift: Option<u32>,
}

/// All groups of a stream, in order.
pub(super) struct Groups {
    /// The command sections, with mended borders.
    pub sections: Vec<CommandSection>,
    /// The groups.
    pub groups: Vec<Group>,
    /// For each record whether its section is certain.
    pub certain: Vec<bool>,
    /// Records of each section that is in step though commands are lost, and whether they fit exactly.
    pub in_step: Vec<(Range<usize>, bool)>,
    /// Whether commands must be missing.
    pub misfit: bool,
    /// Resets that are missing among the commands.
    pub resets_lost: u64,
}

/// Records and commands of a stream.
pub(super) struct Search<'a> {
    /// The stream.
    pub stream: &'a Stream<'a>,
    /// Its records.
    pub records: &'a [Record],
    /// Their sections.
    pub parts: &'a [RecordSection],
    /// Its commands.
    pub commands: &'a [Command],
}

/// Sections that records were found to be of.
pub(super) struct Found {
    /// The groups.
    pub groups: Vec<Group>,
    /// For each record whether its section is certain.
    pub certain: Vec<bool>,
    /// As in [`Groups`].
    pub in_step: Vec<(Range<usize>, bool)>,
    /// Whether commands must be missing.
    pub misfit: bool,
}

/// What another engine's times say of an engine's sections.
enum ByTimes {
    /// Closer bounds.
    Closer(Bounds),
    /// What is certain by order alone cannot be: commands are missing.
    Contradiction,
}

/// Finds the groups.
pub(super) fn groups(
    stream: &Stream,
    records: &[Record],
    parts: &[RecordSection],
    commands: &[Command],
) -> Groups {
    let mut sections = of_commands(commands);
    let mut resets_lost = 0;
    if let (Some(r), Some(c)) = (parts.first(), sections.first_mut())
        && stream.anchor == Anchor::Start
        && r.low < c.first
    {
        // The reset between preamble and program is lost.
        c.first = 0;
        resets_lost += 1;
    }
    let recorded = sections.len();
    let search = Search {
        stream,
        records,
        parts,
        commands,
    };
    let (sections, mut found) = search.run(sections);
    resets_lost += sections.len().saturating_sub(recorded) as u64;
    for group in &found.groups {
        if !sections[group.commands].sure {
            found.certain[group.records.clone()].fill(false);
        }
    }
    // Records that stand against time are not in the order of their commands.
    if records.windows(2).any(|w| w[1].end < w[0].start) {
        found.certain.fill(false);
    }
    Groups {
        sections,
        groups: found.groups,
        certain: found.certain,
        in_step: found.in_step,
        // One reset is for all engines: if this one's is lost, so are others'.
        misfit: found.misfit || resets_lost > 0,
        resets_lost,
    }
}

impl Search<'_> {
    fn run(&self, sections: Vec<CommandSection>) -> (Vec<CommandSection>, Found) {
        let base = self.stream.base;
        if self.parts.is_empty() || sections.is_empty() {
            let nothing = self.paired(&[]);
            return (sections, nothing);
        }
        match self.stream.trust {
            _ if self.stream.fit == Fit::Equal => {}
            Trust::Whole => {}
            Trust::InStep => return self.doubted(sections, None),
            Trust::Lost(lost) => return self.doubted(sections, Some(lost)),
        }
        if correspond(self.parts, &sections, base) {
            let found = self.one_to_one(|_| None);
            return (sections, found);
        }
        if self.stream.may_begin_elsewhere(self.commands)
            && correspond_shifted(self.parts, &sections, base)
        {
            let found = self.one_to_one(|part| Some(part.low));
            return (sections, found);
        }
        if self.stream.fit == Fit::Equal {
            // Several cores' commands for one port: whether they may be another's is decided with those.
            let mut found = self.paired(&self.align(&sections));
            found.certain.fill(true);
            return (sections, found);
        }
        if let Some(mut found) = self.ordered(0..self.parts.len(), &sections, |_| true) {
            found.misfit |= self.first_is_too_short(&sections, &found);
            return (sections, found);
        }
        let recorded = sections.len();
        let (sections, pairs) = self.with_borders(sections);
        let has_partner = |part: usize| pairs.binary_search_by_key(&part, |p| p.records).is_ok();
        let mended = sections.len() != recorded;
        let mut found = self
            .ordered(0..self.parts.len(), &sections, |_| true)
            .or_else(|| self.ordered(0..self.parts.len(), &sections, has_partner))
            .unwrap_or_else(|| {
                let mut found = self.between_misfits(&sections, &pairs);
                found.misfit = true;
                found
            });
        found.misfit |= mended || !self.only_frames_left(&pairs, &sections);
        (sections, found)
    }

    /// Sections of commands with borders put right, and their alignment with those of the records.
    pub(super) fn with_borders(
        &self,
        sections: Vec<CommandSection>,
    ) -> (Vec<CommandSection>, Vec<Pair>) {
        let pairs = self.align(&sections);
        let base = self.stream.base;
        match repartition(self.parts, self.commands, &sections, &pairs, base) {
            Some(borders) => {
                let pairs = self.align(&borders);
                (borders, pairs)
            }
            None => (sections, pairs),
        }
    }

    pub(super) fn of_descriptors(&self) -> bool {
        let first = self.commands.first();
        first.is_some_and(|command| command.kind.is_of_model())
    }

    fn align(&self, sections: &[CommandSection]) -> Vec<Pair> {
        let Stream {
            base, anchor, fit, ..
        } = *self.stream;
        align(self.parts, sections, base, anchor, fit)
    }

    /// Each section of records with the section of commands of its number.
    fn one_to_one(&self, shift: impl Fn(&RecordSection) -> Option<u32>) -> Found {
        let group = |(number, part): (usize, &RecordSection)| Group {
            records: part.range.clone(),
            commands: number,
            shift: shift(part),
        };
        Found {
            groups: self.parts.iter().enumerate().map(group).collect(),
            certain: vec![true; self.records.len()],
            in_step: Vec::new(),
            misfit: false,
        }
    }

    /// Pairs of the alignment; nothing of them is certain.
    pub(super) fn paired(&self, pairs: &[Pair]) -> Found {
        let group = |pair: &Pair| Group {
            records: self.parts[pair.records].range.clone(),
            commands: pair.commands,
            shift: None,
        };
        Found {
            groups: pairs.iter().map(group).collect(),
            certain: vec![false; self.records.len()],
            in_step: Vec::new(),
            misfit: false,
        }
    }

    /// Sections by the order of records alone; `None` if those of the parts that are `wanted` are no subsequence of the
    /// commands.
    fn ordered(
        &self,
        parts: Range<usize>,
        sections: &[CommandSection],
        wanted: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let places: Vec<usize> = parts
            .filter(|&part| wanted(part))
            .flat_map(|part| self.parts[part].range.clone())
            .collect();
        let records: Vec<Record> = places.iter().map(|&p| self.records[p]).collect();
        let records = if places.len() == self.records.len() {
            self.records
        } else {
            &records
        };
        if records.is_empty() || sections.is_empty() {
            return None;
        }
        let (chosen, certain, misfit) = self.choose(records, sections)?;
        let mut found = self.paired(&[]);
        found.misfit = misfit;
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
        self.doubt_frames(sections, &mut found);
        Some(found)
    }

    /// The section of each record, whether it is certain, and whether another engine contradicts what is.
    fn choose(
        &self,
        records: &[Record],
        sections: &[CommandSection],
    ) -> Option<(Vec<u32>, Vec<bool>, bool)> {
        let by_ids = Embedding {
            records,
            sections,
            base: self.stream.base,
            allowed: &|_, _| true,
        };
        let mut bounds = by_ids.bounds()?;
        if self.stream.latest
            && let Some(last) = by_ids.suffix()
        {
            return Some((last, vec![true; records.len()], false));
        }
        let mut misfit = false;
        match self.by_times(records, sections, &bounds) {
            // The system DMA may still be at what was sent before a reset: its times contradict, but decide nothing.
            Some(ByTimes::Closer(_)) if self.stream.engine == Engine::Sdma => {}
            Some(ByTimes::Closer(closer)) => bounds = closer,
            Some(ByTimes::Contradiction) => misfit = true,
            None => {}
        }
        let Bounds { earliest, latest } = bounds;
        let same = earliest.iter().zip(&latest).map(|(a, b)| a == b);
        let mut certain: Vec<bool> = same.collect();
        // What is left of a stream without its head is more likely its end.
        let headless = records[0].id > self.stream.base || self.stream.anchor == Anchor::End;
        let chosen = if headless { latest } else { earliest };
        let reading = Reading {
            stream: self.stream,
            records,
            sections,
            chosen: &chosen,
        };
        reading.doubt_skipped(&mut certain);
        reading.doubt_stray(&mut certain);
        Some((chosen, certain, misfit))
    }

    /// Bounds by what another engine did at the time; `None` if it says nothing.
    fn by_times(
        &self,
        records: &[Record],
        sections: &[CommandSection],
        bounds: &Bounds,
    ) -> Option<ByTimes> {
        let other = self.stream.other.filter(|other| !other.is_empty())?;
        let windows: Vec<(f64, f64)> = sections
            .iter()
            .map(|section| section.extent(self.commands))
            .map(|(first, last)| other.window(first, last))
            .collect();
        let allowed = |place: usize, section: usize| {
            let (start, end) = self.stream.times_ns(&records[place]);
            let (from, to) = windows[section];
            start >= from && end <= to
        };
        let sure = bounds.earliest.iter().zip(&bounds.latest).enumerate();
        for (place, (&earliest, &latest)) in sure {
            if earliest == latest && !allowed(place, earliest as usize) {
                return Some(ByTimes::Contradiction);
            }
        }
        let by_both = Embedding {
            records,
            sections,
            base: self.stream.base,
            allowed: &allowed,
        };
        Some(match by_both.bounds() {
            Some(closer) => ByTimes::Closer(closer),
            None if self.stream.engine == Engine::Sdma => return None,
            None => ByTimes::Contradiction,
        })
    }

    /// A compiled model is framed by pairs of records that are of no command: what may be such a pair is not certain,
    /// neither by itself nor before a gap in the ids that follow it.
    fn doubt_frames(&self, sections: &[CommandSection], found: &mut Found) {
        const PAIR: usize = 2;
        if !self.of_descriptors() {
            return;
        }
        for group in &found.groups {
            if sections[group.commands].count <= PAIR as u64 {
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

    /// Commands are lost in some sections, which have too few for their records. What lies between those is searched
    /// by itself, and believed as far as sections correspond in number from one end of the stream on.
    fn between_misfits(&self, sections: &[CommandSection], pairs: &[Pair]) -> Found {
        let misfit = |pair: &&Pair| {
            let first = self
                .stream
                .base
                .saturating_add(sections[pair.commands].first);
            let high = self.parts[pair.records].high.saturating_sub(first);
            u64::from(high) >= sections[pair.commands].count
        };
        let misfits: Vec<Pair> = pairs.iter().filter(misfit).copied().collect();
        let ends = misfits.iter().map(|p| (p.records, p.commands));
        let ends = ends.chain([(self.parts.len(), sections.len())]);
        let mut found = self.paired(&[]);
        let mut tight = Vec::new();
        let (mut r, mut c) = (0, 0);
        let mut stretches = Vec::new();
        for (next_r, next_c) in ends {
            tight.push(next_r.saturating_sub(r) == next_c.saturating_sub(c));
            let below = |limit: usize| pairs.partition_point(|p| p.records < limit);
            let inner = &pairs[below(r)..below(next_r).max(below(r))];
            let part = self
                .ordered(r..next_r, &sections[c..next_c], |_| true)
                .map(|mut part| {
                    part.groups.iter_mut().for_each(|g| g.commands += c);
                    part
                })
                .unwrap_or_else(|| self.paired(inner));
            stretches.push(part);
            (r, c) = (next_r + 1, next_c + 1);
        }
        let from_start = tight.iter().take_while(|t| **t).count();
        let from_end = tight.iter().rev().take_while(|t| **t).count();
        let count = tight.len();
        for (number, part) in stretches.into_iter().enumerate() {
            if number < from_start || number >= count - from_end {
                for group in &part.groups {
                    let range = group.records.clone();
                    found.certain[range.clone()].copy_from_slice(&part.certain[range]);
                }
            }
            found.groups.extend(part.groups);
            if let Some(pair) = misfits.get(number) {
                let range = self.parts[pair.records].range.clone();
                let sure = number < from_start || number + 1 >= count - from_end;
                found.certain[range.clone()].fill(sure);
                found.groups.push(Group {
                    records: range,
                    commands: pair.commands,
                    shift: None,
                });
            }
        }
        found
    }
}
