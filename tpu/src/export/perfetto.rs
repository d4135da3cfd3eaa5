//! Perfetto trace, with the tracks, names and arguments of bigTpuProfile's, so that its SQL works.
//!
//! `Core N` → Kernel Function, TIU, TIU Utilization, GDMA, GDMA Bandwidth, SDMA; `CDMA` → ports → TX, RX; commands
//! that overlap go to a track "NAME #2". Texts are interned per track, which makes a trace a third of the size and
//! changes nothing that SQL sees. Ids are counted, not random: the same dump gives the same bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rayon::prelude::*;

use crate::chip::Chip;
use crate::error::{Result, io_at};
use crate::export::host_trace::HostTrace;
use crate::export::proto::Message;
use crate::input::nodes::NONE;
use crate::names::{CdmaLane, cdma_lane};
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::{Detail, DmaDetail, Memory, View, Viewer};

/// Writes the trace of a profile, with a host trace merged in if there is one.
pub fn write(profile: &Profile, host: Option<&HostTrace>, path: &Path) -> Result<()> {
    let failed = || io_at(path, "cannot write");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed())?);
    let offset_ns = host.map_or(0, |trace| trace.offset_ns(profile));
    let shared = Shared::of(profile, offset_ns);
    let mut head = Writer::new(1, 0);
    if let Some(trace) = host {
        write_host(trace, &mut head);
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

/// A track's place among its siblings.
#[derive(Clone, Copy)]
enum Order {
    /// As the viewer likes.
    Free,
    /// By rank.
    Ranked(i32),
    /// As a parent that ranks its children.
    Explicit,
}

/// Names of arguments: known beforehand, so that no text is looked up for them.
#[rustfmt::skip]
const KEYS: [&str; 38] = [
    "Batch Launch", "Kernel Function", "Function Type", "Function Name", "Mode", "Cmd Id", "uArch Rate",
    "des_cmd_short", "des_cmd_id_dep", "Data Type", "cmd_id_dep", "Direction", "DMA data size(B)",
    "DDR Bandwidth(GB/s)", "L2M Bandwidth(GB/s)", "Global Idx", "src_info", "dst_info", "Func Scope Id",
    "src_start_addr", "src_nsize", "src_csize", "src_hsize", "src_wsize", "src_nstride", "src_cstride",
    "src_hstride", "src_wstride",
    "dst_start_addr", "dst_nsize", "dst_csize", "dst_hsize", "dst_wsize", "dst_nstride", "dst_cstride",
    "dst_hstride", "dst_wstride", "",
];

/// Places in [`KEYS`].
#[derive(Clone, Copy)]
#[repr(usize)]
enum Key {
    Batch,
    Kernel,
    Type,
    Name,
    Mode,
    Id,
    Rate,
    Short,
    TiuDependency,
    DataType,
    Dependency,
    Direction,
    Bytes,
    Ddr,
    L2,
    Index,
    Source,
    Destination,
    Scope,
}

/// First places of the keys of a transfer's two sides: address, then sizes and strides.
const SOURCE: usize = 19;
const DESTINATION: usize = 28;
const SIDE_KEYS: usize = 9;

/// Packets of one sequence of tracks.
struct Writer {
    out: Message,
    body: Message,
    next_id: u64,
}

/// A cheap hash: texts are few and come from the dump's own tables.
#[derive(Default, Clone, Copy)]
struct TextHasher(u64);

impl std::hash::Hasher for TextHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
}

type Texts = HashMap<String, u64, std::hash::BuildHasherDefault<TextHasher>>;

struct TrackState {
    id: u64,
    name: String,
    parent: Option<u64>,
    /// Texts already sent on this track, by their kind.
    interned: [Texts; 3],
    /// Keys already sent on this track.
    keys: [bool; KEYS.len()],
    fresh: Message,
    begun: bool,
}

/// Kinds of interned texts, with their field in `InternedData`.
const CATEGORY: usize = 0;
const NAME: usize = 1;
const TEXT: usize = 2;
const INTERNED_FIELDS: [u32; 3] = [1, 2, 29];
const KEY_FIELD: u32 = 3;

impl TrackState {
    fn key(&mut self, key: usize) -> u64 {
        let id = key as u64 + 1;
        if !std::mem::replace(&mut self.keys[key], true) {
            self.fresh.message(KEY_FIELD, |entry| {
                entry.uint(1, id);
                entry.bytes(2, KEYS[key].as_bytes());
            });
        }
        id
    }

    fn intern(&mut self, kind: usize, text: &str) -> u64 {
        if let Some(&id) = self.interned[kind].get(text) {
            return id;
        }
        let id = self.interned[kind].len() as u64 + 1;
        self.interned[kind].insert(text.to_string(), id);
        self.fresh.message(INTERNED_FIELDS[kind], |entry| {
            entry.uint(1, id);
            entry.bytes(2, text.as_bytes());
        });
        id
    }
}

/// One slice before it is given a track.
struct Slice<A> {
    start_ns: i64,
    end_ns: i64,
    args: A,
}

impl Writer {
    fn new(first_id: u64, bytes: usize) -> Writer {
        Writer {
            out: Message(Vec::with_capacity(bytes)),
            body: Message::default(),
            next_id: first_id,
        }
    }

    fn track(
        &mut self,
        name: &str,
        parent: Option<u64>,
        order: Order,
        counter: bool,
    ) -> TrackState {
        let id = self.next_id;
        self.next_id += 1;
        self.out.message(1, |packet| {
            packet.message(60, |track| {
                track.uint(1, id);
                track.bytes(2, name.as_bytes());
                if let Some(parent) = parent {
                    track.uint(5, parent);
                }
                if counter {
                    track.bytes(8, &[]);
                }
                match order {
                    Order::Free => {}
                    Order::Ranked(rank) => track.uint(12, rank as u64),
                    Order::Explicit => track.uint(11, 3),
                }
            });
        });
        TrackState {
            id,
            name: name.to_string(),
            parent,
            interned: Default::default(),
            keys: [false; KEYS.len()],
            fresh: Message::default(),
            begun: false,
        }
    }

    /// Writes the packet whose event is in `self.body`.
    fn packet(&mut self, track: &mut TrackState, time_ns: i64) {
        let begun = std::mem::replace(&mut track.begun, true);
        let body = &self.body.0;
        self.out.message(1, |packet| {
            packet.uint(8, time_ns as u64);
            packet.uint(10, track.id);
            packet.bytes(11, body);
            if !track.fresh.0.is_empty() {
                packet.bytes(12, &track.fresh.0);
                track.fresh.0.clear();
            }
            packet.uint(13, if begun { 2 } else { 3 });
        });
    }

    /// Begins a slice; `annotate` adds its arguments.
    fn begin(
        &mut self,
        track: &mut TrackState,
        time_ns: i64,
        name: &str,
        category: Option<&str>,
        annotate: impl FnOnce(&mut Args),
    ) {
        let mut body = std::mem::take(&mut self.body);
        body.0.clear();
        body.uint(9, 1);
        body.uint(11, track.id);
        body.uint(10, track.intern(NAME, name));
        if let Some(category) = category {
            body.uint(3, track.intern(CATEGORY, category));
        }
        let mut args = Args { track, out: body };
        annotate(&mut args);
        self.body = args.out;
        self.packet(track, time_ns);
    }

    fn end(&mut self, track: &mut TrackState, time_ns: i64, category: Option<&str>) {
        self.body.0.clear();
        self.body.uint(9, 2);
        self.body.uint(11, track.id);
        if let Some(category) = category {
            let category = track.intern(CATEGORY, category);
            self.body.uint(3, category);
        }
        self.packet(track, time_ns);
    }

    fn count(&mut self, track: &TrackState, time_ns: i64, value: f64) {
        self.out.message(1, |packet| {
            packet.uint(8, time_ns as u64);
            packet.uint(10, track.id);
            packet.message(11, |event| {
                event.uint(9, 4);
                event.uint(11, track.id);
                event.double(44, value);
            });
        });
    }

    /// Writes slices to a track, and those that overlap to further tracks beside it.
    fn lanes<A>(
        &mut self,
        track: TrackState,
        mut slices: Vec<Slice<A>>,
        mut emit: impl FnMut(&mut Writer, &mut TrackState, &Slice<A>),
    ) {
        slices.sort_by_key(|s| (s.start_ns, s.end_ns));
        let mut ends: Vec<i64> = Vec::new();
        let lane_of: Vec<usize> = slices
            .iter()
            .map(
                |slice| match ends.iter().position(|end| *end <= slice.start_ns) {
                    Some(lane) => {
                        ends[lane] = slice.end_ns;
                        lane
                    }
                    None => {
                        ends.push(slice.end_ns);
                        ends.len() - 1
                    }
                },
            )
            .collect();
        let (name, parent) = (track.name.clone(), track.parent);
        let mut track = Some(track);
        for lane in 0..ends.len() {
            let mut state = match track.take() {
                Some(state) => state,
                None => self.track(&format!("{name} #{}", lane + 1), parent, Order::Free, false),
            };
            for (slice, _) in slices.iter().zip(&lane_of).filter(|(_, l)| **l == lane) {
                emit(self, &mut state, slice);
            }
        }
    }
}

/// Debug annotations under construction.
struct Args<'a> {
    track: &'a mut TrackState,
    out: Message,
}

impl Args<'_> {
    fn int(&mut self, key: Key, value: i64) {
        let key = self.track.key(key as usize);
        self.out.message(4, |arg| {
            arg.uint(1, key);
            arg.uint(4, value as u64);
        });
    }

    fn float(&mut self, key: Key, value: f64) {
        let key = self.track.key(key as usize);
        self.out.message(4, |arg| {
            arg.uint(1, key);
            arg.double(5, value);
        });
    }

    fn text(&mut self, key: Key, value: &str) {
        let key = self.track.key(key as usize);
        let value = self.track.intern(TEXT, value);
        self.out.message(4, |arg| {
            arg.uint(1, key);
            arg.uint(17, value);
        });
    }

    /// One side of a transfer: its address, and what else its command has.
    fn side(&mut self, key: Key, first: usize, view: &View) {
        let key = self.track.key(key as usize);
        let track = &mut *self.track;
        self.out.message(4, |arg| {
            arg.uint(1, key);
            let mut entry = |key: usize, value: i64| {
                let key = track.key(key);
                arg.message(11, |entry| {
                    entry.uint(1, key);
                    entry.uint(4, value as u64);
                });
            };
            entry(first, address(view, &KEYS[first][..3]));
            let Some(command) = view.decoded else { return };
            for (place, name) in KEYS.iter().enumerate().skip(first + 1).take(SIDE_KEYS - 1) {
                if let Some(value) = command.get(name) {
                    entry(place, value as i64);
                }
            }
        });
    }
}

fn annotate(view: &View, args: &mut Args) {
    if view.event.tags.batch != NONE {
        args.int(Key::Batch, i64::from(view.event.tags.batch));
    }
    if let Some(kernel) = view.kernel {
        args.text(Key::Kernel, kernel);
    }
    args.text(Key::Type, &view.kind);
    args.text(Key::Name, &view.name);
    if let Some(mode) = view.event.tags.mode.name() {
        args.text(Key::Mode, mode);
    }
    args.int(Key::Id, view.command_id() as i64);
    let sync = is_sync(view);
    match &view.detail {
        Detail::Tiu(tiu) => {
            if !sync {
                match tiu.ops {
                    Some(_) => args.text(Key::Rate, &view.uarch_rate()),
                    None => args.text(Key::Rate, "0.0%"),
                }
            }
            if let Some(command) = view.decoded {
                for (key, field) in [
                    (Key::Short, "cmd_short"),
                    (Key::TiuDependency, "cmd_id_dep"),
                ] {
                    if let Some(value) = command.get(field) {
                        args.int(key, value as i64);
                    }
                }
            }
        }
        Detail::Dma(dma) => {
            let generated = view.data_type().is_empty() && view.decoded.is_none();
            if !generated || view.stream.engine == Engine::Cdma {
                args.text(Key::DataType, view.data_type());
            }
            if let Some(dependency) = view.decoded.and_then(|d| d.get("cmd_id_dep")) {
                args.int(Key::Dependency, dependency as i64);
            }
            if !sync {
                args.text(Key::Direction, view.direction().unwrap_or("unknown"));
                args.int(Key::Bytes, dma.bytes as i64);
                bandwidths(view, dma, args);
            }
        }
    }
    args.int(Key::Index, view.index as i64);
    if matches!(view.detail, Detail::Dma(_)) && !sync {
        args.side(Key::Source, SOURCE, view);
        args.side(Key::Destination, DESTINATION, view);
    }
}

/// Bandwidths are numbers with a point except where bigTpuProfile has a bare 0.
fn bandwidths(view: &View, dma: &DmaDetail, args: &mut Args) {
    let aks = matches!(view.chip, Chip::Aks | Chip::Aksv);
    let without_ddr = view.decoded.is_some() && dma.from != Memory::Ddr && dma.to != Memory::Ddr;
    if aks && without_ddr {
        args.int(Key::Ddr, 0);
    } else {
        args.float(Key::Ddr, dma.ddr_gbps);
    }
    match dma.l2_gbps {
        Some(rate) => args.float(Key::L2, rate),
        None => args.int(Key::L2, 0),
    }
}

fn is_sync(view: &View) -> bool {
    matches!(&*view.kind, "sys" | "SYS")
}

/// The address of a side (`src` or `dst`), whatever the chip calls its parts.
fn address(view: &View, side: &str) -> i64 {
    let Some(command) = view.decoded else {
        return 0;
    };
    if command.layout.name == "sDMA_sys" {
        return 0;
    }
    let any = |names: [&str; 3]| {
        names
            .iter()
            .find_map(|name| command.get(&format!("{side}_start_addr_{name}")))
            .unwrap_or(0)
    };
    ((any(["h13", "h8", "l8"]) as i64) << 32) + any(["l32", "h32", "l32"]) as i64
}

/// A kernel's time on a track.
struct Launch {
    start_ns: i64,
    end_ns: i64,
    kernel: String,
    scope: Option<u32>,
    batches: Vec<u32>,
    modes: Vec<&'static str>,
}

fn note_launch(launches: &mut Vec<Launch>, view: &View, offset_ns: i64) {
    let Some(kernel) = view.kernel else { return };
    let (start_ns, end_ns) = (
        view.event.start_ns + offset_ns,
        view.event.end_ns + offset_ns,
    );
    launches.push(Launch {
        start_ns,
        end_ns,
        kernel: kernel.to_string(),
        scope: view.scope,
        batches: if view.event.tags.batch == NONE {
            Vec::new()
        } else {
            vec![view.event.tags.batch]
        },
        modes: view.event.tags.mode.name().into_iter().collect(),
    });
}

/// Joins neighbours of one launch.
fn merge_launches(mut launches: Vec<Launch>) -> Vec<Launch> {
    launches.sort_by_key(|launch| (launch.start_ns, launch.end_ns));
    let mut merged: Vec<Launch> = Vec::new();
    for launch in launches {
        match merged.last_mut() {
            Some(last) if last.scope == launch.scope && last.kernel == launch.kernel => {
                last.end_ns = last.end_ns.max(launch.end_ns);
                for batch in launch.batches {
                    if !last.batches.contains(&batch) {
                        last.batches.push(batch);
                    }
                }
                for mode in launch.modes {
                    if !last.modes.contains(&mode) {
                        last.modes.push(mode);
                    }
                }
            }
            _ => merged.push(launch),
        }
    }
    merged
}

fn write_launches(writer: &mut Writer, mut track: TrackState, launches: Vec<Launch>) {
    let merged = merge_launches(launches);
    for mut launch in merged {
        launch.batches.sort_unstable();
        let modes: Vec<&str> = ["RVT", "TDI", "DES"]
            .into_iter()
            .filter(|m| launch.modes.contains(m))
            .collect();
        let category = (!modes.is_empty()).then(|| modes.join("/"));
        writer.begin(
            &mut track,
            launch.start_ns,
            &launch.kernel,
            category.as_deref(),
            |args| {
                args.text(Key::Kernel, &launch.kernel);
                if let Some(scope) = launch.scope {
                    args.int(Key::Scope, i64::from(scope));
                }
                match launch.batches.as_slice() {
                    [] => {}
                    [batch] => args.int(Key::Batch, i64::from(*batch)),
                    many => args.text(
                        Key::Batch,
                        &many
                            .iter()
                            .map(u32::to_string)
                            .collect::<Vec<_>>()
                            .join("/"),
                    ),
                }
                if let Some(mode) = &category {
                    args.text(Key::Mode, mode);
                }
            },
        );
        writer.end(&mut track, launch.end_ns, category.as_deref());
    }
}

fn core_packets(profile: &Profile, number: u32, shared: &Shared) -> Vec<u8> {
    let Some(core) = profile.core(number) else {
        return Vec::new();
    };
    // About what the packets of an event take; a buffer that grows is copied again and again.
    let bytes = core.events.iter().map(Vec::len).sum::<usize>() * 224;
    let mut writer = Writer::new(CORE_IDS * (u64::from(number) + 1), bytes);
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
            writer.begin(
                track,
                slice.start_ns,
                &view.name,
                Some(&view.kind),
                |args| annotate(&view, args),
            );
            writer.end(track, slice.end_ns, Some(&view.kind));
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

/// Notes an event's launch; neighbours of one launch are joined at once, so that the list stays short.
fn push_or_extend(launches: &mut Vec<Launch>, view: &View, offset_ns: i64) {
    let mode = view.event.tags.mode.name();
    let same = launches.last_mut().filter(|last| {
        last.scope == view.scope
            && last.batches.first().copied()
                == (view.event.tags.batch != NONE).then_some(view.event.tags.batch)
            && mode.is_none_or(|mode| last.modes.contains(&mode))
            && view.event.start_ns + offset_ns >= last.start_ns
    });
    match same {
        Some(last) => last.end_ns = last.end_ns.max(view.event.end_ns + offset_ns),
        None => note_launch(launches, view, offset_ns),
    }
}

fn cdma_packets(profile: &Profile, shared: &Shared) -> Vec<u8> {
    let mut writer = Writer::new(CDMA_ID, 0);
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
                writer.begin(
                    track,
                    slice.start_ns,
                    &view.name,
                    Some(&view.kind),
                    |args| annotate(&view, args),
                );
                writer.end(track, slice.end_ns, Some(&view.kind));
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
            writer.begin(track, slice.start_ns, slice.args, None, |_| {});
            writer.end(track, slice.end_ns, None);
        });
    }
}
