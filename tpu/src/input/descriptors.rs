//! Descriptors of a compiled model: the commands of each engine, and their unreadable parts.

use opreport::units::plural;

use crate::chip::Chip;
use crate::chip::regs::{
    CommandUnit, DecodeStop, Decoded, Piece, decode_stream, salvage, without_end_mark,
};
use crate::input::container::{Block, BlockKind};
use crate::input::nodes::{Command, CommandKind, Origin, Tags};
use crate::input::order::{Waits, doubted};
use crate::report::{Engine, Report};

/// The descriptors of a core.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Commands of TIU, GDMA and SDMA.
    pub commands: [Vec<Command>; 3],
    /// Contents of the commands' descriptors.
    pub pool: Vec<Decoded>,
    /// Whether an engine has any.
    pub present: [bool; 3],
}

/// How an engine's commands are written.
pub(super) fn unit_of(engine: Engine) -> CommandUnit {
    match engine {
        Engine::Tiu => CommandUnit::Tiu,
        Engine::Gdma | Engine::Sdma => CommandUnit::Dma,
        Engine::Cdma => CommandUnit::Cdma,
    }
}

/// Reads the blocks of descriptors of a core's file.
pub(super) fn read(chip: Chip, found: &[Block], name: &str, report: &mut Report) -> Descriptors {
    let mut read = Descriptors::default();
    let mut chains = Vec::new();
    let (mut waits, mut counts) = ([Waits::default(); 2], [None; 2]);
    for block in found {
        let engine = match block.kind {
            BlockKind::DesTiu => Engine::Tiu,
            BlockKind::DesGdma => Engine::Gdma,
            BlockKind::DesSdma => Engine::Sdma,
            _ => continue,
        };
        let unit = unit_of(engine);
        let (decoded, stop) = decode_stream(chip, unit, block.payload, block.offset);
        let walked = matches!(stop, DecodeStop::End | DecodeStop::Open);
        chains.push((engine, stop.clone()));
        let (pieces, in_step) = if walked {
            (decoded.into_iter().map(Piece::Command).collect(), true)
        } else {
            let (pieces, in_step) = salvage(chip, unit, block.payload, block.offset);
            note_skipped(chip, engine, &stop, &pieces, name, report);
            (without_last_mark(chip, unit, pieces, block), in_step)
        };
        let origin = if in_step {
            Origin::Recorded
        } else {
            Origin::Uncounted
        };
        if let Some(waits) = waits.get_mut(engine.slot()) {
            let commands = pieces.iter().filter_map(Piece::command);
            *waits = Waits::of(chip, block, commands);
            counts[engine.slot()] = walked.then_some(pieces.len() as u64);
        }
        read.present[engine.slot()] |= !pieces.is_empty();
        let list = &mut read.commands[engine.slot()];
        for (id, piece) in pieces.into_iter().enumerate() {
            let kind = match piece {
                Piece::Command(command) => {
                    read.pool.push(command);
                    CommandKind::Descriptor(read.pool.len() as u32 - 1)
                }
                Piece::Skipped { bytes, .. } => CommandKind::Unreadable {
                    bytes: bytes as u32,
                },
            };
            list.push(Command {
                kind,
                id: id as u32,
                order: 0,
                tags: Tags::NONE,
                origin,
            });
        }
    }
    note_open(&chains, name, report);
    let doubted = doubted(waits, counts, name, report);
    for (list, _) in read.commands.iter_mut().zip(doubted).filter(|(_, d)| *d) {
        for command in list {
            command.origin = Origin::Uncounted;
        }
    }
    read
}

/// Where some chains of descriptors have their end mark, each should.
fn note_open(chains: &[(Engine, DecodeStop)], name: &str, report: &mut Report) {
    if !chains.iter().any(|(_, stop)| *stop == DecodeStop::End) {
        return;
    }
    for (engine, _) in chains.iter().filter(|(_, s)| *s == DecodeStop::Open) {
        let text = format!(
            "the {engine} descriptors lack the one that ends them; others before it may be gone as well"
        );
        report.lose("descriptors_cut", name, 1, text);
    }
}

/// Pieces without the mark that ends a chain, where the engine records nothing for it. A piece that cannot be read at
/// the end of a block ends with the mark.
fn without_last_mark(
    chip: Chip,
    unit: CommandUnit,
    mut pieces: Vec<Piece>,
    block: &Block,
) -> Vec<Piece> {
    const MARK: usize = 16;
    let unrecorded = chip == Chip::Bm1688 && unit == CommandUnit::Dma;
    if unrecorded && let Some(Piece::Skipped { bytes, .. }) = pieces.last_mut() {
        *bytes -= MARK;
        if *bytes == 0 {
            pieces.pop();
        }
    }
    if let Some(&Piece::Command(last)) = pieces.last() {
        let mut last = vec![last];
        without_end_mark(chip, unit, &mut last, block.payload, block.offset);
        if last.is_empty() {
            pieces.pop();
        }
    }
    pieces
}

fn note_skipped(
    chip: Chip,
    engine: Engine,
    stop: &DecodeStop,
    pieces: &[Piece],
    name: &str,
    report: &mut Report,
) {
    const SHOWN: usize = 5;
    let skipped = pieces.iter().filter_map(|piece| match piece {
        Piece::Skipped { offset, bytes } => Some((*offset, *bytes)),
        Piece::Command(_) => None,
    });
    let skipped: Vec<(u64, usize)> = skipped.collect();
    for &(offset, bytes) in skipped.iter().take(SHOWN) {
        let text = format!(
            "at byte {offset}: no {engine} command of {chip} in {bytes} bytes; its record has no command"
        );
        report.lose("undecodable_command", name, 1, text);
    }
    if skipped.len() > SHOWN {
        let more = (skipped.len() - SHOWN) as u64;
        let text = format!(
            "{} of {engine} commands that cannot be read",
            plural(more, "more place")
        );
        report.lose("undecodable_command", name, more, text);
    }
    if skipped.is_empty() {
        let text = match stop {
            DecodeStop::Short {
                offset,
                name,
                need,
                left,
            } => format!("at byte {offset}: a {name} command of {need} bytes, but {left} are left"),
            DecodeStop::Unknown { offset, head } => {
                format!("at byte {offset}: {head:#018x} begins no {engine} command of {chip}")
            }
            DecodeStop::End | DecodeStop::Open => return,
        };
        report.lose("undecodable_command", name, 1, text);
    }
}
