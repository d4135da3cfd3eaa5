//! A record with its binding and facts about it: the unit of analysis and exports.

use bytemuck::{Pod, Zeroable};

use crate::chip::Chip;
use crate::chip::names::UNKNOWN;
use crate::chip::regs::Table;
use crate::input::core::CoreFile;
use crate::input::nodes::{Mode, NONE, node_function, node_task};
use crate::matching::bind::Bound;
use crate::matching::order::Record;

/// The command of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The command is not known.
    None,
    /// A node's word, and its details' number in the core's pool or [`crate::input::nodes::NONE`].
    Node {
        /// The word.
        word: u32,
        /// The details.
        detail: u32,
    },
    /// A descriptor's number in the core's pool.
    Descriptor(u32),
}

/// The kind of a record without a command, guessed by its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncGuess {
    /// The record is of work.
    None,
    /// The record is of a short sync command.
    Send,
    /// The record is of a waiting sync command.
    Wait,
}

/// How certain the assignment of a command to a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// Ids identify the command.
    Matched,
    /// The command is one of several possible ones.
    Guessed,
    /// No command fits.
    Unmatched,
    /// The stream has no commands.
    NoCommands,
}

/// One record, in 48 bytes without padding: large dumps have tens of millions, and they are kept in files.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct Event {
    /// Start in ns since the first record of the dump.
    pub start_ns: i64,
    /// End in ns since the first record of the dump.
    pub end_ns: i64,
    /// Byte offset of the record in its file in the upper 48 bits, then the core, then the four small facts.
    place: u64,
    cycles: u32,
    /// Command id in the record.
    pub id: u32,
    link: [u32; 2],
    scope: u32,
    batch: u32,
}

/// "None" for the core of an event.
const NO_CORE: u8 = u8::MAX;

/// Places of the four small facts in an event's lowest byte.
const MODE: u32 = 0;
const LINK: u32 = 2;
const SYNC: u32 = 4;
const CERTAINTY: u32 = 6;

impl Event {
    /// A record from `start_ns` to `end_ns` with its binding; `core` submitted it.
    pub fn new(
        (start_ns, end_ns): (i64, i64),
        record: &Record,
        bound: &Bound,
        core: Option<u32>,
    ) -> Event {
        let (kind, link) = match bound.link {
            Link::None => (0, [0; 2]),
            Link::Node { word, detail } => (1, [word, detail]),
            Link::Descriptor(number) => (2, [number, 0]),
        };
        let core = core.map_or(NO_CORE, |core| u8::try_from(core).unwrap_or(NO_CORE));
        let facts =
            (bound.tags.mode as u64) << MODE | kind << LINK | (bound.certainty as u64) << CERTAINTY;
        Event {
            start_ns,
            end_ns,
            place: record.offset << 16 | u64::from(core) << 8 | facts,
            cycles: u32::try_from(record.cycles()).unwrap_or(u32::MAX),
            id: record.id,
            link,
            scope: bound.tags.scope,
            batch: bound.tags.batch,
        }
    }

    fn fact(&self, place: u32) -> u64 {
        self.place >> place & 3
    }

    /// Byte offset of the record in its file.
    pub fn offset(&self) -> u64 {
        self.place >> 16
    }

    /// Clock cycles from start to end, both counted.
    pub fn cycles(&self) -> u64 {
        u64::from(self.cycles)
    }

    /// Its command.
    pub fn link(&self) -> Link {
        match self.fact(LINK) {
            0 => Link::None,
            1 => Link::Node {
                word: self.link[0],
                detail: self.link[1],
            },
            _ => Link::Descriptor(self.link[0]),
        }
    }

    /// How the command was sent.
    pub fn mode(&self) -> Mode {
        match self.fact(MODE) {
            0 => Mode::Unknown,
            1 => Mode::Rvt,
            2 => Mode::Tdi,
            _ => Mode::Des,
        }
    }

    /// Number of the kernel launch in its core's stream, if one is known.
    pub fn scope(&self) -> Option<u32> {
        (self.scope != NONE).then_some(self.scope)
    }

    /// Batch index, if one is known.
    pub fn batch(&self) -> Option<u32> {
        (self.batch != NONE).then_some(self.batch)
    }

    /// The guessed kind of a record without a command.
    pub fn sync(&self) -> SyncGuess {
        match self.fact(SYNC) {
            0 => SyncGuess::None,
            1 => SyncGuess::Send,
            _ => SyncGuess::Wait,
        }
    }

    /// Sets what it looks like without a command.
    pub fn set_sync(&mut self, guess: SyncGuess) {
        self.place = self.place & !(3 << SYNC) | (guess as u64) << SYNC;
    }

    /// How certain the assignment of the command is.
    pub fn certainty(&self) -> Certainty {
        match self.fact(CERTAINTY) {
            0 => Certainty::Matched,
            1 => Certainty::Guessed,
            2 => Certainty::Unmatched,
            _ => Certainty::NoCommands,
        }
    }

    /// Number of the core that submitted it, for CDMA where it is known.
    pub fn core(&self) -> Option<u32> {
        let core = (self.place >> 8) as u8;
        (core != NO_CORE).then_some(u32::from(core))
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event")
            .field("start_ns", &self.start_ns)
            .field("end_ns", &self.end_ns)
            .field("id", &self.id)
            .field("offset", &self.offset())
            .field("link", &self.link())
            .field("certainty", &self.certainty())
            .finish_non_exhaustive()
    }
}

impl Event {
    /// Operation and function code of the command's kind; `None` without command, and for generated commands, whose
    /// codes are of another space.
    pub fn codes(&self, chip: Chip, core: &CoreFile) -> Option<(u32, u32)> {
        match self.link() {
            Link::None => None,
            Link::Node { .. } if self.mode() == Mode::Rvt => None,
            Link::Node { word, .. } => Some((node_task(word), node_function(word))),
            Link::Descriptor(index) => {
                let decoded = core.pool.get(index as usize)?;
                let layout = Table::of(chip).layout(decoded.op);
                let bytes = core.command_bytes(chip, decoded);
                let task = layout
                    .get(bytes, "cmd_type")
                    .or_else(|| layout.get(bytes, "tsk_typ"));
                let function = layout
                    .get(bytes, "cmd_special_function")
                    .or_else(|| layout.get(bytes, "tsk_eu_typ"));
                Some((
                    task.map_or(UNKNOWN, |v| v as u32),
                    function.unwrap_or(0) as u32,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::nodes::Tags;

    #[test]
    fn what_goes_in_comes_out() {
        let record = Record {
            start: 5,
            end: 9,
            id: 77,
            offset: (1 << 40) + 3,
        };
        let links = [
            Link::None,
            Link::Node {
                word: 1,
                detail: NONE,
            },
            Link::Descriptor(9),
        ];
        let certainties = [
            Certainty::Matched,
            Certainty::Guessed,
            Certainty::Unmatched,
            Certainty::NoCommands,
        ];
        let modes = [Mode::Unknown, Mode::Rvt, Mode::Tdi, Mode::Des];
        for link in links {
            for (certainty, mode) in certainties.into_iter().zip(modes) {
                let tags = Tags {
                    scope: 3,
                    batch: NONE,
                    mode,
                };
                let bound = Bound {
                    link,
                    tags,
                    certainty,
                };
                let mut event = Event::new((1, 2), &record, &bound, Some(7));
                for guess in [SyncGuess::Wait, SyncGuess::Send, SyncGuess::None] {
                    event.set_sync(guess);
                    assert_eq!(event.sync(), guess);
                }
                assert_eq!(
                    (event.link(), event.certainty(), event.mode()),
                    (link, certainty, mode)
                );
                assert_eq!(
                    (event.scope(), event.batch(), event.core()),
                    (Some(3), None, Some(7))
                );
                assert_eq!(
                    (event.offset(), event.cycles(), event.id),
                    ((1 << 40) + 3, 5, 77)
                );
            }
        }
        let unsent = Event::new((1, 2), &record, &Bound::UNMATCHED, None);
        assert_eq!((unsent.core(), unsent.scope()), (None, None));
    }
}
