//! `summary.txt` and the console's table: bigTpuProfile's columns, then what each engine of each core did.
//!
//! A dash stands where nothing recorded tells (bandwidths by memory in mode 0, operations in modes 0 and 1).

use std::fmt::Write as _;

use crate::analysis::summary::{CoreTotals, EngineTotals, Summary, Traffic};
use crate::profile::Profile;

fn percent(value: f64) -> String {
    format!("{:.2}%", value * 100.0)
}

fn gbps(traffic: &Traffic, unknown: bool) -> String {
    match traffic.gbps {
        Some(rate) => format!("{rate:.2}"),
        None if unknown => "-".to_string(),
        None => "0.00".to_string(),
    }
}

fn row(cells: &[String; 11]) -> String {
    let widths = [7, 14, 14, 15, 14, 10, 16, 18, 18, 16, 18];
    let cells: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:>width$}"))
        .collect();
    cells.join(" | ")
}

const HEADER: [&str; 11] = [
    "CoreId",
    "Parallelism(%)",
    "totalTime(us)",
    "TiuWorkingRatio",
    "totalTiuCycle",
    "uArchURate",
    "totalGdmaCycle",
    "GdmaDdrAvgBW(GB/s)",
    "GdmaL2AvgBW(GB/s)",
    "totalSdmaCycle",
    "SdmaDdrAvgBW(GB/s)",
];

fn rate(alg: Option<f64>, uarch: Option<f64>) -> String {
    match (alg, uarch) {
        (Some(alg), Some(uarch)) if uarch > 0.0 => percent(alg / uarch),
        _ => "-".to_string(),
    }
}

/// The whole text.
pub fn text(profile: &Profile, summary: &Summary) -> String {
    let mut text = String::new();
    if let Some(headline) = profile.report.headline() {
        let _ = writeln!(text, "{headline}");
    }
    if let Some(window) = profile.report.window() {
        let _ = writeln!(text, "{window}");
    }
    let header = row(&HEADER.map(str::to_string));
    let (double, single) = ("=".repeat(header.len()), "-".repeat(header.len()));
    let _ = writeln!(text, "{double}\nSummary\n{double}\n{header}\n{single}");
    let total_us = format!("{:.3}", summary.total_ns as f64 / 1000.0);
    for core in &summary.cores {
        let unknown = |e: &EngineTotals| e.unknown_direction_bytes > 0;
        let cells = [
            core.core.to_string(),
            percent(core.parallelism),
            total_us.clone(),
            percent(core.tiu.work_ns as f64 / (summary.total_ns as f64).max(1.0)),
            core.tiu.work_cycles.to_string(),
            rate(core.alg_ops, core.uarch_ops),
            core.gdma.work_cycles.to_string(),
            gbps(&core.gdma.ddr, unknown(&core.gdma)),
            gbps(&core.gdma.l2, unknown(&core.gdma)),
            core.sdma.work_cycles.to_string(),
            gbps(&core.sdma.ddr, unknown(&core.sdma)),
        ];
        let _ = writeln!(text, "{}", row(&cells));
    }
    let any_unknown = |of: &dyn Fn(&CoreTotals) -> u64| summary.cores.iter().any(|c| of(c) > 0);
    let longest = |of: &dyn Fn(&CoreTotals) -> u64, mhz: f64| {
        let cycles = summary.cores.iter().map(of).max().unwrap_or(0);
        format!("{:.3}(us)", cycles as f64 / mhz)
    };
    let overall = [
        "Overall".to_string(),
        percent(summary.parallelism),
        total_us,
        percent(summary.tiu_working_ratio),
        longest(&|c| c.tiu.work_cycles, summary.tiu_mhz),
        summary.uarch_rate.map_or("-".to_string(), percent),
        longest(&|c| c.gdma.work_cycles, summary.dma_mhz),
        gbps(
            &summary.traffic(|c| c.gdma.ddr),
            any_unknown(&|c| c.gdma.unknown_direction_bytes),
        ),
        gbps(
            &summary.traffic(|c| c.gdma.l2),
            any_unknown(&|c| c.gdma.unknown_direction_bytes),
        ),
        longest(&|c| c.sdma.work_cycles, summary.dma_mhz),
        gbps(
            &summary.traffic(|c| c.sdma.ddr),
            any_unknown(&|c| c.sdma.unknown_direction_bytes),
        ),
    ];
    let _ = writeln!(text, "{single}\n{}\n{double}", row(&overall));
    shares(summary, &mut text);
    engines(summary, &mut text);
    let spec = profile.chip.spec();
    let _ = writeln!(
        text,
        "\n{} mode {}, TIU {} MHz, DMA {} MHz; limits per core: DDR {} GB/s{}",
        profile.chip,
        profile.mode.name(),
        summary.tiu_mhz,
        summary.dma_mhz,
        spec.ddr_gbps,
        if spec.l2_gbps > 0.0 {
            format!(", L2 {} GB/s", spec.l2_gbps)
        } else {
            String::new()
        }
    );
    text
}

fn shares(summary: &Summary, text: &mut String) {
    let _ = writeln!(
        text,
        "\nShares of the total time (moments; sync commands are no work)"
    );
    let _ = writeln!(
        text,
        "{:>7} | {:>9} | {:>9} | {:>9} | {:>9}",
        "CoreId", "compute", "move", "both", "neither"
    );
    for core in &summary.cores {
        let _ = writeln!(
            text,
            "{:>7} | {:>9} | {:>9} | {:>9} | {:>9}",
            core.core,
            percent(core.compute_share),
            percent(core.move_share),
            percent(core.overlap_share),
            percent(core.idle_share)
        );
    }
}

fn engines(summary: &Summary, text: &mut String) {
    let _ = writeln!(
        text,
        "\nEngines (bandwidths in GB/s, over the time of the transfers)"
    );
    let _ = writeln!(
        text,
        "{:>12} | {:>9} | {:>12} | {:>12} | {:>8} | {:>11} | {:>9} | {:>9} | {:>9} | {:>9} | {:>9}",
        "Engine",
        "commands",
        "busy(us)",
        "idle(us)",
        "util",
        "MiB",
        "any",
        "DDR read",
        "DDR write",
        "L2 read",
        "L2 write"
    );
    let mut line = |name: String, engine: &EngineTotals, moves: bool| {
        if engine.commands == 0 {
            return;
        }
        let unknown = engine.unknown_direction_bytes > 0;
        let rate = |traffic: &Traffic, of_direction: bool| match (moves, traffic.gbps) {
            (false, _) => String::new(),
            (true, Some(rate)) => format!("{rate:.2}"),
            (true, None) if unknown && of_direction => "-".to_string(),
            (true, None) => "0.00".to_string(),
        };
        let _ = writeln!(
            text,
            "{name:>12} | {:>9} | {:>12.3} | {:>12.3} | {:>8} | {:>11} | {:>9} | {:>9} | {:>9} | {:>9} | {:>9}",
            engine.commands,
            engine.busy_ns as f64 / 1000.0,
            engine.idle_ns as f64 / 1000.0,
            percent(engine.utilisation),
            if moves {
                format!("{:.2}", engine.bytes as f64 / f64::from(1 << 20))
            } else {
                String::new()
            },
            rate(&engine.all, false),
            rate(&engine.ddr_read, true),
            rate(&engine.ddr_write, true),
            rate(&engine.l2_read, true),
            rate(&engine.l2_write, true),
        );
    };
    for core in &summary.cores {
        line(format!("{} TIU", core.core), &core.tiu, false);
        line(format!("{} GDMA", core.core), &core.gdma, true);
        line(format!("{} SDMA", core.core), &core.sdma, true);
    }
    for (port, totals) in &summary.ports {
        line(format!("port{port} CDMA"), totals, true);
    }
}
