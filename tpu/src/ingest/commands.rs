//! The commands of one engine of one core. The preamble's commands are removed, the others are given to records.

use crate::chip::ChipSpec;
use crate::chip::regs::Table;
use crate::ingest::unreadable::counted;
use crate::input::core::CoreFile;
use crate::input::global::GlobalProfile;
use crate::input::nodes::{Command, CommandKind, Origin};
use crate::matching::bind::{Binding, Bound, bind, doubt};
use crate::matching::event::{Certainty, Link};
use crate::matching::order::Record;
use crate::matching::sections::{Anchor, Fit};
use crate::matching::stream::{Completeness, Stream};
use crate::matching::timeline::{Stretch, Timeline};
use crate::report::{Engine, StreamCounts};

/// The commands of an engine.
pub(super) struct Commands {
    engine: Engine,
    /// Commands from descriptors of a compiled model.
    pub descriptors: Vec<Command>,
    /// Commands from command nodes.
    pub nodes: Vec<Command>,
}

/// Commands given to records.
pub(super) struct Given {
    /// One for each record.
    pub bound: Vec<Bound>,
    /// Records at both ends that are outside the commands.
    pub outside: (usize, usize),
    /// Results of the binding; two if descriptors left records to nodes.
    pub bindings: Vec<Binding>,
}

impl Given {
    /// No commands for this number of records.
    fn nothing(records: usize) -> Given {
        let none = Bound {
            certainty: Certainty::NoCommands,
            ..Bound::UNMATCHED
        };
        Given {
            bound: vec![none; records],
            outside: (0, 0),
            bindings: Vec::new(),
        }
    }

    /// Number of records whose command is a guess.
    pub fn guessed(&self) -> usize {
        let guessed = |b: &&Bound| b.certainty == Certainty::Guessed;
        self.bound.iter().filter(guessed).count()
    }

    /// Whether commands have no record.
    pub fn lacks_records(&self) -> bool {
        let lacks = |binding: &Binding| binding.commands_used < binding.commands;
        self.bindings.iter().any(lacks)
    }

    /// Sections whose ids go on in the next, and when that one's first record ran.
    pub fn run_over(&self) -> impl Iterator<Item = &Stretch> {
        self.bindings.iter().flat_map(|binding| &binding.run_over)
    }

    /// Whether ids begin elsewhere than at 0, if any record has a command.
    pub fn begins_elsewhere(&self) -> Option<bool> {
        self.bindings.first()?.elsewhere
    }

    /// Whether commands must be missing.
    pub fn misfit(&self) -> bool {
        self.bindings.iter().any(|binding| binding.misfit)
    }

    /// Sections, if each record has its command and each command its record.
    pub fn whole_sections(&self) -> Option<usize> {
        self.bindings.first()?.whole_sections
    }

    /// Turns all certain commands into guesses.
    pub fn doubt(&mut self) {
        doubt(&mut self.bound);
    }

    /// When commands ran, as far as it is certain.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.bindings.first().map(|binding| &binding.timeline)
    }
}

/// Inputs for giving records their commands.
pub(super) struct Giving<'a> {
    /// The core's file.
    pub file: &'a CoreFile,
    /// `global.profile`.
    pub global: &'a GlobalProfile,
    /// Clock of the records in MHz.
    pub mhz: f64,
    /// Whether the ring had lapped.
    pub lapped: bool,
    /// Whether the records are taken for the last commands if they can be.
    pub latest: bool,
    /// The stream's counts so far.
    pub counts: &'a StreamCounts,
}

impl Commands {
    /// Takes an engine's commands out of its core's file, without the preamble's.
    pub fn take(
        file: &mut CoreFile,
        engine: Engine,
        global: &GlobalProfile,
        spec: &ChipSpec,
    ) -> Commands {
        let lists = std::mem::take(&mut file.commands[engine.slot()]);
        let mut nodes = lists.nodes;
        drop_preamble(&mut nodes, spec.preamble_len(), lists.framing);
        Commands {
            engine,
            descriptors: if global.bmodel {
                lists.descriptors
            } else {
                Vec::new()
            },
            nodes,
        }
    }

    /// Whether any were recorded.
    pub fn any(&self) -> bool {
        !self.descriptors.is_empty() || !self.nodes.is_empty()
    }

    /// Whether its commands are nodes alone.
    pub fn are_nodes(&self) -> bool {
        self.descriptors.is_empty() && !self.nodes.is_empty()
    }

    /// Descriptors if there are any, else nodes.
    fn leading(&self) -> &[Command] {
        if self.descriptors.is_empty() {
            &self.nodes
        } else {
            &self.descriptors
        }
    }

    /// Id of the first command, if there are any.
    pub fn first_id(&self) -> Option<u32> {
        self.leading().first().map(|command| command.id)
    }

    /// Numbers the nodes of the first section from 0 on.
    pub fn begin_at_zero(&mut self) {
        let Some(first) = self.nodes.first().map(|node| node.id) else {
            return;
        };
        let end = section_end(&self.nodes, 0);
        for node in &mut self.nodes[..end] {
            node.id -= first;
        }
    }

    /// Commands in the last section, if there are any.
    pub fn last_section(&self) -> Option<u64> {
        let last = self.leading().last()?;
        Some(match last.kind {
            CommandKind::Reference { count, .. } => u64::from(count),
            _ => u64::from(last.id) + 1,
        })
    }

    /// Gives records their commands; nodes only where descriptors leave any.
    pub fn give(&self, giving: &Giving, records: &mut [Record]) -> Given {
        if !self.any() {
            return Given::nothing(records.len());
        }
        let counts = giving.counts;
        let stream = Stream {
            chip: giving.global.chip,
            engine: self.engine,
            core: giving.file,
            record_file: &giving.file.file,
            base: 0,
            mhz: giving.mhz,
            anchor: if giving.lapped {
                Anchor::End
            } else {
                Anchor::Start
            },
            latest: giving.latest,
            fit: Fit::Partial,
            records: if counts.expected
                == Some(counts.records - counts.duplicates - counts.implausible)
            {
                Completeness::Whole
            } else {
                Completeness::Open
            },
        };
        let lengths = Table::of(giving.global.chip).lengths(stream.unit());
        let counted = counted(&self.descriptors, records, &lengths, |block, record| {
            stream.may_end(block, record)
        });
        let leading = if self.descriptors.is_empty() {
            &self.nodes
        } else {
            &counted
        };
        let mut first = bind(&stream, records, leading);
        first.misfit |= ends_otherwise(&stream, records, leading, &first.bound);
        let mut bound = std::mem::take(&mut first.bound);
        if !self.descriptors.is_empty() && !self.nodes.is_empty() {
            // A compiled model with parts sent at run time: records left without a descriptor are bound to nodes.
            let left = |i: &usize| bound[*i].link == Link::None;
            let places: Vec<usize> = (0..records.len()).filter(left).collect();
            let mut left: Vec<Record> = places.iter().map(|&i| records[i]).collect();
            let second = bind(&stream, &mut left, &self.nodes);
            for (&place, found) in places.iter().zip(&second.bound) {
                bound[place] = *found;
            }
            return Given {
                bound,
                outside: (0, 0),
                bindings: vec![first, second],
            };
        }
        // Whole sections before and after all records with commands do not belong to the program.
        let framed = giving.global.bmodel || self.engine == Engine::Tiu;
        let any = bound.iter().any(|b| b.link != Link::None);
        let mut outside = if framed && any {
            outside(&first, records)
        } else {
            (0, 0)
        };
        if (outside.0 + outside.1) as u64 > first.commands.max(FEW) {
            // More records than a frame has: the program itself lost its commands.
            outside = (0, 0);
            first.misfit = true;
        }
        // Records are missing by their number, but none of a command: that command is missing too.
        let short = counts.expected.is_some_and(|n| n > counts.records);
        first.misfit |= short && self.are_nodes() && first.commands_used >= first.commands;
        Given {
            bound,
            outside,
            bindings: vec![first],
        }
    }
}

/// Whether the record that was given a compiled model's last command cannot be of it: descriptors are gone, and records as
/// well.
fn ends_otherwise(
    stream: &Stream,
    records: &[Record],
    commands: &[Command],
    bound: &[Bound],
) -> bool {
    let last = commands.last().map(|command| command.kind);
    let Some(CommandKind::Descriptor(number)) = last else {
        return false;
    };
    let of_last = |bound: &Bound| bound.link == Link::Descriptor(number);
    let at = bound.iter().position(of_last);
    at.is_some_and(|at| !stream.may_end(commands, &records[at]))
}

/// Records that frame a program are at least this many.
const FEW: u64 = 64;

/// Number of records at both ends that do not belong to the program. If each command has its record, they are all
/// records without commands. Otherwise they are only those that frame a program, because the others may belong to lost
/// commands.
fn outside(binding: &Binding, records: &[Record]) -> (usize, usize) {
    if binding.commands_used >= binding.commands {
        return (binding.before, binding.after);
    }
    const PAIR: usize = 2;
    let falls = |w: &[Record]| w[1].id <= w[0].id;
    let head = &records[..binding.before];
    let mut before = 0;
    while before < head.len() {
        let section = head[before..].windows(2).position(falls);
        let length = section.map_or(head.len() - before, |at| at + 1);
        if length > PAIR {
            break;
        }
        before += length;
    }
    let tail = &records[records.len() - binding.after..];
    let mut kept = tail.len();
    while kept > 0 {
        let section = tail[..kept].windows(2).rposition(falls);
        let length = kept - section.map_or(0, |at| at + 1);
        if length > PAIR {
            break;
        }
        kept -= length;
    }
    (before, tail.len() - kept)
}

/// Where the section that begins at `from` ends: before the first id that is not larger than the one before it.
fn section_end(nodes: &[Command], from: usize) -> usize {
    let falls = |w: &[Command]| w[1].id <= w[0].id;
    let at = nodes[from..].windows(2).position(falls);
    at.map_or(nodes.len(), |at| from + at + 1)
}

/// Removes the preamble's commands: the first ones, or those up to a reset of ids if some are lost. `framing` is how
/// many stand before the first reset, if there is one.
fn drop_preamble(nodes: &mut Vec<Command>, length: usize, framing: Option<usize>) {
    let cut = framing.filter(|&n| n < length && n <= nodes.len());
    let section = cut.unwrap_or_else(|| section_end(nodes, 0));
    if cut.is_none() && (section >= length || section == nodes.len()) {
        nodes.drain(..length.min(nodes.len()));
        return;
    }
    // A command that was restored from its details may be placed after the reset.
    let restored = nodes[section..]
        .iter()
        .take(length - section)
        .take_while(|node| node.origin == Origin::Restored)
        .count();
    let end = section_end(nodes, section);
    for node in &mut nodes[section..end] {
        node.id = node.id.saturating_sub(restored as u32);
    }
    nodes.drain(..section + restored);
}

/// Ids of the first gaps, as text.
pub(super) fn first_gaps(gaps: &[(u32, u64)]) -> Option<String> {
    const SHOWN: usize = 5;
    if gaps.is_empty() {
        return None;
    }
    let one = |&(id, n): &(u32, u64)| match n {
        1 => id.to_string(),
        n => format!("{id}–{}", u64::from(id) + n - 1),
    };
    let mut text: Vec<String> = gaps.iter().take(SHOWN).map(one).collect();
    if gaps.len() > SHOWN {
        let last = text.pop().unwrap_or_default();
        text.push(format!("{last} and {} more places", gaps.len() - SHOWN));
    }
    Some(text.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::nodes::{NONE, Tags};

    fn left(ids: &[u32], restored: usize, framing: Option<usize>) -> Vec<u32> {
        let mut nodes: Vec<Command> = ids
            .iter()
            .enumerate()
            .map(|(at, &id)| Command {
                kind: CommandKind::Node {
                    word: 1,
                    detail: NONE,
                },
                id,
                order: 0,
                tags: Tags::NONE,
                origin: if at == restored {
                    Origin::Restored
                } else {
                    Origin::Recorded
                },
            })
            .collect();
        drop_preamble(&mut nodes, 2, framing);
        nodes.iter().map(|node| node.id).collect()
    }

    #[test]
    fn a_preamble_that_lost_a_command_takes_none_of_the_program() {
        assert_eq!(left(&[0, 1, 0, 1, 2], 99, None), [0, 1, 2]);
        assert_eq!(left(&[0, 0, 1, 2], 99, None), [0, 1, 2]);
        assert_eq!(left(&[0, 0, 1, 2, 0], 1, None), [0, 1, 0]);
        assert_eq!(left(&[0, 1, 2, 3], 99, None), [2, 3]);
        assert_eq!(left(&[0], 99, None), [0; 0]);
        // The other engines had commands before the reset. This engine had none.
        assert_eq!(left(&[0, 1, 0, 1], 99, Some(0)), [0, 1, 0, 1]);
        assert_eq!(left(&[0, 0, 1], 99, Some(1)), [0, 1]);
        assert_eq!(left(&[0, 1, 0, 1], 99, Some(2)), [0, 1]);
    }

    #[test]
    fn gaps_are_named() {
        assert_eq!(first_gaps(&[]), None);
        assert_eq!(first_gaps(&[(8, 1), (10, 3)]).unwrap(), "8, 10–12");
        assert_eq!(
            first_gaps(&[(1, 1); 7]).unwrap(),
            "1, 1, 1, 1, 1 and 2 more places"
        );
    }
}
