//! The fields of GDMA, SDMA and CDMA events: one list for each chip, for commands known whole and by node only.
//!
//! The order of keys is the order in RegInfo files, which differs from list to list. The helpers at the end are runs
//! that several lists share.

use super::{FieldList, Value, times};
use crate::input::nodes::Mode;
use crate::input::pmu::{DmaCounters, WideDmaCounters};
use crate::report::Engine;
use crate::view::{DmaDetail, Memory, View, round4};

/// AKS family and BM1688, known by node.
pub(super) fn node(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    info.push("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    element_type(dma, info);
    info.push("cmd_type", view.task);
    info.push("cmd_special_function", view.function);
    name_and_times(view, info);
    info.push("Asic Cycle", view.event.cycles());
    info.push("Stall Cycle", stall_cycles(view, dma));
    info.push("DMA data size(B)", dma.bytes);
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
    info.push("gmem_xact_cnt", dma.transactions);
    zeros(
        info,
        &["L2M Bandwidth(GB/s)", "dst_start_addr", "src_start_addr"],
    );
}

/// AKS family, known whole.
pub(super) fn aks_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    ensure(info, &["mask_start_addr_h8", "mask_start_addr_l32"]);
    addresses(info, "h13", &["dst_start_addr", "src_start_addr"]);
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    name_and_times(view, info);
    info.push("Asic Cycle", view.event.cycles());
    info.push("Stall Cycle", stall_cycles(view, dma));
    info.push("DMA data size(B)", dma.bytes);
    info.push("gmem_xact_cnt", dma.transactions);
    let of_ddr = dma.from == Memory::Ddr || dma.to == Memory::Ddr;
    let or_zero = |rate: Option<f64>| rate.map_or(Value::Int(0), Value::Float);
    info.push(
        "DDR Bandwidth(GB/s)",
        or_zero(of_ddr.then_some(dma.ddr_gbps)),
    );
    let l2 = if of_ddr { None } else { dma.l2_gbps };
    info.push("L2M Bandwidth(GB/s)", or_zero(l2));
}

/// BM1688, known whole.
pub(super) fn bm1688_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    ensure(info, &["mask_start_addr_h8", "mask_start_addr_l32"]);
    if is_system(view) {
        for key in [
            "dst_start_addr",
            "src_start_addr",
            "src_start_addr_h8",
            "dst_start_addr_h8",
        ] {
            info.set(key, 0u32);
        }
    } else {
        addresses(info, "h8", &["dst_start_addr", "src_start_addr"]);
    }
    let counters = WideDmaCounters::read(view.record);
    let rate = |bytes| gbps(view, bytes);
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    name_and_times(view, info);
    info.push("Asic Cycle", view.event.cycles());
    info.push("Stall Cycle", dma.stall_cycles);
    info.push("gmem_xfer_bytes(B)", counters.global_bytes);
    info.push("gmem_bandwidth", rate(counters.global_bytes));
    info.push("gmem_dma_data_size(B)", counters.global_bytes);
    info.push("gmem_xact_cnt", counters.global_bytes / 16);
    info.push("lmem_xfer_bytes", counters.local_bytes);
    info.push("lmem_bandwidth", rate(counters.local_bytes));
    info.push("lmem_dma_data_size(B)", counters.local_bytes);
    info.push("lmem_xact_cnt", counters.local_bytes / 16);
    info.push("DMA data size(B)", dma.bytes);
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
    zeros(info, &BURSTS);
    zeros(info, &["L2M Bandwidth(GB/s)"]);
    zeros(info, &MASKED);
    placeholders(info);
    for key in ["index_shape", "src_shape", "dst_shape"] {
        info.set(key, "(1, 128, 128 ,9)(FP32)(147456, 1152, 9, 1)");
    }
}

/// CV84X6, known whole.
pub(super) fn cv84x6_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    ensure(
        info,
        &[
            "src_start_addr_h13",
            "src_start_addr_l32",
            "dst_start_addr_h13",
            "dst_start_addr_l32",
        ],
    );
    if is_system(view) {
        info.set("src_start_addr", 0u32);
        info.set("dst_start_addr", 0u32);
    } else {
        addresses(info, "h13", &["src_start_addr", "dst_start_addr"]);
    }
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    info.set("cmd_type", view.task);
    info.set("cmd_special_function", view.function);
    name_and_times(view, info);
    element_type(dma, info);
    info.push("Asic Cycle", view.event.cycles());
    let counters = Cv84x6::of(view, dma);
    counters.latencies(dma, info);
    counters.sizes(info);
    info.push("DMA data size(B)", dma.bytes);
    bandwidths(view, dma, info);
    counters.transactions(dma, info);
    zeros(info, &BURSTS);
    info.push("L2M Bandwidth(GB/s)", dma.l2_gbps.unwrap_or(0.0));
    zeros(info, &MASKED);
    placeholders(info);
}

/// CV84X6, known by node.
pub(super) fn cv84x6_node(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    info.push("Engine Id", view.stream.engine.id());
    times(view, info);
    direction(view, dma, info);
    let generated = view.event.mode() == Mode::Rvt;
    if !generated {
        element_type(dma, info);
    }
    info.push("cmd_type", view.task);
    info.push("cmd_special_function", view.function);
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    if !generated {
        info.push("Data Type", view.data_type());
    }
    let counters = Cv84x6::of(view, dma);
    counters.latencies(dma, info);
    info.push("DMA data size(B)", dma.bytes);
    counters.sizes(info);
    bandwidths(view, dma, info);
    info.push("L2M Bandwidth(GB/s)", dma.l2_gbps.unwrap_or(0.0));
    counters.transactions(dma, info);
    zeros(info, &BURSTS);
    zeros(info, &MASKED);
    zeros(info, &["dst_start_addr", "src_start_addr"]);
    placeholders(info);
}

fn name_and_times(view: &View, info: &mut FieldList) {
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Data Type", view.data_type());
}

fn direction(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    info.push("Direction", view.direction().unwrap_or("unknown"));
    info.push("from_addr", dma.from.name(view.chip));
    info.push("to_addr", dma.to.name(view.chip));
}

fn element_type(dma: &DmaDetail, info: &mut FieldList) {
    match dma.dtype {
        Some(code) => info.set("src_data_format", code),
        None => info.set("src_data_format", "unknown"),
    }
}

/// Records of CDMA ports do not count stalls.
fn stall_cycles(view: &View, dma: &DmaDetail) -> u64 {
    if view.stream.engine == Engine::Cdma {
        0
    } else {
        dma.stall_cycles
    }
}

fn is_system(view: &View) -> bool {
    view.decoded.is_some_and(|d| d.layout.name == "sDMA_sys")
}

fn gbps(view: &View, bytes: u64) -> f64 {
    round4(bytes as f64 / view.duration_ns().max(1) as f64)
}

fn bandwidths(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    info.push("gmem_bandwidth", dma.ddr_gbps);
    info.push("lmem_bandwidth", gbps(view, dma.bytes));
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
}

/// Counters of CV84X6 besides its bytes.
struct Cv84x6 {
    counters: DmaCounters,
    ddr_bytes: u64,
    local_bytes: u64,
}

impl Cv84x6 {
    fn of(view: &View, dma: &DmaDetail) -> Cv84x6 {
        let counters = DmaCounters::read(view.record);
        let of_ddr = [dma.from, dma.to]
            .iter()
            .any(|m| matches!(m, Memory::Ddr | Memory::Unknown));
        Cv84x6 {
            counters,
            ddr_bytes: if of_ddr { dma.bytes } else { 0 },
            local_bytes: u64::from(counters.gif_write_bytes) + u64::from(counters.gif_read_bytes),
        }
    }

    fn latencies(&self, dma: &DmaDetail, info: &mut FieldList) {
        info.push("Thread Id", self.counters.thread);
        info.push("AR Latency Cycle", self.counters.ar_latency);
        info.push("Stall Cycle", dma.stall_cycles);
    }

    fn sizes(&self, info: &mut FieldList) {
        info.push("gmem_xfer_bytes(B)", self.ddr_bytes);
        info.push("gmem_dma_data_size(B)", self.ddr_bytes);
        info.push("lmem_xfer_bytes", self.local_bytes);
        info.push("lmem_dma_data_size(B)", self.local_bytes);
    }

    fn transactions(&self, dma: &DmaDetail, info: &mut FieldList) {
        let local =
            u64::from(self.counters.gif_write_valid) + u64::from(self.counters.gif_read_valid);
        info.push("gmem_xact_cnt", dma.transactions);
        info.push("lmem_xact_cnt", local);
    }
}

/// The registers of a command, with the names of addresses made one.
fn registers(view: &View, info: &mut FieldList) {
    let Some(decoded) = view.decoded else { return };
    for field in &decoded.layout.fields {
        let key = match field.name {
            "dst_start_addr_h32" => "dst_start_addr_l32",
            "dst_start_addr_l8" => "dst_start_addr_h8",
            "src_start_addr_h32" => "src_start_addr_l32",
            "src_start_addr_l8" => "src_start_addr_h8",
            name => name,
        };
        let value = decoded.value(field.name);
        if key == field.name {
            info.push(key, value)
        } else {
            info.set(key, value)
        }
    }
}

fn int(info: &FieldList, key: &str) -> i128 {
    match info.get(key) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    }
}

/// Puts keys that a command may lack: 0 then.
fn ensure(info: &mut FieldList, keys: &[&'static str]) {
    for &key in keys {
        let value = int(info, key);
        info.set(key, value);
    }
}

/// Addresses of their upper part (`high` is how its key ends) and their lower 32 bits.
fn addresses(info: &mut FieldList, high: &str, keys: &[&'static str]) {
    for &key in keys {
        let high = int(info, &format!("{key}_{high}"));
        let address = (high << 32) + int(info, &format!("{key}_l32"));
        info.set(key, address);
    }
}

const BURSTS: [&str; 4] = [
    "gmem_bl_sum",
    "gmem_avg_burst_length",
    "lmem_bl_sum",
    "lmem_avg_burst_length",
];
const MASKED: [&str; 4] = [
    "lmem_msk_wr_cnt",
    "gmem_msk_wr_cnt",
    "lmem_n32Ba_sa_cnt",
    "gmem_n32Ba_sa_cnt",
];

fn zeros(info: &mut FieldList, keys: &[&'static str]) {
    for &key in keys {
        info.push(key, 0u32);
    }
}

/// Keys that the vendor's spreadsheet expects, without content.
fn placeholders(info: &mut FieldList) {
    for (key, value) in [
        ("funcName", " "),
        ("layer_ID", ""),
        ("index", " "),
        ("Msg Id", " "),
        ("Sd\\Wt Count", " "),
        ("mask_data_format", " "),
    ] {
        info.push(key, value);
    }
}
