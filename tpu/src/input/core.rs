//! One core's file, read: raw records and commands of each engine, with the pool of decoded descriptors.

use std::collections::HashMap;
use std::path::Path;

use opreport::units::plural;

use crate::chip::Chip;
use crate::chip::regs::{CommandUnit, DecodeStop, Decoded, Table, decode_stream};
use crate::error::{Error, Result};
use crate::input::container::{Block, BlockKind, blocks};
use crate::input::nodes::{BadNode, Command, CommandKind, NONE, Nodes};
use crate::input::pairing;
use crate::input::pmu::{self, RawRecord};
use crate::input::source::SourceFile;
use crate::input::{descriptors, details};
use crate::report::{Engine, Report};

/// Commands of one engine as they were recorded.
#[derive(Debug, Default)]
pub struct CommandLists {
    /// Commands from descriptors of a compiled model.
    pub descriptors: Vec<Command>,
    /// Commands from command nodes.
    pub nodes: Vec<Command>,
    /// Number of command nodes before the first reset of the engine's ids, if that reset starts a program.
    pub framing: Option<usize>,
}

/// A core's file, read.
#[derive(Debug)]
pub struct CoreFile {
    /// Core number from the file's name.
    pub number: u32,
    /// The chip.
    pub chip: Chip,
    /// The file.
    pub file: SourceFile,
    /// Raw records of TIU, GDMA, SDMA.
    pub records: [Vec<RawRecord>; 3],
    /// Which of those had a block.
    pub present: [bool; 3],
    /// Commands of TIU, GDMA, SDMA.
    pub commands: [CommandLists; 3],
    /// CDMA commands per port.
    pub cdma_commands: Vec<Vec<Command>>,
    /// Decoded commands.
    pub pool: Vec<Decoded>,
    /// Runs of descriptors that nodes refer to: from (offset, count, unit) to their index in the pool.
    pub runs: HashMap<(u32, u32, CommandUnitKey), (u32, u32)>,
    /// Names of kernel launches.
    pub scopes: Vec<String>,
    /// Whether any command node was recorded.
    pub has_nodes: bool,
    /// Whether details of nodes were recorded.
    pub has_details: bool,
    /// Whether descriptors of TIU, GDMA, SDMA were recorded.
    pub has_descriptors: [bool; 3],
    /// Whether any commands of TIU, GDMA, SDMA were recorded.
    pub has_commands: [bool; 3],
    /// Command nodes of the HAU.
    pub hau_nodes: u64,
    /// Whether something in the nodes or their details is missing or damaged, so that more may be.
    pub nodes_doubtful: bool,
}

/// [`CommandUnit`] as a map's key.
pub type CommandUnitKey = u8;

pub(crate) fn unit_key(unit: CommandUnit) -> CommandUnitKey {
    match unit {
        CommandUnit::Tiu => 0,
        CommandUnit::Dma => 1,
        CommandUnit::Cdma => 2,
    }
}

/// Reads a core's file.
pub fn read_core(chip: Chip, number: u32, path: &Path, report: &mut Report) -> Result<CoreFile> {
    let file = SourceFile::read(path)?;
    let found = blocks(file.bytes(), path)?;
    let mut core = CoreFile {
        number,
        chip,
        records: Default::default(),
        present: [false; 3],
        commands: Default::default(),
        cdma_commands: Vec::new(),
        pool: Vec::new(),
        runs: HashMap::new(),
        scopes: Vec::new(),
        has_nodes: false,
        has_details: false,
        has_descriptors: [false; 3],
        has_commands: [false; 3],
        hau_nodes: 0,
        nodes_doubtful: false,
        file: SourceFile::nothing(path),
    };
    for block in &found {
        let engine = match block.kind {
            BlockKind::Tiu => Engine::Tiu,
            BlockKind::Gdma => Engine::Gdma,
            BlockKind::Sdma => Engine::Sdma,
            _ => continue,
        };
        check_whole_records(chip, engine, block, path)?;
        core.present[engine.slot()] = true;
        pmu::read(
            chip,
            engine,
            block.payload,
            block.offset,
            &mut core.records[engine.slot()],
        );
    }
    let name = file.name();
    let descriptors = descriptors::read(chip, &found, &name, report);
    core.pool = descriptors.pool;
    core.has_descriptors = descriptors.present;
    for (lists, commands) in core.commands.iter_mut().zip(descriptors.commands) {
        lists.descriptors = commands;
    }
    read_runs(chip, &found, path, &name, &mut core, report)?;
    read_nodes(chip, &found, path, &name, &mut core, report)?;
    core.has_commands = core
        .commands
        .each_ref()
        .map(|lists| !lists.descriptors.is_empty() || !lists.nodes.is_empty());
    core.file = file;
    Ok(core)
}

pub(crate) fn check_whole_records(
    chip: Chip,
    engine: Engine,
    block: &Block,
    path: &Path,
) -> Result<()> {
    let size = pmu::record_bytes(chip, engine);
    let left = block.payload.len() % size;
    if left == 0 {
        return Ok(());
    }
    Err(Error::Format {
        path: path.to_path_buf(),
        offset: block.offset + (block.payload.len() - left) as u64,
        found: format!("{left} bytes at the end of a block of {engine} records"),
        expected: format!("whole records of {size} bytes; the block is cut off or damaged"),
    })
}

fn read_runs(
    chip: Chip,
    found: &[Block],
    path: &Path,
    name: &str,
    core: &mut CoreFile,
    report: &mut Report,
) -> Result<()> {
    for block in found.iter().filter(|b| b.kind == BlockKind::DesMap) {
        let Some(commands) = block.payload.get(12..) else {
            return Err(Error::Format {
                path: path.to_path_buf(),
                offset: block.offset,
                found: format!("a descriptor map of {} bytes", block.payload.len()),
                expected: "offset, count and id, 12 bytes, before the descriptors".to_string(),
            });
        };
        let (offset, count) = (pmu::word(block.payload, 0), pmu::word(block.payload, 1));
        // The block does not name the unit of its commands, so every unit that can decode all of them may use them.
        let mut fits_any = false;
        for unit in [CommandUnit::Tiu, CommandUnit::Dma, CommandUnit::Cdma] {
            let (decoded, stop) = decode_stream(chip, unit, commands, block.offset + 12);
            let walked = matches!(stop, DecodeStop::End | DecodeStop::Open);
            if walked && !decoded.is_empty() {
                let start = core.pool.len() as u32;
                core.runs.insert(
                    (offset, count, unit_key(unit)),
                    (start, decoded.len() as u32),
                );
                core.pool.extend(&decoded);
                fits_any = true;
            }
        }
        if !fits_any {
            report.lose(
                "undecodable_command",
                name,
                u64::from(count),
                format!(
                    "at byte {}: the descriptors of map entry {offset} are of no engine of {chip}",
                    block.offset
                ),
            );
        }
    }
    Ok(())
}

fn read_nodes(
    chip: Chip,
    found: &[Block],
    path: &Path,
    name: &str,
    core: &mut CoreFile,
    report: &mut Report,
) -> Result<()> {
    let blocks: Vec<&Block> = found
        .iter()
        .filter(|b| b.kind == BlockKind::Nodes)
        .collect();
    core.has_nodes = !blocks.is_empty();
    if let Some(block) = blocks.iter().find(|b| b.payload.len() % 4 != 0) {
        let left = block.payload.len() % 4;
        return Err(Error::Format {
            path: path.to_path_buf(),
            offset: block.offset + (block.payload.len() - left) as u64,
            found: format!("{left} bytes at the end of a block of command nodes"),
            expected: "whole nodes of 4 bytes; the block is cut off or damaged".to_string(),
        });
    }
    let known = report.losses().count();
    let details = details::read(found, name, report);
    core.has_details = !details.is_empty();
    let plan = core.has_details.then(|| {
        let records = core.records.each_ref().map(Vec::len);
        pairing::plan(chip, &blocks, details, records, name, report)
    });
    let mut nodes = Nodes::new(chip.spec().cdma_ports as usize);
    for (number, block) in blocks.iter().enumerate() {
        let last = number + 1 == blocks.len();
        nodes.read(chip, block.payload, block.offset, plan.as_ref(), last);
    }
    note_bad_nodes(&nodes.bad, name, report);
    note_missing_marks(nodes.marks.missing(), name, report);
    note_preamble(&nodes, chip.spec().preamble_len(), core, name, report);
    core.nodes_doubtful = report.losses().count() > known;
    core.hau_nodes = nodes.hau;
    if let Some(plan) = plan {
        for list in [&mut nodes.tiu, &mut nodes.gdma, &mut nodes.sdma] {
            plan.decode(list, core);
        }
        // CDMA commands keep their nodes: their details have another layout and the vendor's tool ignores them as well.
        for command in nodes.cdma.iter_mut().flatten() {
            if let CommandKind::Node { detail, .. } = &mut command.kind {
                *detail = NONE;
            }
        }
    }
    core.commands[0].nodes = nodes.tiu;
    core.commands[1].nodes = nodes.gdma;
    core.commands[2].nodes = nodes.sdma;
    core.cdma_commands = nodes.cdma;
    core.scopes = nodes.scopes;
    Ok(())
}

/// The runtime frames a program by the same commands of all engines, before it resets their ids. An engine that has
/// fewer than the others has lost some.
fn note_preamble(
    nodes: &Nodes,
    framed: usize,
    core: &mut CoreFile,
    name: &str,
    report: &mut Report,
) {
    if !nodes.framing.iter().flatten().any(|&n| n > 0) {
        return;
    }
    for (engine, lists) in Engine::OF_CORE.into_iter().zip(&mut core.commands) {
        lists.framing = nodes.framing[engine.slot()];
        let lost = lists.framing.map_or(0, |n| framed.saturating_sub(n)) as u64;
        if lost > 0 {
            let text = format!(
                "{} missing of the pair that opens a profile",
                plural(lost, &format!("{engine} node"))
            );
            report.lose("preamble_lost", name, lost, text);
        }
    }
}

fn note_missing_marks(missing: u64, name: &str, report: &mut Report) {
    if missing > 0 {
        let text = format!(
            "{} missing of kernels' resets, batches, names and ends that most kernels have",
            plural(missing, "word")
        );
        report.lose("marks_lost", name, missing, text);
    }
}

fn note_bad_nodes(bad: &[BadNode], name: &str, report: &mut Report) {
    const SHOWN: usize = 5;
    for node in bad.iter().take(SHOWN) {
        let text = format!(
            "at byte {}: {:#010x}: {}",
            node.offset, node.word, node.what
        );
        report.lose("bad_node", name, 1, text);
    }
    if bad.len() > SHOWN {
        let more = (bad.len() - SHOWN) as u64;
        let text = format!("{} more of these", plural(more, "node"));
        report.lose("bad_node", name, more, text);
    }
}

impl CoreFile {
    /// Bytes of a decoded command.
    pub fn command_bytes(&self, chip: Chip, decoded: &Decoded) -> &[u8] {
        self.file
            .slice(decoded.offset, Table::of(chip).layout(decoded.op).bytes)
    }
}
