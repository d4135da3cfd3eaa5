//! PMU records: what the hardware wrote when an engine finished a command.
//!
//! Times and ids are the raw counters here. The other counters stay in the file's bytes and are read on request
//! ([`DmaCounters`]), so that a record costs little memory. Layouts: `docs/tpu.md`.

use crate::chip::{CDMA_RECORD_BYTES, Chip};
use crate::report::Engine;

/// Times and id of one record, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord {
    /// Clock ticks at the start, modulo 2^32.
    pub start: u32,
    /// Clock ticks at the end, modulo 2^32.
    pub end: u32,
    /// Command id, as wide as the record has it.
    pub id: u32,
    /// Byte offset in the file.
    pub offset: u64,
}

/// Bytes of a record.
pub fn record_bytes(chip: Chip, engine: Engine) -> usize {
    match engine {
        Engine::Tiu => chip.spec().tiu_record_bytes(),
        Engine::Gdma | Engine::Sdma => chip.spec().dma_record_bytes(),
        Engine::Cdma => CDMA_RECORD_BYTES,
    }
}

/// The word at an index of a record.
pub(crate) fn word(record: &[u8], index: usize) -> u32 {
    match record.get(index * 4..index * 4 + 4) {
        Some(b) => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

/// Appends the records of a payload; its length must be a multiple of [`record_bytes`].
pub fn read(chip: Chip, engine: Engine, payload: &[u8], offset: u64, records: &mut Vec<RawRecord>) {
    let size = record_bytes(chip, engine);
    let id_mask = match (engine, chip) {
        (Engine::Cdma, _) => 0x00ff_ffff,
        (Engine::Tiu, Chip::Bm1688) => 0xffff,
        (_, Chip::Bm1688) => 0x000f_ffff,
        _ => u32::MAX,
    };
    records.reserve(payload.len() / size);
    for (index, record) in payload.chunks_exact(size).enumerate() {
        records.push(RawRecord {
            start: word(record, 0),
            end: word(record, 1),
            id: word(record, 2) & id_mask,
            offset: offset + (index * size) as u64,
        });
    }
}

/// Counters of a GDMA or SDMA record of the AKS family and CV84X6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaCounters {
    /// Thread that issued it.
    pub thread: u32,
    /// Cycles from the read request to its data.
    pub ar_latency: u32,
    /// Cycles the local memory interface stalled.
    pub gif_stall: u32,
    /// Bytes written to global memory.
    pub axi_write_bytes: u32,
    /// Read requests to global memory.
    pub axi_reads: u32,
    /// Write requests to global memory.
    pub axi_writes: u32,
    /// Cycles writes to global memory stalled.
    pub axi_write_stall: u32,
    /// Cycles reads from global memory stalled.
    pub axi_read_stall: u32,
    /// Bytes written to local memory.
    pub gif_write_bytes: u32,
    /// Bytes read from local memory (CV84X6) or read requests.
    pub gif_read_bytes: u32,
    /// Beats written to global memory.
    pub axi_write_valid: u32,
    /// Beats read from global memory.
    pub axi_read_valid: u32,
    /// Beats written to local memory.
    pub gif_write_valid: u32,
    /// Beats read from local memory.
    pub gif_read_valid: u32,
}

impl DmaCounters {
    /// Reads a record's 64 bytes.
    pub fn read(record: &[u8]) -> DmaCounters {
        let w = |index| word(record, index);
        DmaCounters {
            thread: w(3) & 1,
            ar_latency: w(3) >> 1 & 0x7ffff,
            gif_stall: w(4),
            axi_write_bytes: w(5),
            axi_reads: w(6),
            axi_writes: w(7),
            axi_write_stall: w(8),
            axi_read_stall: w(9),
            gif_write_bytes: w(10),
            gif_read_bytes: w(11),
            axi_write_valid: w(12),
            axi_read_valid: w(13),
            gif_write_valid: w(14),
            gif_read_valid: w(15),
        }
    }
}

/// Sums of the counters of a GDMA record of BM1688.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideDmaCounters {
    /// Requests and data of both global ports and both local memories, as the vendor's tool adds them up.
    pub all_bytes: u64,
    /// Bytes requested from both global ports.
    pub global_bytes: u64,
    /// Bytes requested from the local memory.
    pub local_bytes: u64,
    /// Stalls of all ports.
    pub all_stall: u64,
    /// Stalls of the local memory.
    pub local_stall: u64,
    /// Valid beats of all ports.
    pub all_valid: u64,
}

impl WideDmaCounters {
    /// Reads a record's 256 bytes.
    pub fn read(record: &[u8]) -> WideDmaCounters {
        let w = |index| u64::from(word(record, index));
        let sum = |range: std::ops::RangeInclusive<usize>| range.map(w).sum::<u64>();
        WideDmaCounters {
            all_bytes: sum(3..=14),
            global_bytes: w(3) + w(6) + w(5) + w(8),
            local_bytes: w(9) + w(11),
            all_stall: sum(24..=31),
            local_stall: w(28) + w(29),
            all_valid: sum(16..=23),
        }
    }
}

/// Counters of a CDMA record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CdmaCounters {
    /// Bytes written to memory.
    pub write_bytes: u32,
    /// Valid beats of all its interfaces.
    pub all_valid: u64,
}

impl CdmaCounters {
    /// Reads a record's 128 bytes.
    pub fn read(record: &[u8]) -> CdmaCounters {
        let w = |index| u64::from(word(record, index));
        CdmaCounters {
            write_bytes: word(record, 4),
            all_valid: w(14) + w(12) + w(10) + w(8),
        }
    }
}

/// Whether the counters look like those of a command without traffic (a sync command).
pub fn moves_nothing(chip: Chip, engine: Engine, record: &[u8]) -> bool {
    match engine {
        Engine::Tiu => false,
        Engine::Cdma => word(record, 4) == 0,
        // BM1688 has no counter by this name: its own tool never takes a transfer for a sync.
        _ if chip == Chip::Bm1688 => false,
        _ => word(record, 12) == 0 && word(record, 13) == 0,
    }
}

/// Bytes a DMA record moved, however its chip counts them.
pub fn bytes_moved(chip: Chip, engine: Engine, record: &[u8]) -> u64 {
    match engine {
        Engine::Tiu => 0,
        Engine::Cdma => u64::from(word(record, 4)),
        _ if chip == Chip::Bm1688 => {
            let counters = WideDmaCounters::read(record);
            counters.global_bytes.max(counters.local_bytes)
        }
        _ if chip == Chip::Cv84x6 => {
            let counters = DmaCounters::read(record);
            u64::from(
                counters
                    .axi_write_bytes
                    .max(counters.gif_write_bytes)
                    .max(counters.gif_read_bytes),
            )
        }
        _ => {
            let counters = DmaCounters::read(record);
            u64::from(counters.axi_write_bytes) + u64::from(counters.gif_write_bytes)
        }
    }
}

/// The largest number of bytes that reports show of a DMA record, counted at one end.
pub fn bytes_reported(chip: Chip, engine: Engine, record: &[u8]) -> u64 {
    let moved = bytes_moved(chip, engine, record);
    if chip == Chip::Bm1688 && engine != Engine::Cdma {
        // The displayed traffic of commands known only by node counts both ends.
        moved.max(WideDmaCounters::read(record).all_bytes / 2)
    } else {
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_wide_as_the_record() {
        let mut bytes = vec![0xffu8; 128];
        let mut records = Vec::new();
        read(Chip::Aks, Engine::Cdma, &bytes, 8, &mut records);
        assert_eq!(records[0].id, 0x00ff_ffff);
        bytes.truncate(32);
        records.clear();
        read(Chip::Bm1688, Engine::Tiu, &bytes, 8, &mut records);
        assert_eq!((records.len(), records[0].id), (1, 0xffff));
        records.clear();
        read(Chip::Aks, Engine::Tiu, &bytes, 8, &mut records);
        assert_eq!(
            (records.len(), records[1].id, records[1].offset),
            (2, u32::MAX, 24)
        );
    }
}
