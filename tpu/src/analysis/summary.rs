//! Totals per core and over all: the columns of bigTpuProfile's summary, and those its README promises.
//!
//! "Working" times add up commands (so they may exceed the total where commands overlap); "busy" times are moments in
//! which at least one command works. Sync commands work for neither, except that, as in bigTpuProfile, SDMA's sends
//! count as working time. Facts that no command has (mode 0: directions; modes 0 and 1: operations) are `None`, not a
//! number.

use rayon::prelude::*;
use serde::Serialize;

use crate::analysis::intervals::Intervals;
use crate::chip::names::{DMA_SYS, TIU_SYS};
use crate::input::nodes::Mode;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::{DmaDetail, Memory, Role, View, Viewer};

/// Bytes and cycles of transfers of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Bytes moved.
    pub bytes: u64,
    /// Cycles of the transfers.
    pub cycles: u64,
    /// Bytes over time in GB/s; `None` if there was no transfer.
    pub gbps: Option<f64>,
}

impl Traffic {
    fn add(&mut self, bytes: u64, cycles: u64) {
        self.bytes += bytes;
        self.cycles += cycles;
    }

    fn finish(mut self, mhz: f64) -> Traffic {
        let ns = real_time_ns(self.cycles, mhz);
        self.gbps = (ns > 0).then(|| self.bytes as f64 / ns as f64);
        self
    }

    fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            bytes: self.bytes + other.bytes,
            cycles: self.cycles + other.cycles,
            gbps: None,
        }
    }
}

/// One engine of one core, or one port.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EngineTotals {
    /// Commands.
    pub commands: u64,
    /// Cycles of work.
    pub work_cycles: u64,
    /// Work in ns, commands added up.
    pub work_ns: i64,
    /// Moments with work, in ns.
    pub busy_ns: i64,
    /// Moments without, in ns.
    pub idle_ns: i64,
    /// Busy over total, 0 to 1.
    pub utilisation: f64,
    /// Cycles of sync commands, counted apart.
    pub sync_cycles: u64,
    /// Bytes moved, whatever the direction.
    pub bytes: u64,
    /// The traffic of all transfers.
    pub all: Traffic,
    /// Transfers that read or write global memory.
    pub ddr: Traffic,
    /// Transfers that touch shared but not global memory.
    pub l2: Traffic,
    /// Reads of global memory.
    pub ddr_read: Traffic,
    /// Writes of global memory.
    pub ddr_write: Traffic,
    /// Reads of shared memory.
    pub l2_read: Traffic,
    /// Writes of shared memory.
    pub l2_write: Traffic,
    /// Bytes of transfers with an unknown direction.
    pub unknown_direction_bytes: u64,
}

/// One core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreTotals {
    /// Its number.
    pub core: u32,
    /// Tensor computing unit.
    pub tiu: EngineTotals,
    /// The core's DMA.
    pub gdma: EngineTotals,
    /// System DMA.
    pub sdma: EngineTotals,
    /// Operations that the algorithm needs, where commands tell.
    pub alg_ops: Option<f64>,
    /// Operations that the hardware ran, where commands tell.
    pub uarch_ops: Option<f64>,
    /// Moments with computation, over total.
    pub compute_share: f64,
    /// Moments with a transfer, over total.
    pub move_share: f64,
    /// Moments with both, over total.
    pub overlap_share: f64,
    /// Moments with neither, over total.
    pub idle_share: f64,
    /// Work of all engines over total.
    pub parallelism: f64,
}

/// Totals of a dump.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// First start to last end, in ns.
    pub total_ns: i64,
    /// Cores by number.
    pub cores: Vec<CoreTotals>,
    /// Ports by number.
    pub ports: Vec<(u32, EngineTotals)>,
    /// TIU clock, MHz.
    pub tiu_mhz: f64,
    /// DMA clock, MHz.
    pub dma_mhz: f64,
    /// Work of all engines of all cores, over total and cores.
    pub parallelism: f64,
    /// Computation of all cores, over total and cores.
    pub tiu_working_ratio: f64,
    /// The algorithm's over the hardware's operations, where commands tell.
    pub uarch_rate: Option<f64>,
}

/// ns of a number of cycles, as bigTpuProfile cuts them.
pub fn real_time_ns(cycles: u64, mhz: f64) -> i64 {
    // To hundredths first: the quotient of a whole number of ns may come out just below it.
    ((cycles as f64 / mhz * 1000.0 * 100.0).round_ties_even() / 100.0) as i64
}

struct StreamTotals {
    totals: EngineTotals,
    busy: Intervals,
    alg_ops: f64,
    uarch_ops: f64,
    ops_known: bool,
}

impl EngineTotals {
    /// Adds a transfer.
    fn add(&mut self, engine: Engine, view: &View, dma: &DmaDetail) {
        let cycles = view.event.cycles();
        self.bytes += dma.bytes;
        self.all.add(dma.bytes, cycles);
        let touches = |memory| dma.from == memory || dma.to == memory;
        if touches(Memory::Unknown) && view.task != DMA_SYS {
            self.unknown_direction_bytes += dma.bytes;
            return;
        }
        // As in bigTpuProfile, GDMA transfers of no bytes do not count for the bandwidth, but those of SDMA do.
        if dma.bytes > 0 || engine != Engine::Gdma {
            if touches(Memory::Ddr) {
                self.ddr.add(dma.bytes, cycles);
            } else if touches(Memory::L2) {
                self.l2.add(dma.bytes, cycles);
            }
        }
        if dma.bytes > 0 {
            for (memory, traffic) in [
                (dma.from == Memory::Ddr, &mut self.ddr_read),
                (dma.to == Memory::Ddr, &mut self.ddr_write),
                (dma.from == Memory::L2, &mut self.l2_read),
                (dma.to == Memory::L2, &mut self.l2_write),
            ] {
                if memory {
                    traffic.add(dma.bytes, cycles);
                }
            }
        }
    }
}

fn totals(profile: &Profile, stream: Stream, total_ns: i64) -> StreamTotals {
    let mut sum = StreamTotals {
        totals: EngineTotals::default(),
        busy: Intervals::default(),
        alg_ops: 0.0,
        uarch_ops: 0.0,
        ops_known: false,
    };
    let Some(viewer) = Viewer::new(profile, stream) else {
        return sum;
    };
    let mhz = if stream.engine == Engine::Tiu {
        profile.tiu_mhz
    } else {
        profile.dma_mhz
    };
    let t = &mut sum.totals;
    let mut work = Vec::new();
    for view in viewer.views() {
        let event = view.event;
        t.commands += 1;
        let generated = event.mode() == Mode::Rvt;
        let sync = match stream.engine {
            Engine::Tiu => view.task == TIU_SYS && !generated,
            Engine::Gdma => view.task == DMA_SYS && !generated,
            Engine::Sdma => view.task == DMA_SYS && view.function == 4,
            Engine::Cdma => view.role != Role::Work,
        };
        if let Some(ops) = view.ops() {
            sum.ops_known = true;
            sum.alg_ops += ops.alg_ops as f64;
            sum.uarch_ops += ops.uarch_ops as f64;
        }
        if view.role == Role::Work {
            work.push((event.start_ns, event.end_ns));
        }
        if sync {
            t.sync_cycles += event.cycles();
            continue;
        }
        t.work_cycles += event.cycles();
        if let Some(dma) = view.dma() {
            t.add(stream.engine, &view, dma);
        }
    }
    viewer.release();
    sum.busy = Intervals::of(work);
    t.work_ns = real_time_ns(t.work_cycles, mhz);
    t.busy_ns = sum.busy.length_ns();
    t.idle_ns = total_ns - t.busy_ns;
    t.utilisation = ratio(t.busy_ns as f64, total_ns as f64);
    for traffic in [
        &mut t.all,
        &mut t.ddr,
        &mut t.l2,
        &mut t.ddr_read,
        &mut t.ddr_write,
        &mut t.l2_read,
        &mut t.l2_write,
    ] {
        *traffic = traffic.finish(mhz);
    }
    sum
}

/// `part / whole`, 0 if there is nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Adds a profile up.
pub fn summarise(profile: &Profile) -> Summary {
    let total_ns = profile.span_ns().map_or(0, |(first, last)| last - first);
    let whole = total_ns as f64;
    let many = profile.cores.len() > 1;
    let cores: Vec<CoreTotals> = profile
        .cores
        .par_iter()
        .map(|core| {
            let of = |engine| totals(profile, Stream::new(engine, core.number), total_ns);
            let (tiu, gdma, sdma) = (of(Engine::Tiu), of(Engine::Gdma), of(Engine::Sdma));
            let moving = gdma.busy.union(&sdma.busy);
            let overlap = tiu.busy.intersection(&moving).length_ns();
            let either = tiu.busy.union(&moving).length_ns();
            let work = tiu.totals.work_ns
                + gdma.totals.work_ns
                + if many { sdma.totals.work_ns } else { 0 };
            CoreTotals {
                core: core.number,
                alg_ops: tiu.ops_known.then_some(tiu.alg_ops),
                uarch_ops: tiu.ops_known.then_some(tiu.uarch_ops),
                compute_share: ratio(tiu.totals.busy_ns as f64, whole),
                move_share: ratio(moving.length_ns() as f64, whole),
                overlap_share: ratio(overlap as f64, whole),
                idle_share: ratio((total_ns - either) as f64, whole),
                parallelism: ratio(work as f64, whole),
                tiu: tiu.totals,
                gdma: gdma.totals,
                sdma: sdma.totals,
            }
        })
        .collect();
    let ports = profile
        .ports
        .iter()
        .map(|port| {
            (
                port.number,
                totals(profile, Stream::new(Engine::Cdma, port.number), total_ns).totals,
            )
        })
        .collect();
    let available = whole * cores.len() as f64;
    let sum = |of: &dyn Fn(&CoreTotals) -> i64| cores.iter().map(of).sum::<i64>() as f64;
    let known = |of: &dyn Fn(&CoreTotals) -> Option<f64>| cores.iter().filter_map(of).sum::<f64>();
    let uarch = known(&|c| c.uarch_ops);
    Summary {
        total_ns,
        parallelism: ratio(
            sum(&|c| c.tiu.work_ns + c.gdma.work_ns + if many { c.sdma.work_ns } else { 0 }),
            available,
        ),
        tiu_working_ratio: ratio(sum(&|c| c.tiu.work_ns), available),
        uarch_rate: (uarch > 0.0).then(|| known(&|c| c.alg_ops) / uarch),
        tiu_mhz: profile.tiu_mhz,
        dma_mhz: profile.dma_mhz,
        cores,
        ports,
    }
}

impl Summary {
    /// The sum of a kind of traffic over all cores.
    pub fn traffic(&self, of: impl Fn(&CoreTotals) -> Traffic) -> Traffic {
        self.cores
            .iter()
            .map(of)
            .fold(Traffic::default(), Traffic::plus)
            .finish(self.dma_mhz)
    }
}
