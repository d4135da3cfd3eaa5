//! Command nodes: what the runtime recorded when it sent commands to the engines.
//!
//! A node is a 32-bit word: type in bits 0–6, engine 7–9, operation 10–14, function 15–19, info 20–31.
//!
//! | type | node |
//! | --- | --- |
//! | 0 | name of a kernel: its length in the upper 25 bits, then its bytes |
//! | 1 | command |
//! | 8–11 | reference to descriptors: a 25-bit offset; the next word is their count, CDMA's port in its top four bits |
//! | 12 | reset of an engine's ids |
//! | 13 | command generated at run time |
//! | 14 | batch |
//! | 15 | end of a kernel |
//!
//! Nodes have no ids. They are counted per engine, from 0 after each reset. `words` reads the words themselves;
//! `details` decides which details belong to which node.

use crate::chip::{Chip, NodeEngine};
use crate::input::details::{Plan, Planned};
use crate::input::markers::{Mark, Marks};
use crate::input::words::{Item, Items};

/// "None" in the compact fields of commands and events.
pub const NONE: u32 = u32::MAX;

/// How a command reached its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The dump does not say.
    Unknown,
    /// Run-time generated.
    Rvt,
    /// Written by the firmware one by one.
    Tdi,
    /// Read by the engine from descriptors in memory.
    Des,
}

impl Mode {
    /// The name in RegInfo files and traces; `None` if not recorded.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Mode::Unknown => None,
            Mode::Rvt => Some("RVT"),
            Mode::Tdi => Some("TDI"),
            Mode::Des => Some("DES"),
        }
    }
}

/// Kernel, batch and mode of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// Number of the kernel launch in its core's stream, or [`NONE`].
    pub scope: u32,
    /// Batch index, or [`NONE`].
    pub batch: u32,
    /// How the command reached its engine.
    pub mode: Mode,
}

impl Tags {
    /// Tags of a command that the dump says nothing about.
    pub const NONE: Tags = Tags {
        scope: NONE,
        batch: NONE,
        mode: Mode::Unknown,
    };
}

/// The kind of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    /// A node's word, and its details' number in the pool of decoded commands or [`NONE`].
    Node {
        /// The 32-bit word.
        word: u32,
        /// Number in the pool, or [`NONE`].
        detail: u32,
    },
    /// A decoded descriptor: its number in the pool.
    Descriptor(u32),
    /// Bytes that hold no descriptor that can be read.
    Unreadable {
        /// Bytes that were skipped.
        bytes: u32,
    },
    /// A reference to a run of descriptors.
    Reference {
        /// Key of the run.
        offset: u32,
        /// Commands in the run.
        count: u32,
    },
}

impl CommandKind {
    /// Whether it is one of a compiled model's descriptors.
    pub fn is_of_model(&self) -> bool {
        matches!(self, Self::Descriptor(_) | Self::Unreadable { .. })
    }
}

/// The source of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The runtime recorded the command.
    Recorded,
    /// Its node is lost, and it takes the position of its details. Its kernel may be that of a neighbour.
    Restored,
    /// It was recorded after an unknown number of unreadable commands, so its id is only likely.
    Uncounted,
    /// It was recorded in a kernel whose name lost a part.
    Unnamed,
}

/// One command of an engine's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its kind.
    pub kind: CommandKind,
    /// Id within its section, from 0.
    pub id: u32,
    /// Its place among the nodes of all engines of the core; 0 for descriptors.
    pub order: u32,
    /// Kernel, batch, mode.
    pub tags: Tags,
    /// Its source.
    pub origin: Origin,
}

/// Operation code of a node.
pub fn node_task(word: u32) -> u32 {
    word >> 10 & 0x1f
}

/// Function code of a node.
pub fn node_function(word: u32) -> u32 {
    word >> 15 & 0x1f
}

/// Info bits of a node.
pub fn node_info(word: u32) -> u32 {
    word >> 20
}

/// A word that is not a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadNode {
    /// Byte offset in the file.
    pub offset: u64,
    /// The word.
    pub word: u32,
    /// Description of the fault.
    pub what: &'static str,
}

/// The commands of all blocks of nodes of a core.
#[derive(Debug, Default)]
pub struct Nodes {
    /// TIU commands.
    pub tiu: Vec<Command>,
    /// GDMA commands.
    pub gdma: Vec<Command>,
    /// SDMA commands.
    pub sdma: Vec<Command>,
    /// CDMA commands per port.
    pub cdma: Vec<Vec<Command>>,
    /// Names of the kernel launches, by scope.
    pub scopes: Vec<String>,
    /// Words that are no nodes.
    pub bad: Vec<BadNode>,
    /// Commands of the HAU, which is not profiled.
    pub hau: u64,
    /// The marks between the commands.
    pub(crate) marks: Marks,
    /// Commands of TIU, GDMA and SDMA before the first reset of their ids.
    pub framing: [Option<usize>; 3],
    /// Command nodes of type 1 read so far.
    sent: usize,
    /// Commands of all engines read so far.
    order: u32,
}

impl Nodes {
    /// No commands, for a chip with this many ports.
    pub fn new(ports: usize) -> Nodes {
        Nodes {
            cdma: vec![Vec::new(); ports],
            ..Nodes::default()
        }
    }

    /// Reads one block. `plan` gives the details of nodes, if details were recorded; the `last` block also gets the
    /// commands that stand after all nodes.
    pub(crate) fn read(
        &mut self,
        chip: Chip,
        payload: &[u8],
        offset: u64,
        plan: Option<&Plan>,
        last: bool,
    ) {
        let mut reader = Reader {
            chip,
            ids: [0; 3],
            port_ids: vec![0; self.cdma.len()],
            tags: Tags::NONE,
            sent_tags: Tags::NONE,
            sent_named: true,
            named: true,
        };
        for (at, word, item) in Items::new(payload) {
            let done = match item {
                Item::Name(name) => {
                    reader.begin(self, name, true);
                    Ok(())
                }
                Item::DamagedName(name) => {
                    reader.begin(self, name, false);
                    Err("text without its head or a part of it, taken for a kernel's name")
                }
                Item::Command { word, mode } => match plan {
                    Some(plan) if mode == Mode::Tdi => reader.sent(self, plan),
                    _ => reader.command(self, word, mode, NONE, Origin::Recorded),
                },
                Item::Reference { word, count } => reader.reference(self, word, count),
                Item::Reset(word) => reader.reset(self, word),
                Item::Batch(batch) => {
                    self.marks.see(Mark::Batch(batch));
                    reader.tags.batch = batch;
                    Ok(())
                }
                Item::End => {
                    self.marks.see(Mark::End);
                    reader.tags.scope = NONE;
                    reader.named = true;
                    Ok(())
                }
                Item::Other => Ok(()),
                Item::Bad(what) => Err(what),
            };
            if let Err(what) = done {
                let offset = offset + at as u64 * 4;
                self.bad.push(BadNode { offset, word, what });
            }
        }
        if let (Some(plan), true) = (plan, last) {
            reader.tags = reader.sent_tags;
            reader.named = reader.sent_named;
            reader.restore(self, plan);
        }
    }
}

/// State while a block is read.
struct Reader {
    chip: Chip,
    ids: [u32; 3],
    port_ids: Vec<u32>,
    tags: Tags,
    /// Tags of the latest command.
    sent_tags: Tags,
    /// Whether its kernel's name was whole.
    sent_named: bool,
    /// Whether the kernel's name is whole.
    named: bool,
}

impl Reader {
    fn begin(&mut self, nodes: &mut Nodes, name: &[u8], whole: bool) {
        nodes.marks.see(Mark::Name);
        self.named = whole;
        self.tags.scope = nodes.scopes.len() as u32;
        let name = String::from_utf8_lossy(name).into_owned();
        nodes.scopes.push(name);
    }

    fn reset(&mut self, nodes: &mut Nodes, word: u32) -> Result<(), &'static str> {
        let mut core = |engine: usize| {
            nodes.marks.see(Mark::Reset(engine as u32));
            let sent = [&nodes.tiu, &nodes.gdma, &nodes.sdma][engine].len();
            nodes.framing[engine].get_or_insert(sent);
            self.ids[engine] = 0;
        };
        match self.chip.spec().node_engine(word >> 7 & 7) {
            Some(NodeEngine::Tiu) => core(0),
            Some(NodeEngine::Gdma) => core(1),
            Some(NodeEngine::Sdma) => core(2),
            Some(NodeEngine::Cdma) => {
                let port = (node_info(word) >> 8) as usize;
                *self
                    .port_ids
                    .get_mut(port)
                    .ok_or("an id reset of a port that the chip does not have")? = 0;
            }
            Some(NodeEngine::Hau) => {}
            None => return Err("an id reset of an engine that the chip does not have"),
        }
        Ok(())
    }

    /// Commands whose nodes are lost and that stand before the next node.
    fn restore(&mut self, nodes: &mut Nodes, plan: &Plan) {
        for command in plan.restored_before(nodes.sent) {
            // The plan made this word, so its engine is one of the core's.
            let _ = self.planned(nodes, command);
        }
    }

    /// A node that has details, in the order of the plan.
    fn sent(&mut self, nodes: &mut Nodes, plan: &Plan) -> Result<(), &'static str> {
        self.restore(nodes, plan);
        let number = nodes.sent;
        nodes.sent += 1;
        plan.command(number)
            .map_or(Ok(()), |command| self.planned(nodes, &command))
    }

    fn planned(&mut self, nodes: &mut Nodes, command: &Planned) -> Result<(), &'static str> {
        let Planned {
            word,
            detail,
            origin,
        } = *command;
        self.command(nodes, word, Mode::Tdi, detail, origin)
    }

    fn command(
        &mut self,
        nodes: &mut Nodes,
        word: u32,
        mode: Mode,
        detail: u32,
        origin: Origin,
    ) -> Result<(), &'static str> {
        let tags = Tags { mode, ..self.tags };
        let origin = if self.named { origin } else { Origin::Unnamed };
        (self.sent_tags, self.sent_named) = (self.tags, self.named);
        let kind = CommandKind::Node { word, detail };
        nodes.order += 1;
        let order = nodes.order;
        let engine = self.chip.spec().node_engine(word >> 7 & 7);
        nodes.marks.sent(engine);
        let push = |list: &mut Vec<Command>, id: &mut u32| {
            list.push(Command {
                kind,
                id: *id,
                order,
                tags,
                origin,
            });
            *id += 1;
        };
        match engine {
            Some(NodeEngine::Tiu) => push(&mut nodes.tiu, &mut self.ids[0]),
            Some(NodeEngine::Gdma) => push(&mut nodes.gdma, &mut self.ids[1]),
            Some(NodeEngine::Sdma) => {
                push(&mut nodes.sdma, &mut self.ids[2]);
                return Ok(());
            }
            Some(NodeEngine::Cdma) => {
                let port = (node_info(word) >> 8) as usize;
                let (Some(list), Some(id)) =
                    (nodes.cdma.get_mut(port), self.port_ids.get_mut(port))
                else {
                    return Err("a command of a port that the chip does not have");
                };
                push(list, id);
                return Ok(());
            }
            Some(NodeEngine::Hau) => {
                nodes.hau += 1;
                return Ok(());
            }
            None => return Err("a command of an engine that the chip does not have"),
        }
        if mode == Mode::Rvt && self.chip.spec().rvt_wrap_id == Some(self.ids[0]) {
            self.wrap(nodes);
        }
        Ok(())
    }

    /// The runtime inserts a register write per engine when its ids run out, and starts again at 0.
    fn wrap(&mut self, nodes: &mut Nodes) {
        let word = |engine: u32, task: u32| 1 | engine << 7 | task << 10 | 3 << 15;
        let order = nodes.order;
        let command = |engine, task, id| Command {
            kind: CommandKind::Node {
                word: word(engine, task),
                detail: NONE,
            },
            id,
            order,
            tags: Tags::NONE,
            origin: Origin::Recorded,
        };
        nodes.tiu.push(command(0, 15, self.ids[0]));
        nodes.gdma.push(command(1, 6, self.ids[1]));
        self.ids[0] = 0;
        self.ids[1] = 0;
    }

    fn reference(&mut self, nodes: &mut Nodes, word: u32, count: u32) -> Result<(), &'static str> {
        let cdma = word & 0x7f == 11;
        let (port, count) = if cdma {
            ((count >> 28) as usize, count & 0x0fff_ffff)
        } else {
            (0, count)
        };
        self.ids = [0; 3];
        self.port_ids.fill(0);
        if count == 0 {
            return Err("a reference to no descriptors");
        }
        nodes.order += 1;
        nodes.marks.sent(None);
        let command = Command {
            kind: CommandKind::Reference {
                offset: word >> 7,
                count,
            },
            id: 0,
            order: nodes.order,
            tags: Tags {
                mode: Mode::Des,
                ..self.tags
            },
            origin: Origin::Recorded,
        };
        match word & 0x7f {
            8 => nodes.tiu.push(command),
            9 => nodes.gdma.push(command),
            10 => nodes.sdma.push(command),
            _ => nodes
                .cdma
                .get_mut(port)
                .ok_or("a reference of a port that the chip does not have")?
                .push(command),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
