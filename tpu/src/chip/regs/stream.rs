//! Walks a block of concatenated commands.
//!
//! Each chip marks the end of a chain differently: by an end command, or by a system command followed by zeros up to
//! the block's end. A command that cannot be named ends the walk, since its length is then unknown as well.

use super::{CommandUnit, Table};
use crate::chip::Chip;

/// A command found in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Byte offset in the file.
    pub offset: u64,
    /// Its kind, for [`Table::layout`].
    pub op: u16,
    /// Its function's name, for [`Table::name`].
    pub name: u16,
}

/// Why a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeStop {
    /// The stream ended at an end mark, or after a system command at the end of the block.
    End,
    /// The stream ended with the block, after a command that ends no chain.
    Open,
    /// The stream has a command that is not in the chip's table; byte offset in the file, and its first bytes.
    Unknown {
        /// Byte offset in the file.
        offset: u64,
        /// The first eight bytes.
        head: u64,
    },
    /// A command is longer than the rest of the block.
    Short {
        /// Byte offset in the file.
        offset: u64,
        /// Its name.
        name: &'static str,
        /// Bytes it should have.
        need: usize,
        /// Bytes left.
        left: usize,
    },
}

/// The command at the start of `bytes`, which lie at `offset` in the file.
pub fn decode_one(
    chip: Chip,
    unit: CommandUnit,
    bytes: &[u8],
    offset: u64,
) -> Result<Decoded, DecodeStop> {
    let table = Table::of(chip);
    let head = super::read_bits(bytes, 0, 64);
    if is_blank(unit, bytes) {
        return Err(DecodeStop::Unknown { offset, head });
    }
    let (op, name) = table
        .identify(unit, bytes)
        .ok_or(DecodeStop::Unknown { offset, head })?;
    let layout = table.layout(op);
    if layout.bytes > bytes.len() {
        return Err(DecodeStop::Short {
            offset,
            name: layout.name,
            need: layout.bytes,
            left: bytes.len(),
        });
    }
    Ok(Decoded { offset, op, name })
}

/// All commands of a block whose payload lies at `offset` in the file, and why the walk ended.
pub fn decode_stream(
    chip: Chip,
    unit: CommandUnit,
    bytes: &[u8],
    offset: u64,
) -> (Vec<Decoded>, DecodeStop) {
    let table = Table::of(chip);
    let mut commands = Vec::new();
    let mut stop = DecodeStop::End;
    let mut at = 0;
    while at < bytes.len() {
        let decoded = match decode_one(chip, unit, &bytes[at..], offset + at as u64) {
            Ok(decoded) => decoded,
            Err(stop) => return (commands, stop),
        };
        commands.push(decoded);
        let layout = table.layout(decoded.op);
        let here = &bytes[at..at + layout.bytes];
        at += layout.bytes;
        stop = if layout.is_system() {
            DecodeStop::End
        } else {
            DecodeStop::Open
        };
        if ends_chain(chip, unit, layout, here, &bytes[at..]) {
            break;
        }
    }
    without_end_mark(chip, unit, &mut commands, bytes, offset);
    (commands, stop)
}

/// Removes the mark that ends a chain, if the engine records nothing for it.
pub(crate) fn without_end_mark(
    chip: Chip,
    unit: CommandUnit,
    commands: &mut Vec<Decoded>,
    bytes: &[u8],
    offset: u64,
) {
    if chip == Chip::Bm1688
        && unit == CommandUnit::Dma
        && let Some(last) = commands.last()
    {
        let layout = Table::of(chip).layout(last.op);
        let from = (last.offset - offset) as usize;
        let here = &bytes[from..from + layout.bytes];
        if layout.value(here, "cmd_type") == 6 && layout.value(here, "cmd_special_function") == 0 {
            commands.pop();
        }
    }
}

/// Whether a command ends the chain: a mark, or a system command with nothing but zeros after it.
pub(super) fn ends_chain(
    chip: Chip,
    unit: CommandUnit,
    layout: &super::Layout,
    command: &[u8],
    rest: &[u8],
) -> bool {
    let padding = || rest.len() * 8 < 1025 && rest.iter().all(|&b| b == 0);
    layout.is_system() && (is_end(chip, unit, layout, command) || padding())
}

/// Whether no command was ever written here: nothing but zeros, or ones, where each command has a code or an extent.
pub(super) fn is_blank(unit: CommandUnit, bytes: &[u8]) -> bool {
    let head = match unit {
        CommandUnit::Tiu => 16,
        CommandUnit::Dma => 64,
        CommandUnit::Cdma => return false,
    };
    let alike = |head: &[u8]| matches!(head[0], 0 | 0xff) && head.iter().all(|b| *b == head[0]);
    bytes.get(..head).is_some_and(alike)
}

fn is_end(chip: Chip, unit: CommandUnit, layout: &super::Layout, bytes: &[u8]) -> bool {
    match (chip, unit) {
        (Chip::Bm1688 | Chip::Cv84x6, CommandUnit::Tiu) => {
            layout.value(bytes, "tsk_eu_typ") == 31 && layout.value(bytes, "rsvd1") == 1
        }
        (Chip::Cv84x6, CommandUnit::Dma) | (Chip::Aks | Chip::Aksv, CommandUnit::Cdma) => {
            layout.value(bytes, "cmd_special_function") == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 768-bit tensor command of the AKS family, then its end mark.
    fn tensor_and_end() -> Vec<u8> {
        let mut bytes = vec![0u8; 96];
        bytes[0] = 0b110;
        bytes.extend([0u8; 16]);
        bytes[96] = 0b1000;
        bytes[96 + 4] = 6;
        bytes
    }

    #[test]
    fn walks_to_the_end_mark() {
        let bytes = tensor_and_end();
        let (commands, stop) = decode_stream(Chip::Aks, CommandUnit::Dma, &bytes, 1000);
        assert_eq!(stop, DecodeStop::End);
        assert_eq!(
            commands.iter().map(|c| c.offset).collect::<Vec<_>>(),
            [1000, 1096]
        );
        let table = Table::of(Chip::Aks);
        assert_eq!(table.name(commands[0].name), "dma.tensor");
        assert_eq!(table.layout(commands[1].op).name, "sDMA_sys");
    }

    #[test]
    fn says_where_it_stops() {
        let bytes = tensor_and_end();
        let (commands, stop) = decode_stream(Chip::Aks, CommandUnit::Dma, &bytes[..50], 0);
        assert!(commands.is_empty());
        assert!(matches!(
            stop,
            DecodeStop::Short {
                need: 96,
                left: 50,
                ..
            }
        ));
        let mut odd = bytes.clone();
        odd[4] = 14;
        let (_, stop) = decode_stream(Chip::Aks, CommandUnit::Dma, &odd, 7);
        assert!(matches!(stop, DecodeStop::Unknown { offset: 7, .. }));
    }

    #[test]
    fn what_was_never_written_is_no_command() {
        for byte in [0, 0xff] {
            let bytes = [byte; 256];
            for unit in [CommandUnit::Tiu, CommandUnit::Dma] {
                for chip in Chip::ALL {
                    let decoded = decode_one(chip, unit, &bytes, 0);
                    assert!(matches!(decoded, Err(DecodeStop::Unknown { .. })), "{byte}");
                }
            }
        }
    }
}
