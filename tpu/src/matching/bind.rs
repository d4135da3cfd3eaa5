//! Gives each record of an engine its command.
//!
//! Within a pair of sections a record's id is its command's number, so a lost record costs nothing but itself. Only
//! where commands are missing is there a choice; then the counters of DMA records (which memory they wrote) decide as
//! far as they can, and what they leave open is marked as guessed.

use crate::chip::Chip;
use crate::input::core::{CoreFile, unit_key};
use crate::input::nodes::{Command, CommandKind, Mode, NONE, Origin, Tags, node_info, node_task};
use crate::input::pmu::{DmaCounters, record_bytes};
use crate::matching::event::{Certainty, Link};
use crate::matching::order::Record;
use crate::matching::repair::{adopt, repartition};
use crate::matching::sections::{
    Anchor, CommandSection, Fit, Pair, RecordSection, align, of_commands, of_records,
};
use crate::memory::{Memory, memories};
use crate::names::DMA_SYS;
use crate::regs::{CommandUnit, Table};
use crate::report::Engine;

/// What one record was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Its command.
    pub link: Link,
    /// Kernel, batch, mode.
    pub tags: Tags,
    /// How sure that is.
    pub certainty: Certainty,
}

impl Bound {
    /// Nothing known.
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
    /// Commands in paired sections whose records are missing between others: (first such id, how many).
    pub gaps: Vec<(u32, u64)>,
    /// Places of records whose id was mended.
    pub mended: Vec<usize>,
    /// Records whose counters contradict their command.
    pub contradictions: u64,
}

/// What the commands of a stream are and where they come from.
pub struct Stream<'a> {
    /// The chip.
    pub chip: Chip,
    /// The engine.
    pub engine: Engine,
    /// The core's file, for descriptors and counters.
    pub core: &'a CoreFile,
    /// The file with the records: the core's or the port's.
    pub record_file: &'a crate::input::core::SourceFile,
    /// Id of a section's first record: 0, but 1 for CDMA.
    pub base: u32,
    /// Which ends belong together.
    pub anchor: Anchor,
    /// Which sections may be paired.
    pub fit: Fit,
    /// Whether records may be missing.
    pub records: Completeness,
}

/// What `global.profile` says of the number of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// They are all there.
    Whole,
    /// Some are missing, or it says nothing.
    Open,
}

impl Stream<'_> {
    fn unit(&self) -> CommandUnit {
        match self.engine {
            Engine::Tiu => CommandUnit::Tiu,
            Engine::Gdma | Engine::Sdma => CommandUnit::Dma,
            Engine::Cdma => CommandUnit::Cdma,
        }
    }

    /// Link and tags of the command number `index` of a section.
    fn command(&self, commands: &[Command], section: &CommandSection, index: u64) -> Bound {
        let first = &commands[section.range.start];
        if let CommandKind::Reference { offset, count } = first.kind {
            let key = (offset, count, unit_key(self.unit()));
            return match self.core.runs.get(&key) {
                Some(&(start, length)) if index < u64::from(length) => Bound {
                    link: Link::Descriptor(start + index as u32),
                    tags: first.tags,
                    certainty: Certainty::Matched,
                },
                _ => Bound {
                    link: Link::None,
                    tags: first.tags,
                    certainty: Certainty::Unmatched,
                },
            };
        }
        let command = &commands[section.range.start + index as usize];
        let link = match command.kind {
            CommandKind::Node { word, detail } => Link::Node { word, detail },
            CommandKind::Descriptor(number) => Link::Descriptor(number),
            CommandKind::Reference { .. } => Link::None,
        };
        Bound {
            link,
            tags: command.tags,
            certainty: Certainty::Matched,
        }
    }

    /// Whether a record's counters rule a command out: it wrote the other memory, or moved data in a sync command.
    fn contradicts(&self, record: &Record, bound: &Bound) -> bool {
        if !matches!(self.engine, Engine::Gdma | Engine::Sdma) || self.chip == Chip::Bm1688 {
            return false;
        }
        let whole = match bound.link {
            Link::None => return false,
            Link::Descriptor(number) => Some(number),
            Link::Node { detail, .. } if detail != NONE => Some(detail),
            Link::Node { .. } if bound.tags.mode == Mode::Rvt => return false,
            Link::Node { .. } => None,
        };
        // Whether it writes local memory; a sync command writes none.
        let local = match (whole, bound.link) {
            (Some(number), _) => {
                let Some(decoded) = self.core.pool.get(number as usize) else {
                    return false;
                };
                let layout = Table::of(self.chip).layout(decoded.op);
                if layout.name == "sDMA_sys" {
                    None
                } else {
                    let bytes = self.core.command_bytes(self.chip, decoded);
                    Some(memories(self.chip, layout, bytes).1 == Memory::Local)
                }
            }
            (None, Link::Node { word, .. }) if node_task(word) != DMA_SYS => {
                Some(node_info(word) >> 6 & 3 == 2)
            }
            _ => None,
        };
        let counters = DmaCounters::read(
            self.record_file
                .slice(record.offset, record_bytes(self.chip, self.engine)),
        );
        let (global, local_written) = (counters.axi_write_bytes > 0, counters.gif_write_bytes > 0);
        match local {
            None => global || local_written,
            Some(true) => global && !local_written,
            Some(false) => local_written && !global,
        }
    }
}

/// Binds the records of a stream to its commands. `records` may have ids mended.
pub fn bind(stream: &Stream, records: &mut [Record], commands: &[Command]) -> Binding {
    let (record_sections, mended) = of_records(records);
    let mut command_sections = of_commands(commands);
    if let (Some(r), Some(c)) = (record_sections.first(), command_sections.first_mut())
        && stream.anchor == Anchor::Start
        && r.low < c.first
    {
        // The reset between preamble and program is lost.
        c.first = 0;
    }
    let pair_up = |sections: &[CommandSection]| {
        let (base, anchor, fit) = (stream.base, stream.anchor, stream.fit);
        align(&record_sections, sections, base, anchor, fit)
    };
    let mut pairs = pair_up(&command_sections);
    // Several cores' commands for one port: what is too long or too many is another core's.
    let borders = match stream.fit {
        Fit::Equal => None,
        Fit::Partial => repartition(
            &record_sections,
            commands,
            &command_sections,
            &pairs,
            stream.base,
        ),
    };
    if let Some(borders) = borders {
        pairs = pair_up(&borders);
        command_sections = borders;
    }
    let mut adopted = Vec::new();
    let commands = if commands.iter().any(|c| c.origin == Origin::Restored) {
        adopted.extend_from_slice(commands);
        adopt(&mut adopted, &command_sections);
        &adopted
    } else {
        commands
    };
    let mut binding = Binding {
        bound: vec![Bound::UNMATCHED; records.len()],
        before: 0,
        after: 0,
        commands_used: 0,
        commands: command_sections.iter().map(|s| s.count).sum(),
        gaps: Vec::new(),
        mended,
        contradictions: 0,
    };
    if let (Some(first), Some(last)) = (pairs.first(), pairs.last()) {
        binding.before = record_sections[first.records].range.start;
        binding.after = records.len() - record_sections[last.records].range.end;
    }
    for pair in &pairs {
        let (r, c) = (
            &record_sections[pair.records],
            &command_sections[pair.commands],
        );
        bind_pair(stream, records, commands, r, c, pair, &mut binding);
    }
    for &place in &binding.mended {
        if binding.bound[place].certainty == Certainty::Matched {
            binding.bound[place].certainty = Certainty::Guessed;
        }
    }
    binding
}

fn bind_pair(
    stream: &Stream,
    records: &[Record],
    commands: &[Command],
    r: &RecordSection,
    c: &CommandSection,
    pair: &Pair,
    binding: &mut Binding,
) {
    let base = stream.base.saturating_add(c.first);
    let high = u64::from(r.high.saturating_sub(base));
    let absolute = r.low >= base && high < c.count;
    let exact = u64::from(r.high - r.low) + 1 == c.count;
    let zero = if absolute || !exact { base } else { r.low };
    let index = |record: &Record| u64::from(record.id.saturating_sub(zero));
    let at = |i: u64| stream.command(commands, c, i);
    let places = r.range.clone();
    // More commands than records although no record is missing: one of them, anywhere, is no command.
    let too_many = stream.records == Completeness::Whole
        && stream.anchor == Anchor::Start
        && c.count > r.range.len() as u64;
    let sure = if pair.sure && !too_many {
        Certainty::Matched
    } else {
        Certainty::Guessed
    };
    let clash = |place: usize, i: i64| {
        i < 0 || i as u64 >= c.count || stream.contradicts(&records[place], &at(i as u64))
    };
    let plain: usize = places
        .clone()
        .filter(|&p| clash(p, index(&records[p]) as i64))
        .count();
    if plain == 0 {
        let mut expected = 0;
        for place in places {
            let i = index(&records[place]);
            let mut bound = at(i);
            if bound.certainty == Certainty::Matched {
                bound.certainty = sure;
                binding.commands_used += 1;
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
    // Commands are missing, doubled or swapped: look for the shift that the counters like best.
    let length = u64::from(r.high.saturating_sub(zero)) + 1;
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
            (
                split(
                    &places.clone().collect::<Vec<_>>(),
                    &|p| index(&records[p]) as i64,
                    shift,
                    &clash,
                ),
                shift,
            )
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
        let mut bound = at(command as u64);
        let contradiction = stream.contradicts(&records[place], &bound);
        binding.contradictions += u64::from(contradiction);
        if bound.certainty == Certainty::Matched {
            let in_doubt = contradiction || !certain || sure == Certainty::Guessed;
            bound.certainty = if in_doubt {
                Certainty::Guessed
            } else {
                Certainty::Matched
            };
            binding.commands_used += 1;
        }
        binding.bound[place] = bound;
    }
}

/// Where a shift begins: as early as `earliest`, as late as `latest`, with so many clashes left.
struct Split {
    earliest: i64,
    latest: i64,
    clashes: usize,
}

/// Before the border records have the command of their number, behind it the one `shift` before that; of `shift`
/// records at the border (if it is more than 0) the commands are lost.
fn split(
    places: &[usize],
    index: &dyn Fn(usize) -> i64,
    shift: i64,
    clash: &dyn Fn(usize, i64) -> bool,
) -> Split {
    // Clashes from each record on, all shifted.
    let mut behind = vec![0; places.len() + 1];
    for (k, &place) in places.iter().enumerate().rev() {
        behind[k] = behind[k + 1] + usize::from(clash(place, index(place) - shift));
    }
    let mut best: Option<Split> = None;
    let (mut before, mut free) = (0, 0);
    for k in 0..=places.len() {
        let earliest = k.checked_sub(1).map_or(0, |last| index(places[last]) + 1);
        let border = places.get(k).map_or(earliest, |&place| index(place));
        while free < places.len() && index(places[free]) < border + shift.max(0) {
            free += 1;
        }
        let clashes = before + behind[free];
        match &mut best {
            Some(best) if best.clashes < clashes => {}
            Some(best) if best.clashes == clashes => best.latest = border,
            _ => {
                best = Some(Split {
                    earliest,
                    latest: border,
                    clashes,
                })
            }
        }
        if let Some(&place) = places.get(k) {
            before += usize::from(clash(place, index(place)));
        }
    }
    best.unwrap_or(Split {
        earliest: 0,
        latest: 0,
        clashes: 0,
    })
}
