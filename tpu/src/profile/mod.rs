//! A dump after reading, matching and conversion to one clock: the input of analysis and exports.

mod events;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::chip::Chip;
use crate::input::core::CoreFile;
use crate::input::global::GlobalProfile;
use crate::input::layers::Layers;
use crate::input::source::SourceFile;
use crate::matching::event::Event;
use crate::report::{Engine, Report, Stream};
pub use events::EventList;

/// The runtime's records besides the PMU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureMode {
    /// Mode 0: nothing, so the kind of command is unknown.
    PmuOnly,
    /// Mode 1: a word per command.
    Nodes,
    /// Mode 2: each command whole.
    Details,
    /// A compiled model with its descriptors.
    Bmodel,
}

impl CaptureMode {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            CaptureMode::PmuOnly => "0 (PMU only)",
            CaptureMode::Nodes => "1 (commands)",
            CaptureMode::Details => "2 (detailed commands)",
            CaptureMode::Bmodel => "bmodel",
        }
    }
}

/// One core.
#[derive(Debug)]
pub struct CoreProfile {
    /// Its number, from the file's name.
    pub number: u32,
    /// The file, with decoded commands and kernel names.
    pub file: CoreFile,
    /// Events of TIU, GDMA, SDMA in order of time.
    pub events: [EventList; 3],
    /// Number of this core's first kernel launch among those of all cores.
    pub scope_base: u32,
}

/// One chip-to-chip port.
#[derive(Debug)]
pub struct PortProfile {
    /// Its number, from the file's name.
    pub number: u32,
    /// The file.
    pub file: SourceFile,
    /// Events in order.
    pub events: EventList,
}

/// A dump.
#[derive(Debug)]
pub struct Profile {
    /// Its folder.
    pub path: PathBuf,
    /// The chip.
    pub chip: Chip,
    /// The content of the record.
    pub mode: CaptureMode,
    /// `global.profile`.
    pub global: GlobalProfile,
    /// TIU clock used, MHz.
    pub tiu_mhz: f64,
    /// DMA clock used, MHz.
    pub dma_mhz: f64,
    /// Cores by number.
    pub cores: Vec<CoreProfile>,
    /// Ports by number.
    pub ports: Vec<PortProfile>,
    /// Layers of the model, if its files are there.
    pub layers: Option<Layers>,
    /// End of the last record in ns, before sync records were left out; the anchor for host traces.
    pub tail_ns: Option<i64>,
    /// The account of matched, guessed and lost records.
    pub report: Report,
    /// The span of all events, computed on first use.
    pub(crate) span_ns: OnceLock<Option<(i64, i64)>>,
}

impl Profile {
    /// The core with this number.
    pub fn core(&self, number: u32) -> Option<&CoreProfile> {
        self.cores.iter().find(|core| core.number == number)
    }

    /// All streams with their events, core by core, then ports.
    pub fn streams(&self) -> impl Iterator<Item = (Stream, &[Event])> {
        let of_cores = self.cores.iter().flat_map(|core| {
            Engine::OF_CORE.into_iter().map(|engine| {
                (
                    Stream::new(engine, core.number),
                    &*core.events[engine.slot()],
                )
            })
        });
        let of_ports = self
            .ports
            .iter()
            .map(|port| (Stream::new(Engine::Cdma, port.number), &*port.events));
        of_cores.chain(of_ports)
    }

    /// First start and last end of all events in ns, if there are any.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        *self.span_ns.get_or_init(|| {
            let lists = self.cores.iter().flat_map(|core| &core.events);
            let mut span: Option<(i64, i64)> = None;
            for list in lists.chain(self.ports.iter().map(|port| &port.events)) {
                for event in list {
                    let (first, last) = span.unwrap_or((event.start_ns, event.end_ns));
                    span = Some((first.min(event.start_ns), last.max(event.end_ns)));
                }
                list.release();
            }
            span
        })
    }

    /// Releases the memory of events that are in files.
    pub fn release(&self) {
        for core in &self.cores {
            core.file.file.release();
            core.events.iter().for_each(EventList::release);
        }
        for port in &self.ports {
            port.file.release();
            port.events.release();
        }
    }

    /// The dump's folder name.
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(
            || self.path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        )
    }
}
