//! Gives each record of an engine its command.
//!
//! Within a pair of sections a record's id is its command's number, so a lost record costs nothing but itself. There
//! is a choice only where commands are missing. Then the counters of DMA records (which memory they wrote) decide as
//! far as they can. What they leave open is marked as guessed.

use crate::input::nodes::{Command, Tags};
use crate::matching::event::{Certainty, Link};
use crate::matching::order::Record;
use crate::matching::pairing::{Group, Pairing, pair};
use crate::matching::recovery::shift::split;
use crate::matching::sections::{
    Anchor, CommandSection, Mended, correspond_shifted, of_commands, of_records,
};
use crate::matching::stream::{Completeness, Stream};
use crate::matching::timeline::{Stretch, Timeline};

/// The binding of one record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Its command.
    pub link: Link,
    /// Kernel, batch, mode.
    pub tags: Tags,
    /// How certain the assignment is.
    pub certainty: Certainty,
}

impl Bound {
    /// A record without a command.
    pub const UNMATCHED: Bound = Bound {
        link: Link::None,
        tags: Tags::NONE,
        certainty: Certainty::Unmatched,
    };
}

/// The result for one stream.
#[derive(Debug)]
pub struct Binding {
    /// One for each record.
    pub bound: Vec<Bound>,
    /// Records before the first paired section.
    pub before: usize,
    /// Records after the last paired section.
    pub after: usize,
    /// Commands that have a record.
    pub commands_used: u64,
    /// Commands there are (a reference counts as many).
    pub commands: u64,
    /// Commands in paired sections without records, between others: (first such id, number).
    pub gaps: Vec<(u32, u64)>,
    /// Records whose id was mended.
    pub mended: Vec<Mended>,
    /// Records whose counters contradict their command.
    pub contradictions: u64,
    /// When sections whose records are certain ran.
    pub timeline: Timeline,
    /// Whether commands must be missing.
    pub misfit: bool,
    /// Sections, if each record has its command and each command its record.
    pub whole_sections: Option<usize>,
    /// Resets of ids that are missing among the commands.
    pub resets_lost: u64,
    /// Sections whose ids continue in the next section, with the time of that section's first record. Otherwise the end of
    /// the one and the beginning of the other would both have been lost.
    pub run_over: Vec<Stretch>,
    /// Whether ids begin elsewhere than at the base, if any record is paired.
    pub elsewhere: Option<bool>,
}

impl Binding {
    /// Turns all certain commands into guesses.
    pub fn doubt(&mut self) {
        doubt(&mut self.bound);
    }
}

/// Turns all certain commands into guesses.
pub fn doubt(bound: &mut [Bound]) {
    for bound in bound {
        if bound.certainty == Certainty::Matched {
            bound.certainty = Certainty::Guessed;
        }
    }
}

/// Binds the records of a stream to its commands. `records` may have ids mended.
pub fn bind(stream: &Stream, records: &mut [Record], commands: &[Command]) -> Binding {
    // A record belongs to no command if its id is beyond all commands and does not follow the ids before it. Such a
    // record must not split a section.
    const NEAR: u32 = 8;
    let sections = of_commands(commands);
    let highest = sections.iter().map(|s| u64::from(s.first) + s.count).max();
    let known = |p: usize| {
        let id = records[p].id;
        let goes_on = |before: u32| before < id && id - before <= NEAR;
        Some(u64::from(id.saturating_sub(stream.base))) < highest
            || p.checked_sub(1).is_some_and(|b| goes_on(records[b].id))
    };
    let places: Vec<usize> = (0..records.len()).filter(|&p| known(p)).collect();
    let elsewhere = || {
        let (parts, _) = of_records(&mut records.to_vec());
        stream.may_begin_elsewhere(commands) && correspond_shifted(&parts, &sections, stream.base)
    };
    if places.len() == records.len() || elsewhere() {
        return bind_known(stream, records, commands);
    }
    let mut kept: Vec<Record> = places.iter().map(|&p| records[p]).collect();
    let mut binding = bind_known(stream, &mut kept, commands);
    // In a compiled model, a record that continues others beyond all commands shows that commands are missing.
    let goes_on = |w: &[usize]| {
        let next = w[0] + 1;
        next < w[1] && records[next].id > records[w[0]].id
    };
    let ends = places.iter().copied().chain([records.len()]);
    let ends: Vec<usize> = ends.collect();
    binding.misfit |= commands[0].kind.is_of_model() && ends.windows(2).any(goes_on);
    let mut bound = vec![Bound::UNMATCHED; records.len()];
    for (&place, found) in places.iter().zip(&binding.bound) {
        bound[place] = *found;
    }
    if binding.before > 0 {
        binding.before = places[binding.before];
    }
    if binding.after > 0 {
        binding.after = records.len() - 1 - places[places.len() - 1 - binding.after];
    }
    for mended in &mut binding.mended {
        let place = places[mended.place];
        records[place] = kept[mended.place];
        mended.place = place;
    }
    binding.bound = bound;
    binding
}

fn bind_known(stream: &Stream, records: &mut [Record], commands: &[Command]) -> Binding {
    let (record_sections, mended) = of_records(records);
    let mut sections = of_commands(commands);
    let mut resets_lost = 0;
    if let (Some(r), Some(c)) = (record_sections.first(), sections.first_mut())
        && stream.anchor == Anchor::Start
        && r.low < c.first
    {
        // The reset between preamble and program is lost.
        c.first = 0;
        resets_lost = 1;
    }
    let Pairing {
        groups,
        mut certain,
        misfit,
        is_whole,
    } = pair(stream, records, &record_sections, commands, &sections);
    for mended in &mended {
        certain[mended.place] = false;
    }
    let mut binding = Binding {
        bound: vec![Bound::UNMATCHED; records.len()],
        before: 0,
        after: 0,
        commands_used: 0,
        commands: sections.iter().map(|s| s.count).sum(),
        gaps: Vec::new(),
        mended,
        contradictions: 0,
        timeline: Timeline::default(),
        // One reset is for all engines. If this engine's is lost, those of the others are lost, too.
        misfit: misfit || resets_lost > 0,
        whole_sections: is_whole.then_some(sections.len()),
        resets_lost,
        run_over: Vec::new(),
        elsewhere: groups.first().map(|group| group.shift.is_some()),
    };
    if let (Some(first), Some(last)) = (groups.first(), groups.last()) {
        binding.before = first.records.start;
        binding.after = records.len() - last.records.end;
    }
    let mut stretches = Vec::new();
    for group in &groups {
        let section = &sections[group.commands];
        let parts = SectionRecords {
            stream,
            records,
            commands,
            section,
            certain: &certain,
        };
        parts.bind(group, &mut binding);
        let next = sections.get(group.commands + 1);
        let next = next.map(|section| section.extent(commands).0);
        stretches.extend(parts.stretch(group, next, &binding));
    }
    let goes_on = |w: &[Group]| {
        let (last, next) = (w[0].records.end - 1, w[1].records.start);
        let over = next == last + 1 && records[next].id == records[last].id + 1;
        over.then(|| {
            let (first, last) = sections[w[0].commands].extent(commands);
            let (start_ns, end_ns) = stream.times_ns(&records[next]);
            Stretch {
                first,
                last,
                next: None,
                start_ns,
                end_ns,
            }
        })
    };
    binding.run_over = groups.windows(2).filter_map(goes_on).collect();
    // Its counters contradict its command: one before it is missing.
    binding.misfit |= binding.contradictions > 0;
    binding.timeline = Timeline::new(&stretches);
    binding
}

/// The inputs for binding the records of one section.
struct SectionRecords<'a> {
    stream: &'a Stream<'a>,
    records: &'a [Record],
    commands: &'a [Command],
    section: &'a CommandSection,
    certain: &'a [bool],
}

impl SectionRecords<'_> {
    fn command(&self, index: u64) -> Bound {
        self.stream.command(self.commands, self.section, index)
    }

    /// When the section ran, by its records that are certain.
    fn stretch(&self, group: &Group, next: Option<u32>, binding: &Binding) -> Option<Stretch> {
        let sure = |&p: &usize| binding.bound[p].certainty == Certainty::Matched;
        let times = |p: usize| self.stream.times_ns(&self.records[p]);
        let mut places = group.records.clone().filter(sure);
        let (mut start_ns, mut end_ns) = times(places.next()?);
        for place in places {
            let (start, end) = times(place);
            start_ns = start_ns.min(start);
            end_ns = end_ns.max(end);
        }
        let (first, last) = self.section.extent(self.commands);
        Some(Stretch {
            first,
            last,
            next,
            start_ns,
            end_ns,
        })
    }

    fn bind(&self, group: &Group, binding: &mut Binding) {
        let (stream, records, c) = (self.stream, self.records, self.section);
        let zero = match group.shift {
            Some(low) => low,
            None => stream.base.saturating_add(c.first),
        };
        let index = |record: &Record| u64::from(record.id.saturating_sub(zero));
        let at = |i: u64| self.command(i);
        let places = group.records.clone();
        // More commands than records although no record is missing: one of them does not belong here.
        let too_many = stream.records == Completeness::Whole
            && stream.anchor == Anchor::Start
            && c.count > places.len() as u64;
        let sure = |place: usize| self.certain[place] && !too_many;
        let clash = |place: usize, i: i64| {
            i < 0 || i as u64 >= c.count || stream.contradicts(&records[place], &at(i as u64))
        };
        if !places.clone().any(|p| clash(p, index(&records[p]) as i64)) {
            let mut expected = 0;
            for place in places {
                let i = index(&records[place]);
                let mut bound = at(i);
                binding.commands_used += 1;
                if bound.certainty == Certainty::Matched && !sure(place) {
                    bound.certainty = Certainty::Guessed;
                }
                binding.bound[place] = bound;
                if i > expected {
                    binding.gaps.push((expected as u32 + zero, i - expected));
                }
                expected = i + 1;
            }
            if expected < c.count {
                binding
                    .gaps
                    .push((expected as u32 + zero, c.count - expected));
            }
            return;
        }
        self.bind_shifted(group, zero, &clash, &sure, binding);
    }

    /// If commands are missing, doubled or swapped: takes the shift that fits the counters best.
    fn bind_shifted(
        &self,
        group: &Group,
        zero: u32,
        clash: &dyn Fn(usize, i64) -> bool,
        sure: &dyn Fn(usize) -> bool,
        binding: &mut Binding,
    ) {
        let (stream, records, c) = (self.stream, self.records, self.section);
        let index = |record: &Record| u64::from(record.id.saturating_sub(zero));
        let places: Vec<usize> = group.records.clone().collect();
        let high = places.last().map_or(0, |&p| index(&records[p]));
        let length = high + 1;
        let shifts: Vec<i64> = if length > c.count {
            vec![(length - c.count) as i64]
        } else {
            (0..=3i64.min((c.count - length) as i64))
                .map(|k| -k)
                .collect()
        };
        let best = shifts
            .into_iter()
            .map(|shift| {
                let index = |p: usize| index(&records[p]) as i64;
                (split(&places, &index, shift, clash), shift)
            })
            .min_by_key(|(split, shift)| (split.clashes, shift.abs()));
        let Some((split, shift)) = best else { return };
        for place in places {
            let i = index(&records[place]) as i64;
            let (command, certain) = if i < split.earliest {
                (i, true)
            } else if i >= split.latest + shift.max(0) {
                (i - shift, true)
            } else {
                (i, false)
            };
            if command < 0 || command as u64 >= c.count {
                continue;
            }
            let mut bound = self.command(command as u64);
            let contradiction = stream.contradicts(&records[place], &bound);
            binding.contradictions += u64::from(contradiction);
            binding.commands_used += 1;
            let in_doubt = contradiction || !certain || !sure(place);
            if bound.certainty == Certainty::Matched && in_doubt {
                bound.certainty = Certainty::Guessed;
            }
            binding.bound[place] = bound;
        }
    }
}
