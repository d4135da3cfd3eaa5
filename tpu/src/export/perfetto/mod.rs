//! Perfetto trace, with the tracks, names and arguments of bigTpuProfile's, so that its SQL works.
//!
//! `Core N` → Kernel Function, TIU, TIU Utilization, GDMA, GDMA Bandwidth, SDMA; `CDMA` → ports → TX, RX; commands
//! that overlap go to a track "NAME #2". Texts are interned per track, which makes a trace a third of the size and
//! changes nothing that SQL sees. Ids are counted, not random: the same dump gives the same bytes.

mod args;
mod launches;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rayon::prelude::*;

use crate::error::{Result, io_at};
use crate::export::host_trace::HostTrace;
use crate::names::{CdmaLane, cdma_lane};
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::{Detail, View, Viewer};
use args::{Args, KEYS, annotate, is_sync};
use launches::{note_launch, push_or_extend, write_launches};
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
        head.end(&mut track, to + offset_ns, None);
    }
    out.write_all(&head.out.0).map_err(failed())?;
    // A few cores at a time: their packets are kept in memory until they are written, in order.
    let width = rayon::current_num_threads().max(1);
    for cores in profile.cores.chunks(width) {
        let parts: Vec<Vec<u8>> = cores
            .par_iter()
            .map(|core| core_packets(profile, core.number, &shared))
            .collect();
        for part in parts {
            out.write_all(&part).map_err(failed())?;
        }
    }
    if profile.ports.iter().any(|port| !port.events.is_empty()) {
        out.write_all(&cdma_packets(profile, &shared))
            .map_err(failed())?;
    }
    out.flush().map_err(failed())
}

/// Ids of tracks start at these, far enough apart for spill-over tracks.
const CORE_IDS: u64 = 1 << 8;
const CDMA_ID: u64 = 200 << 8;

/// What all tracks need to know.
struct Shared {
    offset_ns: i64,
    /// Kernels that CDMA commands belong to: they are shown with the ports only.
    cdma_kernels: Vec<(String, u32)>,
}

impl Shared {
    fn of(profile: &Profile, offset_ns: i64) -> Shared {
        let mut cdma_kernels = Vec::new();
        for port in &profile.ports {
            let stream = Stream {
                engine: Engine::Cdma,
                number: port.number,
            };
            let Some(viewer) = Viewer::new(profile, stream) else {
                continue;
            };
            for (index, event) in port.events.iter().enumerate() {
                if let Some(kernel) = viewer.view(index, event).kernel {
                    let key = (kernel.to_string(), event.tags.batch);
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

fn core_packets(profile: &Profile, number: u32, shared: &Shared) -> Vec<u8> {
    let Some(core) = profile.core(number) else {
        return Vec::new();
    };
    // About what the packets of an event take; a buffer that grows is copied again and again.
    let bytes = core.events.iter().map(Vec::len).sum::<usize>() * 224;
    let mut writer = Writer::new(CORE_IDS * (u64::from(number) + 1), bytes, &KEYS);
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
    let mut launches = Vec::new();
    let tracks = [
        (Engine::Tiu, Some(tiu)),
        (Engine::Gdma, Some(gdma)),
        (Engine::Sdma, sdma),
    ];
    for (engine, track) in tracks {
        let stream = Stream { engine, number };
        let (Some(track), Some(viewer)) = (track, Viewer::new(profile, stream)) else {
            continue;
        };
        let events = &core.events[engine.slot()];
        let slices: Vec<Slice<usize>> = events
            .iter()
            .enumerate()
            .map(|(index, event)| Slice {
                start_ns: event.start_ns + shared.offset_ns,
                end_ns: event.end_ns + shared.offset_ns,
                args: index,
            })
            .collect();
        writer.lanes(track, slices, |writer, track, slice| {
            let view = viewer.view(slice.args, &events[slice.args]);
            write_command(writer, track, slice, &view);
            let counted = match &view.detail {
                Detail::Tiu(tiu) => {
                    let rate = match tiu.ops {
                        Some(_) if !is_sync(&view) => view
                            .uarch_rate()
                            .trim_end_matches('%')
                            .parse()
                            .unwrap_or(0.0),
                        _ => 0.0,
                    };
                    Some((&utilisation, rate))
                }
                Detail::Dma(dma) if engine == Engine::Gdma => {
                    Some((&bandwidth, if is_sync(&view) { 0.0 } else { dma.ddr_gbps }))
                }
                Detail::Dma(_) => None,
            };
            if let Some((counter, value)) = counted {
                writer.count(counter, slice.start_ns, value);
                writer.count(counter, slice.end_ns, 0.0);
            }
            let with_ports = |kernel: &str| {
                shared
                    .cdma_kernels
                    .iter()
                    .any(|(k, batch)| k == kernel && *batch == view.event.tags.batch)
            };
            if view.kernel.is_some_and(|kernel| !with_ports(kernel)) {
                push_or_extend(&mut launches, &view, shared.offset_ns);
            }
        });
    }
    write_launches(&mut writer, kernels, launches);
    writer.out.0
}

fn write_command(writer: &mut Writer, track: &mut TrackState, slice: &Slice<usize>, view: &View) {
    let kind = Some(&*view.kind);
    writer.begin(track, slice.start_ns, &view.name, kind, |track, out| {
        annotate(view, &mut Args { track, out })
    });
    writer.end(track, slice.end_ns, kind);
}

fn cdma_packets(profile: &Profile, shared: &Shared) -> Vec<u8> {
    let mut writer = Writer::new(CDMA_ID, 0, &KEYS);
    let parent = writer.track("CDMA", None, Order::Free, false);
    for port in profile.ports.iter().filter(|port| !port.events.is_empty()) {
        let stream = Stream {
            engine: Engine::Cdma,
            number: port.number,
        };
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
                write_command(writer, track, slice, &view);
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
            writer.end(track, slice.end_ns, None);
        });
    }
}
