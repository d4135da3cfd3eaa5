//! The meaning of an event: names, codes, bytes, bandwidths, operations, from its record, its command and its chip.
//!
//! [`View`] is typed and cheap, for analysis, traces and the page. [`fields`] gives all of it and every register as the
//! keys and values of RegInfo files. Formulas are those of bigTpuProfile 0.3.7.

pub mod fields;
mod fill;

use std::borrow::Cow;

use crate::chip::Chip;
pub use crate::chip::memory::Memory;
use crate::chip::memory::direction_name;
use crate::chip::names::{self, UNKNOWN};
use crate::chip::ops::TiuOps;
use crate::chip::regs::{Layout, Table};
use crate::input::core::CoreFile;
use crate::input::nodes::NONE;
use crate::input::pmu::record_bytes;
use crate::input::source::SourceFile;
use crate::matching::event::{Event, Link};
use crate::profile::{EventList, Profile};
use crate::report::{Engine, Stream};
use fill::{fill_dma, fill_tiu};

/// The kind of waiting, if a command does no work.
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
    /// Source.
    pub from: Memory,
    /// Destination.
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
    /// Details of the TIU.
    Tiu(TiuDetail),
    /// Details of GDMA, SDMA and CDMA.
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
    /// The stream that it belongs to.
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
    /// Details of the engine.
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

    /// Id, counted from 1, of the command of the core's other engine (TIU or GDMA) that this one waits for. Only
    /// if the command is known whole and waits for one. The field's upper bits are flags: compiled models set bit
    /// 20.
    pub fn waits_for(&self) -> Option<u32> {
        let field = self.decoded?.get("cmd_id_dep")?;
        let id = (field & 0xf_ffff) as u32;
        (id > 0).then_some(id)
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
            None if self.event.link() == Link::None => "unknown",
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
    events: &'a EventList,
    core: Option<&'a CoreFile>,
    size: usize,
}

/// Number of events after which the memory of mapped files is released.
const AT_ONCE: usize = 1 << 18;

impl<'a> Viewer<'a> {
    /// Opens a stream of a profile; `None` if the profile has none of that number.
    pub fn new(profile: &'a Profile, stream: Stream) -> Option<Viewer<'a>> {
        let (records, events, core) = match stream.engine {
            Engine::Cdma => {
                let port = profile.ports.iter().find(|p| p.number == stream.number)?;
                (&port.file, &port.events, None)
            }
            engine => {
                let core = profile.core(stream.number)?;
                let events = &core.events[engine.slot()];
                (&core.file.file, events, Some(&core.file))
            }
        };
        Some(Viewer {
            profile,
            stream,
            records,
            events,
            core,
            size: record_bytes(profile.chip, stream.engine),
        })
    }

    /// The events of the stream.
    pub fn events(&self) -> &'a [Event] {
        self.events
    }

    /// Views of all events in order. Memory of past events is released on the way, so it does not grow with the stream.
    pub fn views(&self) -> impl Iterator<Item = View<'a>> {
        self.events.iter().enumerate().map(|(index, event)| {
            if index > 0 && index % AT_ONCE == 0 {
                self.release();
            }
            self.view(index, event)
        })
    }

    /// Releases the memory of events that are in files.
    pub fn release(&self) {
        self.records.release();
        self.events.release();
    }

    /// Clock of DMA engines, MHz.
    pub fn dma_mhz(&self) -> f64 {
        self.profile.dma_mhz
    }

    /// The view of an event of this stream, the `index`-th.
    pub fn view(&self, index: usize, event: &'a Event) -> View<'a> {
        let chip = self.profile.chip;
        let record = self.records.slice(event.offset(), self.size);
        let of_event = || event.core().and_then(|number| self.profile.core(number));
        let core = self.core.or_else(|| of_event().map(|core| &core.file));
        let (kernel, scope) = match (event.scope(), of_event()) {
            (None, _) | (_, None) => (None, None),
            (Some(scope), Some(core)) => (
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
    let number = match event.link() {
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
