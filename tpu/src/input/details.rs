//! Details of command nodes (mode 2): each command whole, as `u32 id, u32 kind, u32 length, bytes`.
//!
//! One is written for each command that the firmware sent itself (nodes of type 1), in order. Owns their reading, what
//! they say, and the plan by which nodes are read with them; `pairing` finds the node of each.

use crate::chip::memory::{Memory, memories};
use crate::chip::names::DMA_SYS;
use crate::chip::regs::{CommandUnit, Decoded, Table, decode_one};
use crate::chip::{Chip, NodeEngine};
use crate::input::container::{Block, BlockKind};
use crate::input::core::CoreFile;
use crate::input::nodes::{
    Command, CommandKind, NONE, Origin, node_function, node_info, node_task,
};
use crate::input::pmu;
use crate::report::Report;

/// The details of one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail<'a> {
    /// Its number among all details.
    pub id: u32,
    /// Byte offset of the command in the file.
    pub offset: u64,
    /// The command.
    pub bytes: &'a [u8],
}

/// The details in all blocks, in order.
pub(super) fn read<'a>(found: &[Block<'a>], name: &str, report: &mut Report) -> Vec<Detail<'a>> {
    const HEAD: usize = 12;
    let mut details = Vec::new();
    for block in found.iter().filter(|b| b.kind == BlockKind::Extra) {
        let mut at = 0usize;
        while at < block.payload.len() {
            let rest = &block.payload[at..];
            let length = pmu::word(rest, 2) as usize;
            let Some(bytes) = rest.get(HEAD..HEAD.saturating_add(length)) else {
                let text = format!(
                    "at byte {}: the details of a command are cut off ({} bytes left); later commands have none",
                    block.offset + at as u64,
                    rest.len()
                );
                report.lose("details_cut_off", name, 1, text);
                break;
            };
            details.push(Detail {
                id: pmu::word(rest, 0),
                offset: block.offset + (at + HEAD) as u64,
                bytes,
            });
            at += HEAD + length;
        }
    }
    details
}

/// The meaning of details for a unit that reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodedTask {
    decoded: Decoded,
    /// Operation.
    pub task: u32,
    /// Function.
    pub function: u32,
    /// Source and destination of transfers.
    pub memories: Option<(Memory, Memory)>,
    /// Whether they are exactly as long as the command.
    exact: bool,
}

impl DecodedTask {
    fn of(chip: Chip, unit: CommandUnit, detail: &Detail) -> Option<DecodedTask> {
        let decoded = decode_one(chip, unit, detail.bytes, detail.offset).ok()?;
        let layout = Table::of(chip).layout(decoded.op);
        let value = |field| layout.value(detail.bytes, field) as u32;
        let (task, function) = match unit {
            CommandUnit::Tiu => (value("tsk_typ"), value("tsk_eu_typ")),
            _ => (value("cmd_type"), value("cmd_special_function")),
        };
        let transfer = unit != CommandUnit::Tiu && task != DMA_SYS;
        Some(DecodedTask {
            decoded,
            task,
            function,
            memories: transfer.then(|| memories(chip, layout, detail.bytes)),
            exact: layout.bytes == detail.bytes.len(),
        })
    }
}

/// The meaning of details.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning {
    /// The task that the TIU reads in the details, if it can read them.
    pub tiu: Option<DecodedTask>,
    /// The task that a DMA engine reads in the details, if it can read them.
    pub dma: Option<DecodedTask>,
}

impl Meaning {
    /// Whether no unit can have read them: at most a shorter command of a unit begins like them.
    pub fn is_unreadable(&self) -> bool {
        let exact = |reading: &Option<DecodedTask>| reading.is_some_and(|r| r.exact);
        !exact(&self.tiu) && !exact(&self.dma) && (self.tiu.is_none() || self.dma.is_none())
    }

    /// The meaning of a command's details.
    pub fn of(chip: Chip, detail: &Detail) -> Meaning {
        let mut meaning = Meaning {
            tiu: DecodedTask::of(chip, CommandUnit::Tiu, detail),
            dma: DecodedTask::of(chip, CommandUnit::Dma, detail),
        };
        // Bits of one unit's command may look like a shorter one of the other's: the length tells.
        if let (Some(tiu), Some(dma)) = (meaning.tiu, meaning.dma) {
            match (tiu.exact, dma.exact) {
                (true, false) => meaning.dma = None,
                (false, true) => meaning.tiu = None,
                _ => {}
            }
        }
        meaning
    }
}

/// Price of a node or a detail without partner.
pub(super) const LEAVE: u32 = 4;
/// Price of details whose operation is not the node's: just less than leaving both.
const CONTRARY: u32 = 2 * LEAVE - 1;

/// Price of details that belong to no command. They take the place of the node's own details, which are nowhere else.
const UNREADABLE: u32 = 1;

/// Price of details whose memories are not the node's.
pub(super) const ELSEWHERE: u32 = 2;

/// Cost of a node of `chip` having these details; `None` means that the details are lost.
pub(super) fn price(chip: Chip, word: u32, meaning: Option<&Meaning>) -> u32 {
    let Some(meaning) = meaning else { return 1 };
    let reading = match chip.spec().node_engine(word >> 7 & 7) {
        Some(NodeEngine::Tiu) => &meaning.tiu,
        Some(NodeEngine::Gdma | NodeEngine::Sdma) => &meaning.dma,
        _ => return 1,
    };
    let Some(reading) = reading else {
        // Details that no unit can read do not contradict the node. Details that another unit reads contradict it.
        return if meaning.is_unreadable() {
            UNREADABLE
        } else {
            2 * LEAVE + 1
        };
    };
    if (reading.task, reading.function) != (node_task(word), node_function(word)) {
        return CONTRARY;
    }
    let expected = (
        Memory::of_code(node_info(word) >> 4 & 3),
        Memory::of_code(node_info(word) >> 6 & 3),
    );
    u32::from(!reading.exact)
        + ELSEWHERE * u32::from(reading.memories.is_some_and(|m| m != expected))
}

/// A command of the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    /// The node's word, or one like it.
    pub word: u32,
    /// Place of its details in the list of them, [`NONE`] if they are lost.
    pub detail: u32,
    /// Whether the node stood there.
    pub origin: Origin,
}

/// The details given to each node of type 1, and the commands between them whose nodes are lost.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The command of each node; `None` for a double.
    pub(super) nodes: Vec<Option<Planned>>,
    /// Commands without nodes: before which node they stand.
    pub(super) restored: Vec<(usize, Planned)>,
    pub(super) meanings: Vec<Meaning>,
}

impl Plan {
    /// The command of the n-th node; `None` if it has none of its own.
    pub fn command(&self, node: usize) -> Option<Planned> {
        self.nodes.get(node).copied().flatten()
    }

    /// The commands that stand before the n-th node although their own nodes are lost.
    pub fn restored_before(&self, node: usize) -> impl Iterator<Item = &Planned> {
        let start = self.restored.partition_point(|(at, _)| *at < node);
        self.restored[start..]
            .iter()
            .take_while(move |(at, _)| *at == node)
            .map(|(_, command)| command)
    }

    /// Puts the details of an engine's commands into the core's pool; what cannot be decoded keeps its node only.
    pub fn decode(&self, list: &mut [Command], core: &mut CoreFile) {
        for command in list {
            let CommandKind::Node { word, detail } = &mut command.kind else {
                continue;
            };
            if *detail == NONE {
                continue;
            }
            let meaning = &self.meanings[*detail as usize];
            let tiu = core.chip.spec().node_engine(*word >> 7 & 7) == Some(NodeEngine::Tiu);
            *detail = match if tiu { meaning.tiu } else { meaning.dma } {
                Some(reading) => {
                    core.pool.push(reading.decoded);
                    core.pool.len() as u32 - 1
                }
                None => NONE,
            };
        }
    }
}
