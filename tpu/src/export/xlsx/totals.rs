//! The sheet `Engine Summary`: bigTpuProfile's columns at their places, then further columns.
//!
//! The numbers are those of `summary.txt`, as numbers, not as text; bigTpuProfile has others in its two files.
//! Transfers of ports are in the last row only: a port belongs to no core.

use rust_xlsxwriter::Worksheet;

use crate::analysis::summary::{CoreTotals, EngineTotals, Summary, Traffic};
use crate::export::xlsx::style::{Kind, Style, widths};
use crate::export::xlsx::{Written, header};
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::Viewer;

/// Columns of a core.
const COLUMNS: [&str; 23] = [
    "CoreId",
    "TiuWorkingRatio",
    "Parallelism",
    "Concurrency",
    "totalTime(us)",
    "totalTiuCycle",
    "totalAlgCycle",
    "totalAlgOps",
    "totalUArchOps",
    "uArchURate",
    "totalGdmaCycle",
    "totalDdrDataSize",
    "totalL2DataSize",
    "ddrAvgBandwidth",
    "l2AvgBandwidth",
    "totalSdmaCycle",
    "totalDdrDataSize",
    "ddrAvgBandwidth",
    "totalcdmaCycle",
    "totalDdrDataSize",
    "totalL2DataSize",
    "ddrAvgBandwidth",
    "l2AvgBandwidth",
];
const HEADER_ROW: u32 = 4;

/// Writes the sheet.
pub(super) fn write(
    profile: &Profile,
    summary: &Summary,
    sheet: &mut Worksheet,
    style: &Style,
) -> Written {
    let bold = &style.bold;
    sheet.set_name("Engine Summary")?;
    widths(sheet, &COLUMNS, 16.0)?;
    sheet.set_freeze_panes(HEADER_ROW + 1, 1)?;
    sheet.write_with_format(0, 0, format!("Platform: {}", profile.chip), bold)?;
    header(sheet, HEADER_ROW, 0, &COLUMNS, bold)?;
    let whole = summary.total_ns.max(1) as f64;
    let mut row = HEADER_ROW + 1;
    for core in &summary.cores {
        sheet.write(row, 0, core.core)?;
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
        numbers.write(summary, sheet, row, style)?;
        row += 1;
    }
    sheet.write(row, 0, "Overall")?;
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
    overall.write(summary, sheet, row, style)?;
    all_totals(profile, summary, sheet, row + 3, style)
}

fn alg_cycles(profile: &Profile, core: u32) -> Option<i128> {
    let stream = Stream {
        engine: Engine::Tiu,
        number: core,
    };
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
    fn write(&self, summary: &Summary, sheet: &mut Worksheet, row: u32, style: &Style) -> Written {
        let rate = match self.ops {
            (Some(alg), Some(uarch)) if uarch > 0.0 => Some(alg / uarch),
            _ => None,
        };
        let ports = |of: fn(&EngineTotals) -> u64| {
            let all = self.ports?;
            Some(all.iter().map(|(_, totals)| of(totals)).sum::<u64>() as f64)
        };
        let cells = [
            Some(self.working),
            Some(self.parallelism),
            self.concurrency,
            Some(summary.total_ns as f64 / 1000.0),
            Some(self.cycles[0] as f64),
            self.alg_cycles.map(|cycles| cycles as f64),
            self.ops.0,
            self.ops.1,
            rate,
            Some(self.cycles[1] as f64),
            Some(self.gdma[0].bytes as f64),
            Some(self.gdma[1].bytes as f64),
            self.gdma[0].gbps,
            self.gdma[1].gbps,
            Some(self.cycles[2] as f64),
            Some(self.sdma.bytes as f64),
            self.sdma.gbps,
            ports(|t| t.work_cycles),
            ports(|t| t.ddr.bytes),
            ports(|t| t.l2.bytes),
        ];
        for (column, cell) in (1u16..).zip(cells) {
            let kind = match column {
                1..=3 | 9 => Kind::Percent,
                4 | 13 | 14 | 17 => Kind::Fixed,
                _ => Kind::Whole,
            };
            if let Some(number) = cell {
                sheet.write_with_format(row, column, number, style.of(kind))?;
            }
        }
        Ok(())
    }
}

/// Columns beyond bigTpuProfile's: each engine's times and rates, then the chip.
fn all_totals(
    profile: &Profile,
    summary: &Summary,
    sheet: &mut Worksheet,
    mut row: u32,
    style: &Style,
) -> Written {
    let names = [
        "Core",
        "Engine",
        "Commands",
        "Work cycles",
        "Work (ns)",
        "Busy (ns)",
        "Idle (ns)",
        "Utilisation",
        "Bytes",
        "GB/s",
        "DDR GB/s",
        "DDR read GB/s",
        "DDR write GB/s",
        "L2 GB/s",
        "L2 read GB/s",
        "L2 write GB/s",
    ];
    header(sheet, row, 0, &names, &style.bold)?;
    row += 1;
    let cores = summary.cores.iter().flat_map(|core| {
        [
            (core.core, "TIU", &core.tiu),
            (core.core, "GDMA", &core.gdma),
            (core.core, "SDMA", &core.sdma),
        ]
    });
    let ports = summary
        .ports
        .iter()
        .map(|(port, totals)| (*port, "CDMA port", totals));
    for (number, engine, totals) in cores
        .chain(ports)
        .filter(|(_, _, totals)| totals.commands > 0)
    {
        sheet.write(row, 0, number)?;
        sheet.write(row, 1, engine)?;
        let numbers = [
            totals.commands as f64,
            totals.work_cycles as f64,
            totals.work_ns as f64,
            totals.busy_ns as f64,
            totals.idle_ns as f64,
            totals.utilisation,
            totals.bytes as f64,
        ];
        for (column, value) in numbers.into_iter().enumerate() {
            let kind = if column == 5 {
                Kind::Percent
            } else {
                Kind::Whole
            };
            sheet.write_with_format(row, column as u16 + 2, value, style.of(kind))?;
        }
        let rates = [
            &totals.all,
            &totals.ddr,
            &totals.ddr_read,
            &totals.ddr_write,
            &totals.l2,
            &totals.l2_read,
            &totals.l2_write,
        ];
        for (column, traffic) in rates.into_iter().enumerate() {
            if let Some(rate) = traffic.gbps {
                sheet.write_with_format(row, column as u16 + 9, rate, &style.fixed)?;
            }
        }
        row += 1;
    }
    constants(profile, summary, sheet, row + 1)
}

/// Totals of the dump and the chip's arguments, one a row.
fn constants(profile: &Profile, summary: &Summary, sheet: &mut Worksheet, mut row: u32) -> Written {
    for (key, value) in [
        ("Total (ns)", summary.total_ns as f64),
        ("Parallelism", summary.parallelism),
        ("TIU working ratio", summary.tiu_working_ratio),
    ] {
        sheet.write(row, 0, key)?;
        sheet.write(row, 1, value)?;
        row += 1;
    }
    for (key, value) in profile.chip.args(profile.tiu_mhz, profile.dma_mhz) {
        sheet.write(row, 0, key)?;
        sheet.write(row, 1, value)?;
        row += 1;
    }
    Ok(())
}
