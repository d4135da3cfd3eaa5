//! All that is known of an event as keys and values, in the order of bigTpuProfile's RegInfo files.
//!
//! Each chip, and within a chip commands known whole or by their node only, has its own list. Values that bigTpuProfile
//! makes up where nothing is known (direction, element type) are `unknown` here.

use std::borrow::Cow;
use std::fmt;

use crate::chip::Chip;
use crate::input::nodes::{Mode, NONE, node_function, node_info, node_task};
use crate::input::pmu::{DmaCounters, WideDmaCounters, word};
use crate::matching::event::Link;
use crate::report::Engine;
use crate::view::{Detail, DmaDetail, Memory, View, percent, round4};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Whole.
    Int(i128),
    /// Not whole; printed with a decimal point always.
    Float(f64),
    /// Text.
    Text(Cow<'static, str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(value) => f.write_str(value),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Value {
        Value::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Value {
        Value::Text(Cow::Borrowed(value))
    }
}

impl From<Cow<'static, str>> for Value {
    fn from(value: Cow<'static, str>) -> Value {
        Value::Text(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(Cow::Owned(value))
    }
}

/// Keys and values in order, each key once.
#[derive(Debug, Clone, Default)]
pub struct FieldList(pub Vec<(&'static str, Value)>);

impl FieldList {
    /// Appends a key that is not there yet.
    fn push(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    /// Sets a key that may be there; it keeps its place then.
    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value.into(),
            None => self.push(key, value),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    }
}

/// All fields of an event: those of the record, and those of the TIU command, which RegInfo files list apart.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// The event.
    pub info: FieldList,
    /// The TIU command or node.
    pub command: FieldList,
}

/// The fields of an event.
pub fn fields(view: &View) -> Fields {
    let mut fields = Fields::default();
    match &view.detail {
        Detail::Tiu(_) => tiu(view, &mut fields),
        Detail::Dma(dma) => {
            let info = &mut fields.info;
            match (view.chip, view.decoded.is_some()) {
                (Chip::Aks | Chip::Aksv, true) => dma_aks_whole(view, dma, info),
                (Chip::Bm1688, true) => dma_bm1688_whole(view, dma, info),
                (Chip::Cv84x6, true) => dma_cv84x6_whole(view, dma, info),
                (Chip::Cv84x6, false) => dma_cv84x6_node(view, dma, info),
                (_, false) => dma_node(view, dma, info),
            }
        }
    }
    tail(view, &mut fields.info);
    fields
}

/// What every event ends with.
fn tail(view: &View, info: &mut FieldList) {
    info.set("Global Idx", view.index as u64);
    match view.event.core {
        Some(core) => info.set("Core Id", core),
        None => info.set("Core Id", "None"),
    }
    if let Some(mode) = view.event.tags.mode.name() {
        info.push("mode", mode);
    }
    if let (Some(kernel), Some(scope)) = (view.kernel, view.scope) {
        info.push("kernel_func", kernel.to_string());
        info.push("func_scope_id", scope);
    }
    if view.event.tags.batch != NONE {
        info.push("batch_launch", view.event.tags.batch);
    }
}

fn tiu(view: &View, fields: &mut Fields) {
    let info = &mut fields.info;
    let cv = view.chip == Chip::Cv84x6;
    let event = view.event;
    let cycles = event.cycles as f64;
    let ops = view.ops().unwrap_or_default();
    let Some(decoded) = view.decoded else {
        if cv {
            info.push("Engine Id", 0u32);
            times(view, info);
        }
        info.push("Function Type", view.kind.clone());
        info.push("Function Name", view.name.clone());
        if cv {
            let conflicts = word(view.record, 3) >> 1;
            info.push("Bank Conflict Cycle", conflicts);
            info.push(
                "Bank Conflict Ratio",
                percent(f64::from(conflicts) / cycles, 1),
            );
            info.push("Thread Id", word(view.record, 3) & 1);
            info.push("Alg Ops", 1u32);
            info.push("uArch Ops", 1u32);
            info.push("Alg Cycle", 0u32);
            info.push("uArch Rate", "0.0%");
            info.push("Sim Power(W)", 0u32);
        } else {
            times(view, info);
            info.push("Engine Id", 0u32);
            info.push("Alg Ops", 1u32);
            info.push("uArch Ops", 1u32);
            info.push("Alg Cycle", 0u32);
            info.push("uArch Rate", "0.0%");
        }
        node_fields(view, &mut fields.command);
        return;
    };
    for field in &decoded.layout.fields {
        // The names live as long as the program: the tables are never dropped.
        fields
            .command
            .push(&field.des_name, decoded.value(field.name));
    }
    if view.chip != Chip::Aks && view.chip != Chip::Aksv {
        let message = decoded.layout.name == "SYS" && view.function / 2 == 4;
        let imm = if message { decoded.value("imm") } else { 0 };
        fields.command.push("Msg Id", imm & 0x7f);
        fields.command.push("Sd\\Wt Count", imm >> 16 & 7);
    }
    info.push("Function Name", view.name.clone());
    info.push("Function Type", view.kind.clone());
    times(view, info);
    info.push("Engine Id", 0u32);
    info.push("Alg Ops", ops.alg_ops);
    info.push("uArch Ops", ops.uarch_ops);
    match view.chip {
        Chip::Aks | Chip::Aksv => {
            info.push("uArch Rate", view.uarch_rate());
            info.push("Alg Cycle", ops.alg_cycles);
        }
        Chip::Bm1688 | Chip::Cv84x6 => {
            info.push("Alg Cycle", ops.alg_cycles);
            info.push(
                "uArch Rate",
                percent(ops.alg_ops as f64 / ops.uarch_ops.max(1) as f64, 1),
            );
            info.push(
                "Initial Cycle Ratio",
                percent(ops.initial_cycles as f64 / (cycles + 1e-4), 1),
            );
            let conflicts = if cv {
                i128::from(word(view.record, 3) >> 1)
            } else {
                ops.bank_conflict_cycles
            };
            if cv {
                info.push("Bank Conflict Cycle", conflicts);
            }
            info.push(
                "Bank Conflict Ratio",
                percent(conflicts as f64 / (cycles + 1e-4), 1),
            );
            if cv {
                info.push("Thread Id", word(view.record, 3) & 1);
            }
            info.push("Sim Power(W)", 0u32);
        }
    }
}

/// The bits of a TIU node; without one, those of a node that stands for the guess.
fn node_fields(view: &View, list: &mut FieldList) {
    let (kind, engine, info) = match view.event.link {
        Link::Node { word, .. } => (word & 0x7f, word >> 7 & 7, node_info(word)),
        _ => (0, 0, 0),
    };
    let (task, function) = match view.event.link {
        Link::Node { word, .. } => (node_task(word), node_function(word)),
        _ => (view.task, view.function),
    };
    list.push("type", kind);
    list.push("engine", engine);
    list.push("des_tsk_typ", task);
    list.push("des_tsk_eu_typ", function);
    list.push("extra_info", info);
    let generated = view.chip == Chip::Cv84x6 && view.event.tags.mode == Mode::Rvt;
    if !generated && view.kind != "sys" {
        list.push("des_opt_res0_prec", info & 0x7f);
    }
}

fn times(view: &View, info: &mut FieldList) {
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Asic Cycle", view.event.cycles);
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

/// AKS family and BM1688, known by node.
fn dma_node(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    let cdma = view.stream.engine == Engine::Cdma;
    info.push("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    element_type(dma, info);
    info.push("cmd_type", view.task);
    info.push("cmd_special_function", view.function);
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Data Type", view.data_type());
    info.push("Asic Cycle", view.event.cycles);
    info.push("Stall Cycle", if cdma { 0 } else { dma.stall_cycles });
    info.push("DMA data size(B)", dma.bytes);
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
    info.push("gmem_xact_cnt", dma.transactions);
    info.push("L2M Bandwidth(GB/s)", 0u32);
    info.push("dst_start_addr", 0u32);
    info.push("src_start_addr", 0u32);
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

fn ensure(info: &mut FieldList, key: &'static str) {
    let value = int(info, key);
    info.set(key, value);
}

fn dma_aks_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    ensure(info, "mask_start_addr_h8");
    ensure(info, "mask_start_addr_l32");
    for (key, high, low) in [
        ("dst_start_addr", "dst_start_addr_h13", "dst_start_addr_l32"),
        ("src_start_addr", "src_start_addr_h13", "src_start_addr_l32"),
    ] {
        let address = (int(info, high) << 32) + int(info, low);
        info.set(key, address);
    }
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Data Type", view.data_type());
    info.push("Asic Cycle", view.event.cycles);
    info.push(
        "Stall Cycle",
        if view.stream.engine == Engine::Cdma {
            0
        } else {
            dma.stall_cycles
        },
    );
    info.push("DMA data size(B)", dma.bytes);
    info.push("gmem_xact_cnt", dma.transactions);
    let has = |memory| dma.from == memory || dma.to == memory;
    if has(Memory::Ddr) {
        info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
        info.push("L2M Bandwidth(GB/s)", 0u32);
    } else {
        info.push("DDR Bandwidth(GB/s)", 0u32);
        match dma.l2_gbps {
            Some(rate) => info.push("L2M Bandwidth(GB/s)", rate),
            None => info.push("L2M Bandwidth(GB/s)", 0u32),
        }
    }
}

fn dma_bm1688_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    ensure(info, "mask_start_addr_h8");
    ensure(info, "mask_start_addr_l32");
    let system = view.decoded.is_some_and(|d| d.layout.name == "sDMA_sys");
    if system {
        for key in [
            "dst_start_addr",
            "src_start_addr",
            "src_start_addr_h8",
            "dst_start_addr_h8",
        ] {
            info.set(key, 0u32);
        }
    } else {
        for (key, high, low) in [
            ("dst_start_addr", "dst_start_addr_h8", "dst_start_addr_l32"),
            ("src_start_addr", "src_start_addr_h8", "src_start_addr_l32"),
        ] {
            let address = (int(info, high) << 32) + int(info, low);
            info.set(key, address);
        }
    }
    let counters = WideDmaCounters::read(view.record);
    let duration = view.duration_ns().max(1) as f64;
    let rate = |bytes: u64| round4(bytes as f64 / duration);
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Data Type", view.data_type());
    info.push("Asic Cycle", view.event.cycles);
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
    for key in [
        "gmem_bl_sum",
        "gmem_avg_burst_length",
        "lmem_bl_sum",
        "lmem_avg_burst_length",
        "L2M Bandwidth(GB/s)",
    ] {
        info.push(key, 0u32);
    }
    placeholders(
        info,
        &[
            "lmem_msk_wr_cnt",
            "gmem_msk_wr_cnt",
            "lmem_n32Ba_sa_cnt",
            "gmem_n32Ba_sa_cnt",
        ],
    );
    for key in ["index_shape", "src_shape", "dst_shape"] {
        info.set(key, "(1, 128, 128 ,9)(FP32)(147456, 1152, 9, 1)");
    }
}

/// Keys that the vendor's spreadsheet expects, without content.
fn placeholders(info: &mut FieldList, zeros: &[&'static str]) {
    for key in zeros {
        info.push(key, 0u32);
    }
    info.push("funcName", " ");
    info.push("layer_ID", "");
    info.push("index", " ");
    info.push("Msg Id", " ");
    info.push("Sd\\Wt Count", " ");
    info.push("mask_data_format", " ");
}

fn dma_cv84x6_whole(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    registers(view, info);
    for key in [
        "src_start_addr_h13",
        "src_start_addr_l32",
        "dst_start_addr_h13",
        "dst_start_addr_l32",
    ] {
        ensure(info, key);
    }
    let system = view.decoded.is_some_and(|d| d.layout.name == "sDMA_sys");
    for (key, high, low) in [
        ("src_start_addr", "src_start_addr_h13", "src_start_addr_l32"),
        ("dst_start_addr", "dst_start_addr_h13", "dst_start_addr_l32"),
    ] {
        let address = if system {
            0
        } else {
            (int(info, high) << 32) + int(info, low)
        };
        info.set(key, address);
    }
    info.set("Engine Id", view.stream.engine.id());
    direction(view, dma, info);
    info.set("cmd_type", view.task);
    info.set("cmd_special_function", view.function);
    info.push("Function Type", view.kind.clone());
    info.push("Function Name", view.name.clone());
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Data Type", view.data_type());
    element_type(dma, info);
    info.push("Asic Cycle", view.event.cycles);
    let c = DmaCounters::read(view.record);
    info.push("Thread Id", c.thread);
    info.push("AR Latency Cycle", c.ar_latency);
    info.push("Stall Cycle", dma.stall_cycles);
    let (ddr_bytes, local) = cv84x6_bytes(dma, &c);
    info.push("gmem_xfer_bytes(B)", ddr_bytes);
    info.push("gmem_dma_data_size(B)", ddr_bytes);
    info.push("lmem_xfer_bytes", local);
    info.push("lmem_dma_data_size(B)", local);
    info.push("DMA data size(B)", dma.bytes);
    let duration = view.duration_ns().max(1) as f64;
    info.push("gmem_bandwidth", dma.ddr_gbps);
    info.push("lmem_bandwidth", round4(dma.bytes as f64 / duration));
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
    info.push("gmem_xact_cnt", dma.transactions);
    info.push(
        "lmem_xact_cnt",
        u64::from(c.gif_write_valid) + u64::from(c.gif_read_valid),
    );
    for key in [
        "gmem_bl_sum",
        "gmem_avg_burst_length",
        "lmem_bl_sum",
        "lmem_avg_burst_length",
    ] {
        info.push(key, 0u32);
    }
    info.push("L2M Bandwidth(GB/s)", dma.l2_gbps.unwrap_or(0.0));
    placeholders(
        info,
        &[
            "lmem_msk_wr_cnt",
            "gmem_msk_wr_cnt",
            "lmem_n32Ba_sa_cnt",
            "gmem_n32Ba_sa_cnt",
        ],
    );
}

fn cv84x6_bytes(dma: &DmaDetail, counters: &DmaCounters) -> (u64, u64) {
    let ddr = [dma.from, dma.to]
        .iter()
        .any(|m| matches!(m, Memory::Ddr | Memory::Unknown));
    let local = u64::from(counters.gif_write_bytes) + u64::from(counters.gif_read_bytes);
    (if ddr { dma.bytes } else { 0 }, local)
}

fn dma_cv84x6_node(view: &View, dma: &DmaDetail, info: &mut FieldList) {
    info.push("Engine Id", view.stream.engine.id());
    times(view, info);
    direction(view, dma, info);
    let generated = view.event.tags.mode == Mode::Rvt;
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
    let c = DmaCounters::read(view.record);
    info.push("Thread Id", c.thread);
    info.push("AR Latency Cycle", c.ar_latency);
    info.push("Stall Cycle", dma.stall_cycles);
    let (ddr_bytes, local) = cv84x6_bytes(dma, &c);
    info.push("DMA data size(B)", dma.bytes);
    info.push("gmem_xfer_bytes(B)", ddr_bytes);
    info.push("gmem_dma_data_size(B)", ddr_bytes);
    info.push("lmem_xfer_bytes", local);
    info.push("lmem_dma_data_size(B)", local);
    let duration = view.duration_ns().max(1) as f64;
    info.push("gmem_bandwidth", dma.ddr_gbps);
    info.push("lmem_bandwidth", round4(dma.bytes as f64 / duration));
    info.push("DDR Bandwidth(GB/s)", dma.ddr_gbps);
    info.push("L2M Bandwidth(GB/s)", dma.l2_gbps.unwrap_or(0.0));
    info.push("gmem_xact_cnt", dma.transactions);
    info.push(
        "lmem_xact_cnt",
        u64::from(c.gif_write_valid) + u64::from(c.gif_read_valid),
    );
    for key in [
        "gmem_bl_sum",
        "gmem_avg_burst_length",
        "lmem_bl_sum",
        "lmem_avg_burst_length",
    ] {
        info.push(key, 0u32);
    }
    for key in [
        "lmem_msk_wr_cnt",
        "gmem_msk_wr_cnt",
        "lmem_n32Ba_sa_cnt",
        "gmem_n32Ba_sa_cnt",
    ] {
        info.push(key, 0u32);
    }
    info.push("dst_start_addr", 0u32);
    info.push("src_start_addr", 0u32);
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
