//! Finds the memory that a transfer uses: by the codes of command nodes, and by the addresses of whole commands.

use crate::chip::Chip;
use crate::chip::regs::Layout;

/// A memory that a transfer reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// Global memory.
    Ddr,
    /// The chip's shared memory.
    L2,
    /// A core's local memory.
    Local,
    /// No command names the memory.
    Unknown,
}

impl Memory {
    /// Name in reports; CV84X6 calls its shared memory L2, the others L2M.
    pub fn name(self, chip: Chip) -> &'static str {
        match self {
            Memory::Ddr => "DDR",
            Memory::L2 if chip == Chip::Cv84x6 => "L2",
            Memory::L2 => "L2M",
            Memory::Local => "LMEM",
            Memory::Unknown => "unknown",
        }
    }

    /// The memory with this code in a command node.
    pub fn of_code(code: u32) -> Memory {
        match code {
            0 => Memory::Ddr,
            1 => Memory::L2,
            2 => Memory::Local,
            _ => Memory::Unknown,
        }
    }

    /// Its code in a command node.
    pub fn code(self) -> Option<u32> {
        match self {
            Memory::Ddr => Some(0),
            Memory::L2 => Some(1),
            Memory::Local => Some(2),
            Memory::Unknown => None,
        }
    }
}

/// `DDR->LMEM` and the like.
pub fn direction_name(from: Memory, to: Memory, chip: Chip) -> &'static str {
    use Memory::{Ddr, L2, Local, Unknown};
    let cv = chip == Chip::Cv84x6;
    match (from, to) {
        (Ddr, Ddr) => "DDR->DDR",
        (Ddr, Local) => "DDR->LMEM",
        (Local, Ddr) => "LMEM->DDR",
        (Local, Local) => "LMEM->LMEM",
        (Ddr, L2) if cv => "DDR->L2",
        (L2, Ddr) if cv => "L2->DDR",
        (Local, L2) if cv => "LMEM->L2",
        (L2, Local) if cv => "L2->LMEM",
        (L2, L2) if cv => "L2->L2",
        (Ddr, L2) => "DDR->L2M",
        (L2, Ddr) => "L2M->DDR",
        (Local, L2) => "LMEM->L2M",
        (L2, Local) => "L2M->LMEM",
        (L2, L2) => "L2M->L2M",
        (Unknown, Ddr) => "unknown->DDR",
        (Unknown, L2) => "unknown->L2M",
        (Unknown, Local) => "unknown->LMEM",
        (Ddr, Unknown) => "DDR->unknown",
        (L2, Unknown) => "L2M->unknown",
        (Local, Unknown) => "LMEM->unknown",
        (Unknown, Unknown) => "unknown->unknown",
    }
}

/// The memory of an address of the AKS family: its tag in bits 40 to 44.
fn memory_of_tag(high: u64) -> Memory {
    match high >> 8 & 0x1f {
        31 => Memory::Local,
        30 => Memory::L2,
        _ => Memory::Ddr,
    }
}

/// The memory of an address of CV84X6, whose shared memory has a window besides its tag.
fn memory_of_cv84x6(address: u64) -> Memory {
    const L2_START: u64 = 0x26D2_0000;
    const L2_BYTES: u64 = 0x10_0000;
    let tag = address >> 40 & 0x1f;
    let low = address & 0xff_ffff_ffff;
    if matches!(tag, 1 | 2) {
        Memory::Ddr
    } else if (L2_START..L2_START + L2_BYTES).contains(&low) || tag == 30 {
        Memory::L2
    } else {
        Memory::Local
    }
}

/// The memories that a whole DMA command (its layout and bytes) reads from and writes to.
pub fn memories(chip: Chip, layout: &Layout, bytes: &[u8]) -> (Memory, Memory) {
    let system = layout.name == "sDMA_sys";
    match chip {
        Chip::Aks | Chip::Aksv => (
            memory_of_tag(layout.value(bytes, "src_start_addr_h13")),
            memory_of_tag(layout.value(bytes, "dst_start_addr_h13")),
        ),
        Chip::Bm1688 => {
            let of = |a: &str, b: &str| {
                let high = if system {
                    0
                } else {
                    layout
                        .get(bytes, a)
                        .or_else(|| layout.get(bytes, b))
                        .unwrap_or(0)
                };
                if high >> 7 & 1 == 1 {
                    Memory::Ddr
                } else {
                    Memory::Local
                }
            };
            (
                of("src_start_addr_h8", "src_start_addr_l8"),
                of("dst_start_addr_h8", "dst_start_addr_l8"),
            )
        }
        Chip::Cv84x6 => {
            let of = |high: &str, low: &str| {
                let address = if system {
                    0
                } else {
                    (layout.value(bytes, high) << 32) + layout.value(bytes, low)
                };
                memory_of_cv84x6(address)
            };
            (
                of("src_start_addr_h13", "src_start_addr_l32"),
                of("dst_start_addr_h13", "dst_start_addr_l32"),
            )
        }
    }
}
