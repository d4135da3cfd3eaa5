//! The arguments of slices ("debug annotations"): names, order and types are bigTpuProfile's.

use crate::chip::Chip;
use crate::report::Engine;
use crate::view::{Detail, DmaDetail, Memory, View};
use opreport::trace::{Arguments, Message, TrackState};

/// Names of arguments: known beforehand, so that no text is looked up for them.
#[rustfmt::skip]
pub(super) const KEYS: [&str; 38] = [
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
pub(super) enum Key {
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

/// Debug annotations under construction.
pub(super) struct Args<'a> {
    pub track: &'a mut TrackState,
    pub out: &'a mut Message,
}

impl Args<'_> {
    fn plain(&mut self) -> Arguments<'_> {
        Arguments {
            track: self.track,
            out: self.out,
        }
    }

    /// A value of this kind.
    pub fn int(&mut self, key: Key, value: i64) {
        self.plain().int(key as usize, value);
    }

    /// A value of this kind.
    pub fn float(&mut self, key: Key, value: f64) {
        self.plain().float(key as usize, value);
    }

    /// A value of this kind.
    pub fn text(&mut self, key: Key, value: &str) {
        self.plain().text(key as usize, value);
    }

    /// One side of a transfer: its address, and the command's other facts about it.
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

/// The arguments of a command.
pub(super) fn annotate(view: &View, args: &mut Args) {
    if let Some(batch) = view.event.batch() {
        args.int(Key::Batch, i64::from(batch));
    }
    if let Some(kernel) = view.kernel {
        args.text(Key::Kernel, kernel);
    }
    args.text(Key::Type, &view.kind);
    args.text(Key::Name, &view.name);
    if let Some(mode) = view.event.mode().name() {
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

/// Whether it is a sync command, by the name that SQL sees.
pub(super) fn is_sync(view: &View) -> bool {
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
