//! The part of a core's local memory that a command reads or writes, if the command is known whole.
//!
//! Local memory is cut into lanes that hold the same offsets of different channels. The extent in a lane is estimated
//! from the shape: channels are dealt out to the lanes, and each channel is stored without gaps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chip::Chip;
use crate::view::{Decoded, Detail, Memory, View};

/// Boxes of one stream: event, lane address, bytes, and whether it writes.
#[derive(Default)]
pub struct Column {
    index: Vec<u8>,
    addr: Vec<u8>,
    size: Vec<u8>,
    write: Vec<u8>,
}

impl Column {
    /// Adds the boxes of an event.
    pub fn add(&mut self, chip: Chip, view: &View) {
        let Some(command) = view.decoded else { return };
        match &view.detail {
            Detail::Tiu(tiu) => {
                let bytes = match tiu.dtype.and_then(crate::chip::names::data_type_bytes) {
                    Some(bytes) if view.role == crate::view::Role::Work => bytes,
                    _ => return,
                };
                for (operand, write) in [("opd0", false), ("opd1", false), ("res0", true)] {
                    let Some(address) = command.get(&format!("{operand}_addr")) else {
                        continue;
                    };
                    let constant = command.value(&format!("opt_{operand}_const")) == 1;
                    if !constant {
                        self.push(
                            chip,
                            view.index,
                            address,
                            extent(chip, &command, operand, bytes),
                            write,
                        );
                    }
                }
            }
            Detail::Dma(dma) => {
                for (side, memory, write) in [("src", dma.from, false), ("dst", dma.to, true)] {
                    if memory != Memory::Local || dma.bytes == 0 {
                        continue;
                    }
                    let low = command.get(&format!("{side}_start_addr_l32")).unwrap_or(0);
                    let lanes = command
                        .value(&format!("{side}_csize"))
                        .clamp(1, chip.spec().lanes);
                    self.push(chip, view.index, low, dma.bytes.div_ceil(lanes), write);
                }
            }
        }
    }

    fn push(&mut self, chip: Chip, index: usize, address: u64, bytes: u64, write: bool) {
        let lane = chip.spec().lmem_bytes / chip.spec().lanes;
        let offset = address % lane;
        self.index.extend((index as u32).to_le_bytes());
        self.addr.extend((offset as u32).to_le_bytes());
        self.size
            .extend((bytes.min(lane - offset) as u32).to_le_bytes());
        self.write.push(u8::from(write));
    }

    /// The columns, if there is any box.
    pub fn json(&self) -> Option<Value> {
        (!self.write.is_empty()).then(|| {
            json!({
                "index": STANDARD.encode(&self.index),
                "addr": STANDARD.encode(&self.addr),
                "size": STANDARD.encode(&self.size),
                "write": STANDARD.encode(&self.write),
            })
        })
    }
}

/// Bytes of an operand in one lane.
fn extent(chip: Chip, command: &Decoded, operand: &str, element_bytes: f64) -> u64 {
    let of = |axis: &str| {
        let value = command.value(&format!("{operand}_{axis}"));
        if value > 0 {
            value
        } else {
            command.value(&format!("res0_{axis}")).max(1)
        }
    };
    let channels = of("c").div_ceil(chip.spec().lanes);
    let elements = of("n")
        .saturating_mul(channels)
        .saturating_mul(of("h"))
        .saturating_mul(of("w"));
    (elements as f64 * element_bytes) as u64
}
