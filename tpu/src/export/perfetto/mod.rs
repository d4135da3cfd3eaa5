//! Perfetto trace, with the tracks, names and arguments of bigTpuProfile's, so that its SQL works.
//!
//! `Core N` → Kernel Function, TIU, TIU Utilization, GDMA, GDMA Bandwidth, SDMA; `CDMA` → ports → TX, RX; overlapping
//! commands go to a track "NAME #2". Further tracks show layers, and arrows lead from each command to those that waited
//! for it. Texts are interned per track, which reduces a trace to a third of the size and changes nothing that SQL
//! sees. Ids are counted, not random: the same dump gives the same bytes.

mod args;
mod flows;
mod launches;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rayon::prelude::*;

use crate::chip::names::{CdmaLane, cdma_lane};
use crate::error::{Result, io_at};
use crate::export::host_trace::HostTrace;
use crate::profile::{CoreProfile, Profile};
use crate::report::{Engine, Stream};
use crate::view::{Detail, View, Viewer};
use args::{Args, KEYS, annotate, is_sync};
use flows::Flows;
use launches::{Launch, note_launch, push_or_extend, write_launches};
use opreport::trace::{Order, Slice, TrackState, Writer};

/// Writes the trace of a profile, with a host trace merged in if there is one.
pub fn write(profile: &Profile, host: Option<&HostTrace>, path: &Path) -> Result<()> {
    let failed = || io_at(path, "cannot write");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed())?);
    let offset_ns = host.map_or(0, |trace| trace.offset_ns(profile));
    let shared = Shared::of(profile, offset_ns);
    let mut head = Writer::new(1, 0, &KEYS);
    if let Some(trace) = host {
        write_host(trace, &mut head);
    }
    if let Some(headline) = profile.report.headline() {
        let mut track = head.track("NOT WHOLE", None, Order::Free, false);
        let (from, to) = profile.span_ns().unwrap_or_default();
        head.begin(&mut track, from + offset_ns, &headline, None, |_, _| {});
        head.end(&mut track, to + offset_ns);
    }
    out.write_all(&head.out.0).map_err(failed())?;
    // A few cores at a time: their packets are kept in memory until they are written, in order. Those of a long core
    // are written as they come.
    let width = rayon::current_num_threads().max(1);
    // Reused from one core to the next: fresh memory costs more than writing to it.
    let mut parts: Vec<Vec<u8>> = vec![Vec::new(); width];
    let is_long =
        |core: &CoreProfile| core.events.iter().map(|list| list.len()).sum::<usize>() > LONG;
    for cores in profile.cores.chunks(width) {
        if cores.iter().any(is_long) {
            for core in cores {
                let mut buffer = Vec::with_capacity(2 * BUFFER);
                core_packets(profile, core, &shared, &mut buffer, Some(&mut out))
                    .and_then(|()| out.write_all(&buffer))
                    .map_err(failed())?;
            }
            continue;
        }
        cores
            .par_iter()
            .zip(&mut parts)
            .for_each(|(core, packets)| {
                packets.clear();
                // Nothing fails in memory.
                let _ = core_packets(profile, core, &shared, packets, None);
            });
        for part in &parts[..cores.len()] {
            out.write_all(part).map_err(failed())?;
        }
    }
    if profile.ports.iter().any(|port| !port.events.is_empty()) {
        out.write_all(&cdma_packets(profile, &shared))
            .map_err(failed())?;
    }
    out.flush().map_err(failed())
}

/// Cores with more events than this are written one after the other.
const LONG: usize = 1 << 20;

/// Bytes of packets that are written at once: few enough to stay in the cache.
const BUFFER: usize = 256 << 10;

/// Ids of tracks start at these, far enough apart for spill-over tracks.
const CORE_IDS: u64 = 1 << 8;
const CDMA_ID: u64 = 200 << 8;

/// State that all tracks need.
struct Shared {
    offset_ns: i64,
    /// Kernels that CDMA commands belong to: they are shown with the ports only.
    cdma_kernels: Vec<(String, Option<u32>)>,
}

impl Shared {
    fn of(profile: &Profile, offset_ns: i64) -> Shared {
        let mut cdma_kernels = Vec::new();
        for port in &profile.ports {
            let stream = Stream::new(Engine::Cdma, port.number);
            let Some(viewer) = Viewer::new(profile, stream) else {
                continue;
            };
            for view in viewer.views() {
                if let Some(kernel) = view.kernel {
                    let key = (kernel.to_string(), view.event.batch());
                    if !cdma_kernels.contains(&key) {
                        cdma_kernels.push(key);
                    }
                }
            }
        }
        Shared {
            offset_ns,
            cdma_kernels,
        }
    }
}

/// The parts of a core that last longer than a command.
#[derive(Default)]
struct Spans {
    /// Span of each layer, from its first command to its last, nanoseconds of the trace.
    layers: BTreeMap<u32, (i64, i64)>,
    launches: Vec<Launch>,
}

impl Spans {
    fn add(&mut self, profile: &Profile, shared: &Shared, view: &View) {
        let (start_ns, end_ns) = (
            view.event.start_ns + shared.offset_ns,
            view.event.end_ns + shared.offset_ns,
        );
        if let Some(layer) = layer_of(profile, view) {
            let span = self.layers.entry(layer).or_insert((start_ns, end_ns));
            *span = (span.0.min(start_ns), span.1.max(end_ns));
        }
        let with_ports = |kernel: &str| {
            let batch = view.event.batch();
            let mut keys = shared.cdma_kernels.iter();
            keys.any(|(name, of)| name == kernel && *of == batch)
        };
        if view.kernel.is_some_and(|kernel| !with_ports(kernel)) {
            push_or_extend(&mut self.launches, view, shared.offset_ns);
        }
    }
}

/// Puts the packets of a core into `packets`. If `out` is given, packets are written to it as soon as they exceed the
/// cache.
fn core_packets(
    profile: &Profile,
    core: &CoreProfile,
    shared: &Shared,
    packets: &mut Vec<u8>,
    mut out: Option<&mut dyn Write>,
) -> io::Result<()> {
    let number = core.number;
    let events: usize = core.events.iter().map(|list| list.len()).sum();
    if out.is_none() {
        // About what the packets of an event take; a buffer that grows is copied again and again.
        packets.reserve(events * 176);
    }
    let mut written = Ok(());
    let mut writer = Writer::new(CORE_IDS * (u64::from(number) + 1), 0, &KEYS);
    writer.out.0 = std::mem::take(packets);
    let parent = writer.track(&format!("Core {number}"), None, Order::Explicit, false);
    let child = |writer: &mut Writer, name: &str, rank, counter| {
        writer.track(name, Some(parent.id), Order::Ranked(rank), counter)
    };
    let kernels = child(&mut writer, "Kernel Function", 5, false);
    let tiu = child(&mut writer, "TIU", 4, false);
    let utilisation = child(&mut writer, "TIU Utilization", 3, true);
    let gdma = child(&mut writer, "GDMA", 2, false);
    let bandwidth = child(&mut writer, "GDMA Bandwidth", 1, true);
    let sdma = (!core.events[Engine::Sdma.slot()].is_empty())
        .then(|| child(&mut writer, "SDMA", 0, false));
    // The flows of a long core would take too much memory, and nobody could see them.
    let flows = match events {
        0..=LONG => Flows::of(profile, core, u64::from(number + 1) << 40),
        _ => Flows::default(),
    };
    let mut spans = Spans::default();
    let tracks = [
        (Engine::Tiu, Some(tiu)),
        (Engine::Gdma, Some(gdma)),
        (Engine::Sdma, sdma),
    ];
    for (engine, track) in tracks {
        let stream = Stream::new(engine, number);
        let (Some(track), Some(viewer)) = (track, Viewer::new(profile, stream)) else {
            continue;
        };
        let events = &core.events[engine.slot()];
        let slices = events.iter().enumerate().map(|(index, event)| Slice {
            start_ns: event.start_ns + shared.offset_ns,
            end_ns: event.end_ns + shared.offset_ns,
            args: index,
        });
        writer.lanes(track, slices.collect(), |writer, track, slice| {
            let view = viewer.view(slice.args, &events[slice.args]);
            write_command(writer, track, slice, &view, &flows);
            spans.add(profile, shared, &view);
            let counter = match engine {
                Engine::Tiu => Some(&utilisation),
                Engine::Gdma => Some(&bandwidth),
                Engine::Sdma | Engine::Cdma => None,
            };
            if let Some(counter) = counter {
                writer.count(counter, slice.start_ns, rate(&view));
                writer.count(counter, slice.end_ns, 0.0);
            }
            if let Some(out) = out.as_mut().filter(|_| writer.out.0.len() >= BUFFER) {
                let done = out.write_all(&writer.out.0);
                written = std::mem::replace(&mut written, Ok(())).and(done);
                writer.out.0.clear();
                viewer.release();
            }
        });
        viewer.release();
    }
    write_launches(&mut writer, kernels, spans.launches);
    write_layers(profile, &mut writer, parent.id, spans.layers);
    *packets = writer.out.0;
    written
}

/// A command's counter: the TIU's share of useful operations in percent, a DMA engine's GB/s.
fn rate(view: &View) -> f64 {
    match &view.detail {
        _ if is_sync(view) => 0.0,
        Detail::Tiu(tiu) => {
            let rate = tiu.ops.map(|_| view.uarch_rate());
            let number = rate.and_then(|text| text.trim_end_matches('%').parse().ok());
            number.unwrap_or(0.0)
        }
        Detail::Dma(dma) => dma.ddr_gbps,
    }
}

/// Number of a command's layer.
fn layer_of(profile: &Profile, view: &View) -> Option<u32> {
    let layers = profile.layers.as_ref()?;
    let layer = layers.of(view.stream.engine, view.stream.number, view.event.id)?;
    Some(layer.id)
}

/// Writes the layers of a core: each from its first to its last command. bigTpuProfile has no such track.
fn write_layers(
    profile: &Profile,
    writer: &mut Writer,
    parent: u64,
    spans: BTreeMap<u32, (i64, i64)>,
) {
    let (Some(layers), false) = (&profile.layers, spans.is_empty()) else {
        return;
    };
    let names: BTreeMap<u32, (String, &str)> = layers
        .layers
        .iter()
        .map(|layer| {
            (
                layer.id,
                (format!("{} {}", layer.id, layer.name), layer.kind()),
            )
        })
        .collect();
    let track = writer.track("Layers", Some(parent), Order::Ranked(6), false);
    let slices = spans
        .into_iter()
        .map(|(args, (start_ns, end_ns))| Slice {
            start_ns,
            end_ns,
            args,
        })
        .collect();
    writer.lanes(track, slices, |writer, track, slice| {
        let Some((name, kind)) = names.get(&slice.args) else {
            return;
        };
        writer.begin(track, slice.start_ns, name, Some(kind), |_, _| {});
        writer.end(track, slice.end_ns);
    });
}

fn write_command(
    writer: &mut Writer,
    track: &mut TrackState,
    slice: &Slice<usize>,
    view: &View,
    flows: &Flows,
) {
    let kind = Some(&*view.kind);
    writer.begin(track, slice.start_ns, &view.name, kind, |track, out| {
        annotate(view, &mut Args { track, out });
        flows.add(view.stream.engine, view.index, out);
    });
    writer.end(track, slice.end_ns);
}

fn cdma_packets(profile: &Profile, shared: &Shared) -> Vec<u8> {
    let mut writer = Writer::new(CDMA_ID, 0, &KEYS);
    let parent = writer.track("CDMA", None, Order::Free, false);
    for port in profile.ports.iter().filter(|port| !port.events.is_empty()) {
        let stream = Stream::new(Engine::Cdma, port.number);
        let Some(viewer) = Viewer::new(profile, stream) else {
            continue;
        };
        let name = format!("CDMA port{}", port.number);
        let own = writer.track(&name, Some(parent.id), Order::Explicit, false);
        let tx = writer.track(&format!("{name} TX"), Some(own.id), Order::Ranked(1), false);
        let rx = writer.track(&format!("{name} RX"), Some(own.id), Order::Ranked(0), false);
        let kernels = writer.track(
            &format!("{name} Kernel Function"),
            Some(parent.id),
            Order::Ranked(1),
            false,
        );
        let mut lanes: [(TrackState, Vec<Slice<usize>>); 3] =
            [(own, Vec::new()), (tx, Vec::new()), (rx, Vec::new())];
        let mut launches = Vec::new();
        for (index, event) in port.events.iter().enumerate() {
            let view = viewer.view(index, event);
            note_launch(&mut launches, &view, shared.offset_ns);
            let lane = match cdma_lane(&view.name) {
                CdmaLane::Port => 0,
                CdmaLane::Tx => 1,
                CdmaLane::Rx => 2,
            };
            lanes[lane].1.push(Slice {
                start_ns: event.start_ns + shared.offset_ns,
                end_ns: event.end_ns + shared.offset_ns,
                args: index,
            });
        }
        for (track, slices) in lanes {
            writer.lanes(track, slices, |writer, track, slice| {
                let view = viewer.view(slice.args, &port.events[slice.args]);
                write_command(writer, track, slice, &view, &Flows::default());
            });
        }
        write_launches(&mut writer, kernels, launches);
    }
    writer.out.0
}

fn write_host(trace: &HostTrace, writer: &mut Writer) {
    let cpu = writer.track("cpu op", None, Order::Free, false);
    let tpudnn = writer.track("tpudnn op", None, Order::Free, false);
    for (track, of_tpudnn) in [(cpu, false), (tpudnn, true)] {
        let slices: Vec<Slice<&str>> = trace
            .slices
            .iter()
            .filter(|slice| slice.tpudnn == of_tpudnn)
            .map(|slice| Slice {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                args: slice.name.as_str(),
            })
            .collect();
        writer.lanes(track, slices, |writer, track, slice| {
            writer.begin(track, slice.start_ns, slice.args, None, |_, _| {});
            writer.end(track, slice.end_ns);
        });
    }
}
