//! Bit layouts of the chips' commands ("descriptors") and the decoding of a stream of them.
//!
//! The layouts are text tables beside this file (format: `tools/regtables.py`, which made them), read once per chip.
//! This module owns lookup, field access and stream walking; [`crate::chip::ops`] and [`crate::view`] interpret the
//! fields.

mod salvage;
mod stream;

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use crate::chip::Chip;
pub use salvage::{Piece, salvage};
pub(crate) use stream::without_end_mark;
pub use stream::{DecodeStop, Decoded, decode_one, decode_stream};

/// The unit that reads a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandUnit {
    /// Tensor computing unit.
    Tiu,
    /// GDMA or SDMA.
    Dma,
    /// CDMA.
    Cdma,
}

/// One field of a command.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name in the register manual.
    pub name: &'static str,
    /// The same with `des_` before it, as RegInfo files show TIU fields.
    pub des_name: String,
    /// First bit.
    pub bit: u32,
    /// Bits, at most 64.
    pub width: u32,
}

/// One kind of command.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Name in the register manual, e.g. `sCONV`.
    pub name: &'static str,
    /// Unit that reads it.
    pub unit: CommandUnit,
    /// Length in bytes.
    pub bytes: usize,
    /// Fields in order.
    pub fields: Vec<Field>,
    index: HashMap<&'static str, usize>,
    /// Mask of the bits that belong to a field, byte by byte.
    used: Vec<u8>,
}

impl Layout {
    /// The value of a field, if the command has it.
    pub fn get(&self, bytes: &[u8], field: &str) -> Option<u64> {
        self.index
            .get(field)
            .map(|&i| read_bits(bytes, self.fields[i].bit, self.fields[i].width))
    }

    /// Whether a bit is set that no field has, or one that is reserved: runtimes leave those at 0.
    pub fn has_stray_bits(&self, bytes: &[u8]) -> bool {
        bytes.iter().zip(&self.used).any(|(b, used)| b & !used != 0)
    }

    /// Adds a field.
    fn push(&mut self, field: Field) {
        const RESERVED: [&str; 3] = ["reserve", "resered", "rsvd"];
        let name = field.name.to_ascii_lowercase();
        if !RESERVED.iter().any(|start| name.starts_with(start)) {
            for bit in field.bit..field.bit + field.width {
                self.used[(bit / 8) as usize] |= 1 << (bit % 8);
            }
        }
        self.index.insert(field.name, self.fields.len());
        self.fields.push(field);
    }

    /// Whether it is a system command, which may end a chain.
    pub fn is_system(&self) -> bool {
        matches!(self.name, "SYS" | "sDMA_sys" | "sCDMA_sys")
    }

    /// The value of a field, 0 if the command has none of that name.
    pub fn value(&self, bytes: &[u8], field: &str) -> u64 {
        self.get(bytes, field).unwrap_or(0)
    }
}

/// Bits `bit .. bit + width` of little-endian bytes; bits beyond the end are 0.
pub fn read_bits(bytes: &[u8], bit: u32, width: u32) -> u64 {
    let start = (bit / 8) as usize;
    let mut buffer = [0u8; 16];
    let end = bytes.len().min(start + 16);
    if start < end {
        buffer[..end - start].copy_from_slice(&bytes[start..end]);
    }
    let value = u128::from_le_bytes(buffer) >> (bit % 8);
    let mask = if width >= 64 {
        u64::MAX
    } else {
        (1u64 << width) - 1
    };
    value as u64 & mask
}

/// Operations of the AKS family (LAR, RAND) that have one length, whatever the bit for short commands says.
const LONG_ONLY: [u8; 2] = [7, 8];

/// All commands of one chip.
#[derive(Debug)]
pub struct Table {
    chip: Chip,
    layouts: Vec<Layout>,
    keys: HashMap<(CommandUnit, u8, u8, u8), (u16, u16)>,
    names: Vec<&'static str>,
}

impl Table {
    /// Lengths in bytes of a unit's commands.
    pub fn lengths(&self, unit: CommandUnit) -> Vec<usize> {
        let of_unit = self.layouts.iter().filter(|layout| layout.unit == unit);
        let lengths: BTreeSet<usize> = of_unit.map(|layout| layout.bytes).collect();
        lengths.into_iter().collect()
    }

    /// The chip's table.
    pub fn of(chip: Chip) -> &'static Table {
        static TABLES: [OnceLock<Table>; 4] = [const { OnceLock::new() }; 4];
        let (slot, text) = match chip {
            Chip::Aks => (0, include_str!("aks.txt")),
            Chip::Aksv => (1, include_str!("aksv.txt")),
            Chip::Bm1688 => (2, include_str!("bm1688.txt")),
            Chip::Cv84x6 => (3, include_str!("cv84x6.txt")),
        };
        TABLES[slot].get_or_init(|| Table::parse(chip, text))
    }

    /// A kind of command by its number.
    pub fn layout(&self, op: u16) -> &Layout {
        &self.layouts[op as usize]
    }

    /// All kinds of commands, for tests that try each.
    #[cfg(test)]
    pub(crate) fn layouts_for_test(&self) -> &[Layout] {
        &self.layouts
    }

    /// A function's name by its number.
    pub fn name(&self, name: u16) -> &'static str {
        self.names[name as usize]
    }

    fn lookup(&self, unit: CommandUnit, short: u8, opcode: u8, function: u8) -> Option<(u16, u16)> {
        self.keys.get(&(unit, short, opcode, function)).copied()
    }

    /// The command at the beginning of the bytes: its kind and the name of its function.
    fn identify(&self, unit: CommandUnit, bytes: &[u8]) -> Option<(u16, u16)> {
        let bit = |at, width| read_bits(bytes, at, width) as u8;
        match unit {
            CommandUnit::Tiu => {
                let (short, task) = (bit(0, 1), bit(41, 4));
                // System register writes have three function bits where the others have five.
                self.lookup(unit, short, task, bit(45, 5))
                    .or_else(|| {
                        if task == 12 {
                            self.lookup(unit, 0, task, bit(45, 3))
                        } else {
                            None
                        }
                    })
                    .or_else(|| {
                        if task == 12 {
                            self.lookup(unit, 2, task, bit(45, 3))
                        } else {
                            None
                        }
                    })
                    .or_else(|| {
                        let family = matches!(self.chip, Chip::Aks | Chip::Aksv);
                        (family && LONG_ONLY.contains(&task))
                            .then(|| self.lookup(unit, 0, task, bit(45, 5)))?
                    })
            }
            CommandUnit::Dma => {
                let (opcode, function) = if self.chip == Chip::Bm1688 {
                    (bit(32, 4), bit(36, 3))
                } else {
                    (bit(32, 5), bit(37, 3))
                };
                self.lookup(unit, bit(3, 1), opcode, function)
            }
            CommandUnit::Cdma => self.lookup(unit, 0, bit(4, 4), bit(8, 3)),
        }
    }

    /// Reads a table. The tables are part of the program and tested, so a malformed line is a bug, not bad input.
    fn parse(chip: Chip, text: &'static str) -> Table {
        let mut table = Table {
            chip,
            layouts: Vec::new(),
            keys: HashMap::new(),
            names: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(op) = line.strip_prefix("op ") {
                let mut words = op.splitn(3, ' ');
                let unit = match words.next() {
                    Some("tiu") => CommandUnit::Tiu,
                    Some("dma") => CommandUnit::Dma,
                    _ => CommandUnit::Cdma,
                };
                let bits: usize = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
                let name = words.next().unwrap_or_default();
                table.layouts.push(Layout {
                    name,
                    unit,
                    bytes: bits / 8,
                    fields: Vec::new(),
                    index: HashMap::new(),
                    used: vec![0; bits / 8],
                });
            } else if let Some(key) = line.strip_prefix("\tkey ") {
                let mut words = key.splitn(4, ' ');
                let mut number = || words.next().and_then(|w| w.parse::<u8>().ok()).unwrap_or(0);
                let (short, opcode, function) = (number(), number(), number());
                table.names.push(words.next().unwrap_or_default());
                let at = (table.layouts.len() as u16 - 1, table.names.len() as u16 - 1);
                let unit = table.layouts[at.0 as usize].unit;
                table.keys.insert((unit, short, opcode, function), at);
            } else if let (Some(fields), Some(layout)) =
                (line.strip_prefix("\tf "), table.layouts.last_mut())
            {
                let mut at = layout.fields.last().map_or(0, |f| f.bit + f.width);
                for item in fields.split(' ') {
                    let (name, place) = item.rsplit_once(':').unwrap_or((item, "0"));
                    let (width, bit) = place.split_once('@').unwrap_or((place, ""));
                    let width: u32 = width.parse().unwrap_or(0);
                    let bit = bit.parse().unwrap_or(at);
                    at = bit + width;
                    // Names with a blank are rare (four); leaking them once keeps every name a plain `&'static str`.
                    let name = if name.contains('~') {
                        &*name.replace('~', " ").leak()
                    } else {
                        name
                    };
                    layout.push(Field {
                        name,
                        des_name: format!("des_{name}"),
                        bit,
                        width,
                    });
                }
            }
        }
        table
    }
}

/// Names after a node of a run-time generated instruction (CV84X6): function, its name, variant, its name.
pub fn rvt_name(function: u32, variant: u32) -> (&'static str, &'static str) {
    type Variants = HashMap<u32, &'static str>;
    static NAMES: OnceLock<HashMap<u32, (&'static str, Variants)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names: HashMap<u32, (&'static str, Variants)> = HashMap::new();
        let mut current = 0;
        for line in include_str!("rvt_cv84x6.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let Some((number, name)) = line.trim_start().split_once(' ') else {
                continue;
            };
            let number = number.parse().unwrap_or(u32::MAX);
            if line.starts_with('\t') {
                if let Some((_, variants)) = names.get_mut(&current) {
                    variants.insert(number, name);
                }
            } else {
                current = number;
                let label = name.strip_prefix("gen_").unwrap_or(name);
                names.insert(
                    number,
                    (
                        label.strip_suffix("_desc").unwrap_or(label),
                        Variants::new(),
                    ),
                );
            }
        }
        names
    });
    match names.get(&function) {
        Some((label, variants)) => (label, variants.get(&variant).copied().unwrap_or("unknown")),
        None => ("rvt", "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_whole_layouts() {
        for chip in Chip::ALL {
            let table = Table::of(chip);
            assert!(table.layouts.len() > 20, "{chip}");
            for layout in &table.layouts {
                assert!(
                    layout.bytes > 0 && layout.bytes % 4 == 0,
                    "{chip} {}",
                    layout.name
                );
                for field in &layout.fields {
                    assert!(
                        field.width > 0 && field.width <= 64,
                        "{chip} {} {}",
                        layout.name,
                        field.name
                    );
                    assert!(
                        (field.bit + field.width) as usize <= layout.bytes * 8,
                        "{chip} {}",
                        layout.name
                    );
                }
            }
            assert!(table.keys.values().all(|&(op, name)| {
                (op as usize) < table.layouts.len() && !table.names[name as usize].is_empty()
            }));
        }
    }

    #[test]
    fn bits_across_words_and_beyond_the_end() {
        let bytes = [0xff, 0x00, 0xf0, 0x0f];
        assert_eq!(read_bits(&bytes, 4, 8), 0x0f);
        assert_eq!(read_bits(&bytes, 20, 8), 0xff);
        assert_eq!(read_bits(&bytes, 24, 32), 0x0f);
        assert_eq!(read_bits(&bytes, 400, 8), 0);
        assert_eq!(read_bits(&[0xff; 16], 3, 64), u64::MAX);
    }

    #[test]
    fn commands_of_one_length_may_carry_the_bit_for_short_ones() {
        let head = |task: u64, function: u64| (1 | task << 41 | function << 45).to_le_bytes();
        let named = |chip, task, function| {
            let table = Table::of(chip);
            let found = table.identify(CommandUnit::Tiu, &head(task, function));
            found.map(|(op, name)| (table.layout(op).name, table.name(name)))
        };
        assert_eq!(named(Chip::Aks, 7, 17), Some(("LAR", "lar.clamp")));
        assert_eq!(named(Chip::Aks, 8, 0), Some(("RAND", "rand.prng")));
        assert_eq!(named(Chip::Aksv, 8, 1).map(|n| n.0), Some("RAND"));
        assert_eq!(named(Chip::Aksv, 7, 0), None);
    }

    #[test]
    fn rvt_names() {
        assert_eq!(rvt_name(1, 0), ("dma_general", "rvt_dma_sbc"));
        assert_eq!(rvt_name(1, 99), ("dma_general", "unknown"));
        assert_eq!(rvt_name(99, 0), ("rvt", "unknown"));
    }
}
