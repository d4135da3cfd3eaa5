//! One engine's records and commands, with facts about both, before they are paired.
//!
//! Finds the command of a number in a section, and the commands that a record's counters rule out.

use crate::chip::Chip;
use crate::chip::memory::{Memory, memories};
use crate::chip::names::{DMA_SYS, data_type_bytes};
use crate::chip::regs::{CommandUnit, Layout, Table};
use crate::input::core::{CoreFile, unit_key};
use crate::input::nodes::{Command, CommandKind, Mode, NONE, Origin, node_info, node_task};
use crate::input::pmu::{DmaCounters, moves_nothing, record_bytes};
use crate::matching::bind::Bound;
use crate::matching::event::{Certainty, Link};
use crate::matching::order::Record;
use crate::matching::sections::{Anchor, CommandSection, Fit};
use crate::report::Engine;

/// The commands of a stream, and their source.
pub struct Stream<'a> {
    /// The chip.
    pub chip: Chip,
    /// The engine.
    pub engine: Engine,
    /// The core's file, for descriptors and counters.
    pub core: &'a CoreFile,
    /// The file with the records: the core's or the port's.
    pub record_file: &'a crate::input::source::SourceFile,
    /// Id of a section's first record: 0, but 1 for CDMA.
    pub base: u32,
    /// Clock of the records in MHz.
    pub mhz: f64,
    /// The ends that belong together.
    pub anchor: Anchor,
    /// Whether the records are taken for the last commands if they can be, as a lapped ring leaves them.
    pub latest: bool,
    /// The sections that may be paired.
    pub fit: Fit,
    /// Whether records may be missing.
    pub records: Completeness,
}

/// The completeness of the records by `global.profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// All commands are there.
    Whole,
    /// Some are missing, or it says nothing.
    Open,
}

impl Stream<'_> {
    /// The unit that reads its commands.
    pub fn unit(&self) -> CommandUnit {
        match self.engine {
            Engine::Tiu => CommandUnit::Tiu,
            Engine::Gdma | Engine::Sdma => CommandUnit::Dma,
            Engine::Cdma => CommandUnit::Cdma,
        }
    }

    /// Whether ids may begin elsewhere than at the base. They may only where nothing else explains that the first are
    /// missing: neither a ring that lapped nor unknown commands. Those of a compiled model begin at the base: each run
    /// of it resets them.
    pub(super) fn may_begin_elsewhere(&self, commands: &[Command]) -> bool {
        let counted = |c: &Command| c.origin == Origin::Recorded && !c.kind.is_of_model();
        self.anchor == Anchor::Start && commands.iter().all(counted)
    }

    /// Whether a record can be that of the last of these commands: what ends a chain moves nothing and takes no time.
    pub fn may_end(&self, commands: &[Command], record: &Record) -> bool {
        const LONGEST: u64 = 64;
        let Some(CommandKind::Descriptor(number)) = commands.last().map(|c| c.kind) else {
            return true;
        };
        let found = self.core.pool.get(number as usize);
        let layout = found.map(|decoded| Table::of(self.chip).layout(decoded.op));
        if !layout.is_some_and(|layout| layout.is_system()) {
            return true;
        }
        let size = record_bytes(self.chip, self.engine);
        match self.engine {
            Engine::Tiu => record.cycles() <= LONGEST,
            _ if self.chip == Chip::Bm1688 => true,
            _ => moves_nothing(
                self.chip,
                self.engine,
                self.record_file.slice(record.offset, size),
            ),
        }
    }

    /// Link and tags of the command number `index` of a section.
    pub(super) fn command(
        &self,
        commands: &[Command],
        section: &CommandSection,
        index: u64,
    ) -> Bound {
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
            CommandKind::Reference { .. } | CommandKind::Unreadable { .. } => Link::None,
        };
        let certainty = match (link, command.origin) {
            (Link::None, _) => Certainty::Unmatched,
            (_, Origin::Uncounted | Origin::Unnamed | Origin::Restored) => Certainty::Guessed,
            _ => Certainty::Matched,
        };
        Bound {
            link,
            tags: command.tags,
            certainty,
        }
    }

    /// Start and end of a record in ns.
    pub(super) fn times_ns(&self, record: &Record) -> (f64, f64) {
        let ns = |ticks: i64| ticks as f64 / self.mhz * 1000.0;
        (ns(record.start), ns(record.end))
    }

    /// Whether a record's counters rule a command out. It read or wrote the other memory, moved data in a sync command,
    /// or moved another number of bytes than the command's extents have.
    pub(super) fn contradicts(&self, record: &Record, bound: &Bound) -> bool {
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
        let counters = DmaCounters::read(
            self.record_file
                .slice(record.offset, record_bytes(self.chip, self.engine)),
        );
        let mut contradicted = false;
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
                    let (from, to) = memories(self.chip, layout, bytes);
                    // The system DMA of a core is at no local memory.
                    contradicted = self.engine == Engine::Gdma && reads_elsewhere(&counters, from)
                        || moves_other_bytes(&counters, layout, bytes);
                    Some(to == Memory::Local)
                }
            }
            (None, Link::Node { word, .. }) if node_task(word) != DMA_SYS => {
                Some(node_info(word) >> 6 & 3 == 2)
            }
            _ => None,
        };
        let (global, local_written) = (counters.axi_write_bytes > 0, counters.gif_write_bytes > 0);
        match local {
            None => global || local_written,
            Some(true) => contradicted || global && !local_written,
            Some(false) => contradicted || local_written && !global,
        }
    }
}

/// Whether data came from another memory than a command says. A constant comes from none.
fn reads_elsewhere(counters: &DmaCounters, from: Memory) -> bool {
    let (global, local) = (counters.axi_read_valid > 0, counters.gif_read_valid > 0);
    match from {
        Memory::Local => global && !local,
        Memory::Ddr | Memory::L2 => local && !global,
        Memory::Unknown => false,
    }
}

/// Whether a plain copy moved another number of bytes than its extents have. A constant has extents of its destination
/// alone, most other copies of their source.
fn moves_other_bytes(counters: &DmaCounters, layout: &Layout, bytes: &[u8]) -> bool {
    const PLAIN: [u64; 2] = [0, 1];
    let value = |name: &str| layout.get(bytes, name);
    let is_plain = value("cmd_type").is_some_and(|kind| PLAIN.contains(&kind))
        && value("cmd_special_function") == Some(0);
    let element = value("src_data_format").and_then(|code| data_type_bytes(code as u32));
    let (true, Some(element)) = (is_plain, element) else {
        return false;
    };
    let of = |side: &str| -> Option<f64> {
        let extents = ["nsize", "csize", "hsize", "wsize"];
        let extents = extents.map(|extent| value(&format!("{side}_{extent}")));
        let elements: Option<u64> = extents.into_iter().product();
        Some(elements? as f64 * element)
    };
    let sides: Vec<f64> = ["src", "dst"].into_iter().filter_map(of).collect();
    let moved = f64::from(counters.gif_write_bytes) + f64::from(counters.axi_write_bytes);
    moved > 0.0 && !sides.is_empty() && !sides.contains(&moved)
}
