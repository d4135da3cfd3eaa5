//! The sheet `Engine Summary`: bigTpuProfile's columns at their places, then further columns.
//!
//! The numbers are those of `summary.txt`, as numbers, not as text; bigTpuProfile has others in its two files.
//! Transfers of ports are in the last row only: a port belongs to no core.

use crate::analysis::summary::{CoreTotals, EngineTotals, Summary, Traffic};
use crate::export::xlsx::Written;
use crate::export::xlsx::style::{Kind, Page};
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::Viewer;

/// Columns of a core.
const COLUMNS: &str = "CoreId|TiuWorkingRatio|Parallelism|Concurrency|totalTime(us)|\
    totalTiuCycle|totalAlgCycle|totalAlgOps|totalUArchOps|uArchURate|totalGdmaCycle|\
    totalDdrDataSize|totalL2DataSize|ddrAvgBandwidth|l2AvgBandwidth|totalSdmaCycle|\
    totalDdrDataSize|ddrAvgBandwidth|totalcdmaCycle|totalDdrDataSize|totalL2DataSize|\
    ddrAvgBandwidth|l2AvgBandwidth";
const HEADER_ROW: u32 = 4;

/// Writes the sheet.
pub(super) fn write(profile: &Profile, summary: &Summary, page: &mut Page<'_>) -> Written {
    page.widths(COLUMNS.split('|'), 16.0)?;
    page.sheet.set_freeze_panes(HEADER_ROW + 1, 1)?;
    page.header(0, 0, &format!("Platform: {}", profile.chip))?;
    page.header(HEADER_ROW, 0, COLUMNS)?;
    let whole = summary.total_ns.max(1) as f64;
    let mut row = HEADER_ROW + 1;
    for core in &summary.cores {
        page.text(row, 0, core.core)?;
        let (tiu, gdma) = (core.tiu.work_ns as f64, core.gdma.work_ns as f64);
        let both = if tiu.min(gdma) > 0.0 {
            (tiu + gdma - whole) / tiu.min(gdma)
        } else {
            0.0
        };
        let numbers = Numbers {
            working: tiu / whole,
            parallelism: core.parallelism,
            concurrency: Some(both),
            cycles: [
                core.tiu.work_cycles,
                core.gdma.work_cycles,
                core.sdma.work_cycles,
            ],
            alg_cycles: alg_cycles(profile, core.core).filter(|_| core.alg_ops.is_some()),
            ops: (core.alg_ops, core.uarch_ops),
            gdma: [core.gdma.ddr, core.gdma.l2],
            sdma: core.sdma.ddr,
            ports: None,
        };
        numbers.write(summary, page, row)?;
        row += 1;
    }
    page.text(row, 0, "Overall")?;
    let most = |of: fn(&CoreTotals) -> u64| summary.cores.iter().map(of).max().unwrap_or(0);
    let sum =
        |of: fn(&CoreTotals) -> Option<f64>| summary.cores.iter().map(of).sum::<Option<f64>>();
    let overall = Numbers {
        working: summary.tiu_working_ratio,
        parallelism: summary.parallelism,
        concurrency: None,
        cycles: [
            most(|c| c.tiu.work_cycles),
            most(|c| c.gdma.work_cycles),
            most(|c| c.sdma.work_cycles),
        ],
        alg_cycles: summary
            .cores
            .iter()
            .filter(|core| core.alg_ops.is_some())
            .filter_map(|core| alg_cycles(profile, core.core))
            .max(),
        ops: (sum(|c| c.alg_ops), sum(|c| c.uarch_ops)),
        gdma: [
            summary.traffic(|c| c.gdma.ddr),
            summary.traffic(|c| c.gdma.l2),
        ],
        sdma: summary.traffic(|c| c.sdma.ddr),
        ports: Some(&summary.ports),
    };
    overall.write(summary, page, row)?;
    all_totals(profile, summary, page, row + 3)
}

fn alg_cycles(profile: &Profile, core: u32) -> Option<i128> {
    let stream = Stream::new(Engine::Tiu, core);
    let viewer = Viewer::new(profile, stream)?;
    let events = profile.core(core)?.events[Engine::Tiu.slot()].iter();
    let each = events
        .enumerate()
        .filter_map(|(index, event)| viewer.view(index, event).ops());
    Some(each.map(|ops| ops.alg_cycles).sum())
}

/// The numbers of a row.
struct Numbers<'a> {
    working: f64,
    parallelism: f64,
    concurrency: Option<f64>,
    /// Cycles of TIU, GDMA and SDMA.
    cycles: [u64; 3],
    /// Minimum cycles that the algorithm needs of the TIU, if commands are known.
    alg_cycles: Option<i128>,
    /// The algorithm's and the hardware's.
    ops: (Option<f64>, Option<f64>),
    /// GDMA's traffic with DDR and with L2.
    gdma: [Traffic; 2],
    sdma: Traffic,
    ports: Option<&'a [(u32, EngineTotals)]>,
}

impl Numbers<'_> {
    fn write(&self, summary: &Summary, page: &mut Page<'_>, row: u32) -> Written {
        use Kind::{Fixed, Percent, Whole};
        let rate = match self.ops {
            (Some(alg), Some(uarch)) if uarch > 0.0 => Some(alg / uarch),
            _ => None,
        };
        let ports = |of: fn(&EngineTotals) -> u64| {
            let all = self.ports?;
            Some(all.iter().map(|(_, totals)| of(totals)).sum::<u64>() as f64)
        };
        let numbers = [
            (Some(self.working), Percent),
            (Some(self.parallelism), Percent),
            (self.concurrency, Percent),
            (Some(summary.total_ns as f64 / 1000.0), Fixed),
            (Some(self.cycles[0] as f64), Whole),
            (self.alg_cycles.map(|cycles| cycles as f64), Whole),
            (self.ops.0, Whole),
            (self.ops.1, Whole),
            (rate, Percent),
            (Some(self.cycles[1] as f64), Whole),
            (Some(self.gdma[0].bytes as f64), Whole),
            (Some(self.gdma[1].bytes as f64), Whole),
            (self.gdma[0].gbps, Fixed),
            (self.gdma[1].gbps, Fixed),
            (Some(self.cycles[2] as f64), Whole),
            (Some(self.sdma.bytes as f64), Whole),
            (self.sdma.gbps, Fixed),
            (ports(|t| t.work_cycles), Whole),
            (ports(|t| t.ddr.bytes), Whole),
            (ports(|t| t.l2.bytes), Whole),
        ];
        page.numbers(row, 1, numbers)
    }
}

/// Columns beyond bigTpuProfile's: each engine's times and rates, then the chip.
fn all_totals(profile: &Profile, summary: &Summary, page: &mut Page<'_>, mut row: u32) -> Written {
    use Kind::{Fixed, Percent, Whole};
    let names = "Core|Engine|Commands|Work cycles|Work (ns)|Busy (ns)|Idle (ns)|Utilisation|\
        Bytes|GB/s|DDR GB/s|DDR read GB/s|DDR write GB/s|L2 GB/s|L2 read GB/s|L2 write GB/s";
    page.header(row, 0, names)?;
    row += 1;
    let cores = summary.cores.iter().flat_map(|core| {
        [
            (core.core, "TIU", &core.tiu),
            (core.core, "GDMA", &core.gdma),
            (core.core, "SDMA", &core.sdma),
        ]
    });
    let ports = summary.ports.iter();
    let ports = ports.map(|(port, totals)| (*port, "CDMA port", totals));
    let all = cores.chain(ports);
    for (number, engine, totals) in all.filter(|(_, _, totals)| totals.commands > 0) {
        page.text(row, 0, number)?;
        page.text(row, 1, engine)?;
        let numbers = [
            (Some(totals.commands as f64), Whole),
            (Some(totals.work_cycles as f64), Whole),
            (Some(totals.work_ns as f64), Whole),
            (Some(totals.busy_ns as f64), Whole),
            (Some(totals.idle_ns as f64), Whole),
            (Some(totals.utilisation), Percent),
            (Some(totals.bytes as f64), Whole),
            (totals.all.gbps, Fixed),
            (totals.ddr.gbps, Fixed),
            (totals.ddr_read.gbps, Fixed),
            (totals.ddr_write.gbps, Fixed),
            (totals.l2.gbps, Fixed),
            (totals.l2_read.gbps, Fixed),
            (totals.l2_write.gbps, Fixed),
        ];
        page.numbers(row, 2, numbers)?;
        row += 1;
    }
    constants(profile, summary, page, row + 1)
}

/// Totals of the dump and the chip's arguments, one a row.
fn constants(profile: &Profile, summary: &Summary, page: &mut Page<'_>, mut row: u32) -> Written {
    for (key, value) in [
        ("Total (ns)", summary.total_ns as f64),
        ("Parallelism", summary.parallelism),
        ("TIU working ratio", summary.tiu_working_ratio),
    ] {
        page.text(row, 0, key)?;
        page.text(row, 1, value)?;
        row += 1;
    }
    for (key, value) in profile.chip.args(profile.tiu_mhz, profile.dma_mhz) {
        page.text(row, 0, key)?;
        page.text(row, 1, value)?;
        row += 1;
    }
    Ok(())
}
