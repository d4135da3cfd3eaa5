//! Reads a damaged block as commands and unreadable bytes, in the way with the lowest cost.
//!
//! A command that cannot be identified has no known length, and bytes at a wrong offset may look like a command. So all
//! offsets are tried at once. Commands are free unless they look wrong, skipped bytes cost, and the last command must
//! end where a block ends. Costs are summed from the end of the block, in time and memory linear in its length.

use super::stream::{ends_chain, is_blank};
use super::{CommandUnit, Decoded, Layout, Table, decode_one};
use crate::chip::Chip;

/// Commands begin at multiples of this many bytes.
const UNIT: usize = 16;

/// Price of beginning to skip, besides 1 for each unit.
const SKIP: u32 = 8;
/// Price of an unlikely command. It waits for an earlier command than the one before it does, has no size, or sets bits
/// without a meaning.
const ODD: u32 = 6;
/// Price of a block that ends without a mark.
const UNENDED: u32 = 12;
/// Price of a path that does not exist.
const NEVER: u32 = u32::MAX / 4;

/// The kind of a part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A command.
    Command(Decoded),
    /// Bytes without a readable command.
    Skipped {
        /// Byte offset in the file.
        offset: u64,
        /// Number of bytes.
        bytes: usize,
    },
}

impl Piece {
    /// The command, if it is one.
    pub fn command(&self) -> Option<&Decoded> {
        match self {
            Piece::Command(command) => Some(command),
            Piece::Skipped { .. } => None,
        }
    }
}

/// A command that can begin at an offset of a block.
#[derive(Clone, Copy)]
struct Start {
    decoded: Decoded,
    /// Units to the next.
    units: usize,
    /// Id of the other engine's command that it waits for.
    waits: u64,
    /// Cost of the irregularities in the command itself.
    own: u32,
    /// Whether it sets bits that belong to no field.
    stray: bool,
    /// Whether it ends the chain.
    last: bool,
}

/// Reads a damaged block whose payload lies at `offset` in the file, and says whether it is aligned with the commands. A
/// command that sets unused bits was perhaps read from the middle of another.
pub fn salvage(chip: Chip, unit: CommandUnit, bytes: &[u8], offset: u64) -> (Vec<Piece>, bool) {
    let count = bytes.len() / UNIT;
    let starts: Vec<Option<Start>> = (0..count)
        .map(|at| start(chip, unit, bytes, at * UNIT, offset))
        .collect();
    // Price from a place on if a command is read there, and if bytes are skipped there.
    let mut read = vec![NEVER; count + 1];
    let mut skip = vec![NEVER; count + 1];
    (read[count], skip[count]) = (0, 0);
    for at in (0..count).rev() {
        skip[at] = 1 + skip[at + 1].min(read[at + 1]);
        if let Some(start) = &starts[at] {
            read[at] = start.own + follow(&starts, &read, &skip, at, start).0;
        }
    }
    let mut pieces = Vec::new();
    let mut in_step = true;
    let mut at = 0;
    let mut skipping = read[0] > SKIP + skip[0];
    while at < count {
        if skipping {
            let from = at;
            while at < count && (at == from || skip[at] < read[at]) {
                at += 1;
            }
            pieces.push(Piece::Skipped {
                offset: offset + (from * UNIT) as u64,
                bytes: (at - from) * UNIT,
            });
            skipping = false;
            continue;
        }
        let Some(start) = starts[at] else { break };
        pieces.push(Piece::Command(start.decoded));
        in_step &= !start.stray;
        if start.last {
            break;
        }
        skipping = follow(&starts, &read, &skip, at, &start).1;
        at += start.units;
    }
    (pieces, in_step)
}

/// Cost of the part after a command, and whether bytes are skipped there.
fn follow(
    starts: &[Option<Start>],
    read: &[u32],
    skip: &[u32],
    at: usize,
    start: &Start,
) -> (u32, bool) {
    let next = at + start.units;
    if start.last {
        return (0, false);
    }
    if next == starts.len() {
        return (UNENDED, false);
    }
    let falls = starts[next].is_some_and(|n| n.waits < start.waits);
    let reading = read[next] + if falls { ODD } else { 0 };
    let skipping = SKIP + skip[next];
    (reading.min(skipping), skipping < reading)
}

fn start(chip: Chip, unit: CommandUnit, bytes: &[u8], at: usize, offset: u64) -> Option<Start> {
    let rest = &bytes[at..];
    let decoded = decode_one(chip, unit, rest, offset + at as u64).ok()?;
    let layout = Table::of(chip).layout(decoded.op);
    if !layout.bytes.is_multiple_of(UNIT) || is_blank(unit, rest) {
        return None;
    }
    let command = &rest[..layout.bytes];
    let stray = !layout.is_system() && layout.has_stray_bits(command);
    Some(Start {
        decoded,
        units: layout.bytes / UNIT,
        waits: layout.value(command, "cmd_id_dep"),
        own: if stray || has_no_size(unit, layout, command) {
            ODD
        } else {
            0
        },
        stray,
        last: ends_chain(chip, unit, layout, command, &rest[layout.bytes..]),
    })
}

/// Whether a transfer has no extent in its first two dimensions.
fn has_no_size(unit: CommandUnit, layout: &Layout, bytes: &[u8]) -> bool {
    const SIZES: std::ops::Range<usize> = 48..56;
    unit == CommandUnit::Dma && layout.bytes > SIZES.end && bytes[SIZES].iter().all(|&b| b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tensor commands of the AKS family with sizes, waiting for ids that rise; then an end mark.
    fn block(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in 0..count {
            let mut command = vec![0u8; 96];
            command[0] = 0b110;
            command[8..12].copy_from_slice(&(n as u32).to_le_bytes());
            command[48..56].fill(3);
            bytes.extend(command);
        }
        bytes.extend([8, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn shape(bytes: &[u8]) -> Vec<i64> {
        let (pieces, _) = salvage(Chip::Aks, CommandUnit::Dma, bytes, 1000);
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Command(decoded) => decoded.offset as i64 - 1000,
                Piece::Skipped { bytes, .. } => -(*bytes as i64),
            })
            .collect()
    }

    #[test]
    fn a_whole_block_is_read_whole() {
        assert_eq!(shape(&block(3)), [0, 96, 192, 288]);
    }

    #[test]
    fn commands_with_bits_that_mean_nothing_are_out_of_step() {
        let mut bytes = block(4);
        bytes[4] ^= 0x1e;
        assert!(salvage(Chip::Aks, CommandUnit::Dma, &bytes, 0).1);
        // Reserved bits of the third one.
        bytes[2 * 96 + 79] = 0xff;
        assert!(!salvage(Chip::Aks, CommandUnit::Dma, &bytes, 0).1);
    }

    #[test]
    fn each_damaged_command_costs_itself() {
        for at in 0..6 {
            for damage in [0xe0u8, 0x1e] {
                let mut bytes = block(6);
                bytes[at * 96 + 4] ^= damage;
                bytes[at * 96] ^= 8;
                let mut expected: Vec<i64> = (0..6).map(|n| n * 96).chain([576]).collect();
                expected[at] = -96;
                assert_eq!(shape(&bytes), expected, "{at} {damage}");
            }
            let mut bytes = block(6);
            bytes[at * 96..(at + 1) * 96].fill(0);
            let mut expected: Vec<i64> = (0..6).map(|n| n * 96).chain([576]).collect();
            expected[at] = -96;
            assert_eq!(shape(&bytes), expected, "{at} zeroed");
        }
    }
}
