//! A record with what is known of it: the unit that analysis and exports work on.

use crate::chip::Chip;
use crate::input::core::CoreFile;
use crate::input::nodes::{Mode, Tags, node_function, node_task};
use crate::names::UNKNOWN;
use crate::regs::Table;

/// The command of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Not known.
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

/// What a record without a command looks like by its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncGuess {
    /// Work.
    None,
    /// A short sync command.
    Send,
    /// A waiting sync command.
    Wait,
}

/// How sure the command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// Ids say so.
    Matched,
    /// One of several possible ones.
    Guessed,
    /// No command fits.
    Unmatched,
    /// The stream has no commands.
    NoCommands,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Start in ns since the first record of the dump.
    pub start_ns: i64,
    /// End in ns since the first record of the dump.
    pub end_ns: i64,
    /// Clock cycles from start to end, both counted.
    pub cycles: u64,
    /// Command id in the record.
    pub id: u32,
    /// Byte offset of the record in its file.
    pub offset: u64,
    /// Its command.
    pub link: Link,
    /// Kernel, batch, mode.
    pub tags: Tags,
    /// What it looks like without a command.
    pub sync: SyncGuess,
    /// How sure the command is.
    pub certainty: Certainty,
    /// Number of the core that submitted it, for CDMA.
    pub core: Option<u32>,
}

impl Event {
    /// Operation and function code of the command's kind; `None` without command, and for generated commands, whose
    /// codes are of another space.
    pub fn codes(&self, chip: Chip, core: &CoreFile) -> Option<(u32, u32)> {
        match self.link {
            Link::None => None,
            Link::Node { .. } if self.tags.mode == Mode::Rvt => None,
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
