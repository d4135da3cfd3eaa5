//! What an event means: names, codes, bytes, bandwidths, operations, from its record, its command and its chip.
//!
//! [`View`] is typed and cheap, for analysis, traces and the page; [`fields`] gives all of it and every register as
//! the keys and values of RegInfo files. Formulas are those of bigTpuProfile 0.3.7.

pub mod fields;

use std::borrow::Cow;

use crate::chip::Chip;
use crate::input::core::{CoreFile, SourceFile};
use crate::input::nodes::{Mode, NONE, node_function, node_info, node_task};
use crate::input::pmu::{CdmaCounters, DmaCounters, WideDmaCounters, record_bytes};
use crate::matching::event::{Event, Link, SyncGuess};
use crate::names::{self, CDMA_SYS, DMA_SYS, TIU_SYS, UNKNOWN};
use crate::ops::{TiuOps, tiu_ops};
use crate::profile::Profile;
use crate::regs::{Layout, Table, rvt_name};
use crate::report::{Engine, Stream};

/// A memory that a transfer reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// Global memory.
    Ddr,
    /// The chip's shared memory.
    L2,
    /// A core's local memory.
    Local,
    /// No command says.
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

    fn of_code(code: u32) -> Memory {
        match code {
            0 => Memory::Ddr,
            1 => Memory::L2,
            2 => Memory::Local,
            _ => Memory::Unknown,
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

/// What kind of waiting a command is, if it is no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Work.
    Work,
    /// A sync command that does not wait.
    Sync,
    /// A sync command that waits.
    Wait,
}

/// Details of a TIU event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TiuDetail {
    /// Operations, if the whole command is known.
    pub ops: Option<TiuOps>,
    /// Code of the element type, if a command is known.
    pub dtype: Option<u32>,
}

/// Details of a DMA event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DmaDetail {
    /// Where from.
    pub from: Memory,
    /// Where to.
    pub to: Memory,
    /// Code of the element type, if a command with one is known.
    pub dtype: Option<u32>,
    /// Bytes moved, as the counters say.
    pub bytes: u64,
    /// Bandwidth to global memory in GB/s, as RegInfo files have it.
    pub ddr_gbps: f64,
    /// Bandwidth to shared memory in GB/s; `None` where RegInfo files have a bare 0.
    pub l2_gbps: Option<f64>,
    /// Stalled cycles.
    pub stall_cycles: u64,
    /// Transactions to global memory.
    pub transactions: u64,
}

/// Details by kind of engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// Of the TIU.
    Tiu(TiuDetail),
    /// Of GDMA, SDMA and CDMA.
    Dma(DmaDetail),
}

/// The decoded command of an event.
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    /// Its layout.
    pub layout: &'static Layout,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its function's name.
    pub name: &'static str,
}

impl Decoded<'_> {
    /// A field's value, 0 if it has none of that name.
    pub fn value(&self, field: &str) -> u64 {
        self.layout.value(self.bytes, field)
    }

    /// A field's value, if it has it.
    pub fn get(&self, field: &str) -> Option<u64> {
        self.layout.get(self.bytes, field)
    }
}

/// An event with its meaning.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Whose.
    pub stream: Stream,
    /// The event.
    pub event: &'a Event,
    /// Its place among the events of its stream.
    pub index: usize,
    /// Type of function.
    pub kind: Cow<'static, str>,
    /// Name of function.
    pub name: Cow<'static, str>,
    /// Code of the type; [`UNKNOWN`] without command.
    pub task: u32,
    /// Code of the function.
    pub function: u32,
    /// Work or waiting.
    pub role: Role,
    /// By engine.
    pub detail: Detail,
    /// The decoded command, if it is known whole.
    pub decoded: Option<Decoded<'a>>,
    /// Name of the kernel.
    pub kernel: Option<&'a str>,
    /// Number of the kernel's launch in the dump.
    pub scope: Option<u32>,
    /// The record's bytes.
    pub record: &'a [u8],
    pub(crate) chip: Chip,
}

impl<'a> View<'a> {
    /// `DDR->LMEM` and the like, for DMA.
    pub fn direction(&self) -> Option<&'static str> {
        self.dma()
            .map(|dma| direction_name(dma.from, dma.to, self.chip))
    }

    /// The DMA details.
    pub fn dma(&self) -> Option<&DmaDetail> {
        match &self.detail {
            Detail::Dma(dma) => Some(dma),
            Detail::Tiu(_) => None,
        }
    }

    /// The operations of a TIU event whose command is known whole.
    pub fn ops(&self) -> Option<TiuOps> {
        match self.detail {
            Detail::Tiu(tiu) => tiu.ops,
            Detail::Dma(_) => None,
        }
    }

    /// Command id as reports count it: from 1.
    pub fn command_id(&self) -> u64 {
        u64::from(self.event.id) + u64::from(self.stream.engine != Engine::Cdma)
    }

    /// Duration in ns.
    pub fn duration_ns(&self) -> i64 {
        self.event.end_ns - self.event.start_ns
    }

    /// Share of the hardware's operations that the algorithm needs, as text.
    pub fn uarch_rate(&self) -> String {
        match self.ops() {
            Some(ops) if ops.uarch_ops != 0 => {
                percent(ops.alg_ops as f64 / ops.uarch_ops as f64, 1)
            }
            Some(ops) if matches!(self.chip, Chip::Bm1688 | Chip::Cv84x6) => {
                percent(ops.alg_ops as f64, 1)
            }
            _ => "0.0%".to_string(),
        }
    }

    /// Name of the element type; empty if the command has none.
    pub fn data_type(&self) -> &'static str {
        let Detail::Dma(dma) = &self.detail else {
            return "";
        };
        match dma.dtype {
            Some(code) => names::data_type(code).unwrap_or(if self.chip == Chip::Cv84x6 {
                "INT8"
            } else {
                "unknown"
            }),
            None if self.event.link == Link::None => "unknown",
            None => "",
        }
    }
}

/// `ratio` as a percentage with this many digits.
pub fn percent(ratio: f64, digits: usize) -> String {
    format!("{:.digits$}%", ratio * 100.0)
}

/// Rounds to four digits as decimal notation would.
pub fn round4(value: f64) -> f64 {
    let scaled = value * 1e4;
    let near = scaled.round_ties_even();
    if (scaled - near).abs() < 0.499_999 && near.abs() < 1e15 {
        return near / 1e4;
    }
    format!("{value:.4}").parse().unwrap_or(value)
}

/// Makes views of one stream.
pub struct Viewer<'a> {
    profile: &'a Profile,
    stream: Stream,
    records: &'a SourceFile,
    core: Option<&'a CoreFile>,
    size: usize,
}

impl<'a> Viewer<'a> {
    /// For a stream of a profile; `None` if the profile has none of that number.
    pub fn new(profile: &'a Profile, stream: Stream) -> Option<Viewer<'a>> {
        let (records, core) = match stream.engine {
            Engine::Cdma => (
                &profile
                    .ports
                    .iter()
                    .find(|p| p.number == stream.number)?
                    .file,
                None,
            ),
            _ => {
                let core = profile.core(stream.number)?;
                (&core.file.file, Some(&core.file))
            }
        };
        Some(Viewer {
            profile,
            stream,
            records,
            core,
            size: record_bytes(profile.chip, stream.engine),
        })
    }

    /// The view of an event of this stream, the `index`-th.
    pub fn view(&self, index: usize, event: &'a Event) -> View<'a> {
        let chip = self.profile.chip;
        let record = self.records.slice(event.offset, self.size);
        let of_event = || event.core.and_then(|number| self.profile.core(number));
        let core = self.core.or_else(|| of_event().map(|core| &core.file));
        let (kernel, scope) = match (event.tags.scope, of_event()) {
            (NONE, _) | (_, None) => (None, None),
            (scope, Some(core)) => (
                core.file.scopes.get(scope as usize).map(String::as_str),
                Some(scope + core.scope_base),
            ),
        };
        let decoded = core.and_then(|core| decoded(chip, core, event));
        let mut view = View {
            stream: self.stream,
            event,
            index,
            kind: Cow::Borrowed(""),
            name: Cow::Borrowed(""),
            task: UNKNOWN,
            function: 0,
            role: Role::Work,
            detail: Detail::Tiu(TiuDetail {
                ops: None,
                dtype: None,
            }),
            decoded,
            kernel,
            scope,
            record,
            chip,
        };
        match self.stream.engine {
            Engine::Tiu => fill_tiu(&mut view),
            _ => fill_dma(&mut view),
        }
        view
    }
}

fn decoded<'a>(chip: Chip, core: &'a CoreFile, event: &Event) -> Option<Decoded<'a>> {
    let number = match event.link {
        Link::Descriptor(number) => number,
        Link::Node { detail, .. } if detail != NONE => detail,
        _ => return None,
    };
    let found = core.pool.get(number as usize)?;
    let table = Table::of(chip);
    Some(Decoded {
        layout: table.layout(found.op),
        bytes: core.command_bytes(chip, found),
        name: table.name(found.name),
    })
}

fn codes_of_guess(view: &View, sync_code: u32, send: u32, wait: u32) -> (u32, u32) {
    match view.event.sync {
        SyncGuess::Send => (sync_code, send),
        SyncGuess::Wait => (sync_code, wait),
        SyncGuess::None => (UNKNOWN, 0),
    }
}

fn fill_tiu(view: &mut View) {
    let rvt = view.event.tags.mode == Mode::Rvt;
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
        (view.task, view.function) = match view.event.link {
            Link::Node { word, .. } => {
                dtype = Some(node_info(word) & 0x7f);
                (node_task(word), node_function(word))
            }
            _ => codes_of_guess(view, TIU_SYS, 8, 9),
        };
        (view.kind, view.name) = match view.event.link {
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

/// Memories of a decoded DMA command.
fn memories(chip: Chip, command: &Decoded) -> (Memory, Memory) {
    let system = command.layout.name == "sDMA_sys";
    match chip {
        Chip::Aks | Chip::Aksv => (
            memory_of_tag(command.value("src_start_addr_h13")),
            memory_of_tag(command.value("dst_start_addr_h13")),
        ),
        Chip::Bm1688 => {
            let of = |a: &str, b: &str| {
                let high = if system {
                    0
                } else {
                    command.get(a).or_else(|| command.get(b)).unwrap_or(0)
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
                    (command.value(high) << 32) + command.value(low)
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

fn fill_dma(view: &mut View) {
    let chip = view.chip;
    let engine = view.stream.engine;
    let cdma = engine == Engine::Cdma;
    let sync_code = if cdma { CDMA_SYS } else { DMA_SYS };
    let rvt = view.event.tags.mode == Mode::Rvt;
    let (mut from, mut to, mut dtype) = (Memory::Unknown, Memory::Unknown, None);
    match (view.decoded, view.event.link) {
        (Some(command), _) => {
            (from, to) = memories(chip, &command);
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
    if let (true, Link::Node { word, .. }) = (generated, view.event.link) {
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
    if cdma && view.decoded.is_none() && view.event.link != Link::None {
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
