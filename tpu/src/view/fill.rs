//! Fills a view: from the whole command if there is one, else from its node, else from the guess by its counters.

use std::borrow::Cow;

use crate::chip::Chip;
use crate::chip::memory::{Memory, direction_name, memories};
use crate::chip::names::{self, CDMA_SYS, DMA_SYS, TIU_SYS, UNKNOWN};
use crate::chip::ops::tiu_ops;
use crate::chip::regs::rvt_name;
use crate::input::nodes::{Mode, node_function, node_info, node_task};
use crate::input::pmu::{CdmaCounters, DmaCounters, WideDmaCounters};
use crate::matching::event::{Link, SyncGuess};
use crate::report::Engine;
use crate::view::{Detail, DmaDetail, Role, TiuDetail, View, round4};

fn codes_of_guess(view: &View, sync_code: u32, send: u32, wait: u32) -> (u32, u32) {
    match view.event.sync() {
        SyncGuess::Send => (sync_code, send),
        SyncGuess::Wait => (sync_code, wait),
        SyncGuess::None => (UNKNOWN, 0),
    }
}

/// Names and operations of a computation.
pub(super) fn fill_tiu(view: &mut View) {
    let rvt = view.event.mode() == Mode::Rvt;
    if let Some(decoded) = view.decoded {
        view.kind = Cow::Borrowed(decoded.layout.name);
        view.name = Cow::Borrowed(decoded.name);
        view.task = decoded.value("tsk_typ") as u32;
        view.function = decoded.value("tsk_eu_typ") as u32;
        let ops = tiu_ops(view.chip, decoded.layout, decoded.bytes);
        let dtype = decoded.get("opt_opd0_prec").map(|v| v as u32);
        view.detail = Detail::Tiu(TiuDetail {
            ops: Some(ops),
            dtype,
        });
    } else {
        let mut dtype = None;
        (view.task, view.function) = match view.event.link() {
            Link::Node { word, .. } => {
                dtype = Some(node_info(word) & 0x7f);
                (node_task(word), node_function(word))
            }
            _ => codes_of_guess(view, TIU_SYS, 8, 9),
        };
        (view.kind, view.name) = match view.event.link() {
            Link::Node { word, .. } if rvt && view.chip == Chip::Cv84x6 => {
                let (kind, name) =
                    rvt_name(view.task, view.function | (node_info(word) & 0x7ff) << 5);
                (Cow::Borrowed(kind), Cow::Borrowed(name))
            }
            _ => names::tiu(view.task, view.function),
        };
        view.detail = Detail::Tiu(TiuDetail { ops: None, dtype });
    }
    if view.task == TIU_SYS && !rvt {
        view.role = if view.function == 9 {
            Role::Wait
        } else {
            Role::Sync
        };
    }
}

/// Names, memories and numbers of a transfer.
pub(super) fn fill_dma(view: &mut View) {
    let chip = view.chip;
    let engine = view.stream.engine;
    let cdma = engine == Engine::Cdma;
    let sync_code = if cdma { CDMA_SYS } else { DMA_SYS };
    let rvt = view.event.mode() == Mode::Rvt;
    let (mut from, mut to, mut dtype) = (Memory::Unknown, Memory::Unknown, None);
    match (view.decoded, view.event.link()) {
        (Some(command), _) => {
            (from, to) = memories(chip, command.layout, command.bytes);
            dtype = command.get("src_data_format").map(|v| v as u32);
            if dtype.is_none() && matches!(chip, Chip::Bm1688 | Chip::Cv84x6) {
                dtype = Some(0);
            }
            view.task = command.value("cmd_type") as u32;
            view.function = command.value("cmd_special_function") as u32;
        }
        (None, Link::Node { word, .. }) => {
            (view.task, view.function) = (node_task(word), node_function(word));
            let mut info = node_info(word);
            if view.task == DMA_SYS || view.task == sync_code {
                info = 0;
            }
            (from, to) = (
                Memory::of_code(info >> 4 & 3),
                Memory::of_code(info >> 6 & 3),
            );
            dtype = Some(info & 0xf);
        }
        (None, _) => {
            (view.task, view.function) = codes_of_guess(view, sync_code, 3, 4);
            if view.task == sync_code {
                (from, to, dtype) = (Memory::Ddr, Memory::Ddr, Some(0));
            }
        }
    }
    let generated = rvt && chip == Chip::Cv84x6 && view.decoded.is_none();
    if let (true, Link::Node { word, .. }) = (generated, view.event.link()) {
        let (kind, name) = rvt_name(view.task, view.function | (node_info(word) & 0x7ff) << 5);
        if ["_ld", "_ldt", "_ldbc", "_mld"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            (from, to) = (Memory::Ddr, Memory::Local);
        } else if ["_st", "_stt", "_mst"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            (from, to) = (Memory::Local, Memory::Ddr);
        }
        (view.kind, view.name) = (Cow::Borrowed(kind), Cow::Borrowed(name));
        dtype = None;
    } else {
        (view.kind, view.name) = if cdma {
            names::cdma(view.task, view.function)
        } else {
            names::dma(
                chip,
                view.task,
                view.function,
                direction_name(from, to, chip),
            )
        };
    }
    if cdma && view.decoded.is_none() && view.event.link() != Link::None {
        (from, to) = (Memory::Ddr, Memory::Ddr);
    }
    if view.task == sync_code && !rvt {
        view.role = if view.function == 4 && !cdma {
            Role::Wait
        } else {
            Role::Sync
        };
    }
    view.detail = Detail::Dma(dma_numbers(view, from, to, dtype));
}

fn dma_numbers(view: &View, from: Memory, to: Memory, dtype: Option<u32>) -> DmaDetail {
    let duration = view.duration_ns().max(1) as f64;
    let rate = |bytes: u64| round4(bytes as f64 / duration);
    let mut dma = DmaDetail {
        from,
        to,
        dtype,
        bytes: 0,
        ddr_gbps: 0.0,
        l2_gbps: None,
        stall_cycles: 0,
        transactions: 0,
    };
    let has = |memory| from == memory || to == memory;
    match (view.chip, view.stream.engine) {
        (_, Engine::Cdma) => {
            let counters = CdmaCounters::read(view.record);
            dma.bytes = u64::from(counters.write_bytes);
            dma.transactions = counters.all_valid;
        }
        (Chip::Bm1688, _) => {
            let counters = WideDmaCounters::read(view.record);
            if view.decoded.is_some() {
                dma.bytes = counters.global_bytes.max(counters.local_bytes);
                dma.stall_cycles = counters.local_stall;
                dma.transactions = counters.global_bytes / 16;
            } else {
                dma.bytes = counters.all_bytes;
                dma.stall_cycles = counters.all_stall;
                dma.transactions = counters.all_valid;
            }
            dma.ddr_gbps = rate(dma.bytes);
            return dma;
        }
        (Chip::Cv84x6, _) => {
            let c = DmaCounters::read(view.record);
            dma.bytes = u64::from(
                c.axi_write_bytes
                    .max(c.gif_write_bytes)
                    .max(c.gif_read_bytes),
            );
            dma.stall_cycles =
                u64::from(c.axi_write_stall) + u64::from(c.axi_read_stall) + u64::from(c.gif_stall);
            dma.transactions = u64::from(c.axi_reads) + u64::from(c.axi_writes);
            let unknown = has(Memory::Unknown);
            dma.ddr_gbps = rate(if has(Memory::Ddr) || unknown {
                dma.bytes
            } else {
                0
            });
            dma.l2_gbps = Some(rate(if has(Memory::L2) { dma.bytes } else { 0 }));
            return dma;
        }
        _ => {
            let c = DmaCounters::read(view.record);
            dma.bytes = u64::from(c.gif_write_bytes) + u64::from(c.axi_write_bytes);
            dma.stall_cycles = u64::from(c.gif_stall);
            dma.transactions = u64::from(c.axi_write_valid) + u64::from(c.axi_read_valid);
        }
    }
    if view.decoded.is_none() || has(Memory::Ddr) {
        dma.ddr_gbps = rate(dma.bytes);
    } else if has(Memory::L2) {
        dma.l2_gbps = Some(rate(dma.bytes));
    }
    dma
}
