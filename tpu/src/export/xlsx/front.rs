//! The sheet `Summary`, as in bigTpuProfile: the model, the peaks, time by kind of layer, and the ladder of possible
//! gains, with FPS and MAC utilisation. All of it comes from measurements, with findings in words.

use std::collections::BTreeMap;

use rust_xlsxwriter::{Worksheet, XlsxError};

use crate::analysis::gaps::find;
use crate::analysis::overview::{Overview, overview};
use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::roofline::peak_gops;
use crate::analysis::summary::Summary;
use crate::export::xlsx::style::{Style, widths};
use crate::export::xlsx::{Written, header};
use crate::profile::Profile;

/// Number of gaps to list, the longest first.
const GAPS: usize = 8;

/// Writes the sheet.
pub(super) fn write(
    profile: &Profile,
    summary: &Summary,
    element_bytes: f64,
    sheet: &mut Worksheet,
    style: &Style,
) -> Written {
    sheet.set_name("Summary")?;
    widths(sheet, &[""; 12], 20.0)?;
    sheet.set_column_width(0, 68)?;
    // There are several tables, each with its own header. So the column with the names of the rows stays in view.
    sheet.set_freeze_panes(0, 1)?;
    let operators = roll_up(profile, Grouping::Operator, &Filter::default());
    let found = overview(
        profile,
        summary,
        &operators,
        &find(profile, GAPS),
        element_bytes,
    );
    let mut row = model(profile, &found, sheet, style)?;
    header(sheet, row, 0, &["Findings"], &style.bold)?;
    for text in &found.findings {
        row += 1;
        sheet.write(row, 0, text)?;
    }
    row = ladder(&found, row + 2, sheet, style)?;
    kinds(profile, &found, row + 2, sheet, style)
}

/// The model, the chip and the totals. Returns the row after them.
fn model(
    profile: &Profile,
    found: &Overview,
    sheet: &mut Worksheet,
    style: &Style,
) -> Result<u32, XlsxError> {
    let layers = profile.layers.as_ref();
    let count = profile.cores.len() as f64;
    let peak = |bytes: f64| {
        let tops = peak_gops(profile.chip.spec(), profile.tiu_mhz, bytes) * count / 1000.0;
        Some(tops)
    };
    let seconds = found.total_ns as f64 / 1e9;
    let texts = [
        (
            "Network",
            layers
                .and_then(|l| l.net.clone())
                .unwrap_or_else(|| profile.name()),
        ),
        (
            "Quant type",
            layers.and_then(|l| l.mode.clone()).unwrap_or_default(),
        ),
        ("Platform", profile.chip.to_string()),
        ("Bounded by", found.limit.name().to_string()),
    ];
    let mut row = 0;
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        sheet.write_with_format(row, 0, name, &style.bold)?;
        sheet.write(row, 1, text)?;
        row += 1;
    }
    let flops = layers.and_then(|l| l.flops).map(|ops| ops as f64 / 1e9);
    let fixed = [
        ("Model GFLOPs (by the compiler)", flops),
        ("Operations run (Gop)", found.alg_ops.map(|ops| ops / 1e9)),
        ("Peak INT8 (Tops)", peak(1.0)),
        ("Peak FP16 (Tops)", peak(2.0)),
        ("Peak FP32 (Tops)", peak(4.0)),
        (
            "DDR limit (GB/s)",
            Some(profile.chip.spec().ddr_gbps * count),
        ),
        ("TIU clock (MHz)", Some(profile.tiu_mhz)),
        ("DMA clock (MHz)", Some(profile.dma_mhz)),
        ("Total (us)", Some(found.total_ns as f64 / 1000.0)),
        (
            "FPS (profiled runs per second)",
            (seconds > 0.0).then(|| 1.0 / seconds),
        ),
    ];
    let shares = [
        (
            "MAC utilisation",
            found.ladder.first().and_then(|step| step.mac_utilisation),
        ),
        ("Share of peak", found.peak_share),
        ("Share of the DDR limit", found.ddr_share),
        ("Computing", Some(found.compute_share)),
        ("Moving", Some(found.move_share)),
        ("Both at once", Some(found.overlap_share)),
        ("Neither", Some(found.idle_share)),
    ];
    let fixed = fixed.map(|(name, value)| (name, value, &style.fixed));
    let shares = shares.map(|(name, value)| (name, value, &style.percent));
    for (name, value, format) in fixed.into_iter().chain(shares) {
        let Some(value) = value else { continue };
        sheet.write_with_format(row, 0, name, &style.bold)?;
        sheet.write_with_format(row, 1, value, format)?;
        row += 1;
    }
    Ok(row + 1)
}

/// Writes the possible gains. Returns the row after them.
fn ladder(
    found: &Overview,
    mut row: u32,
    sheet: &mut Worksheet,
    style: &Style,
) -> Result<u32, XlsxError> {
    let names = [
        "Case (lower bounds, one after the other)",
        "Total (us)",
        "Faster by",
        "FPS",
        "MAC utilisation",
    ];
    header(sheet, row, 0, &names, &style.bold)?;
    for step in &found.ladder {
        row += 1;
        sheet.write(row, 0, step.what)?;
        sheet.write_with_format(row, 1, step.total_ns / 1000.0, &style.fixed)?;
        sheet.write_with_format(row, 2, step.speedup, &style.fixed)?;
        sheet.write_with_format(row, 3, 1e9 / step.total_ns, &style.fixed)?;
        if let Some(share) = step.mac_utilisation {
            sheet.write_with_format(row, 4, share, &style.percent)?;
        }
    }
    Ok(row)
}

/// Sums of a kind of layers.
#[derive(Default)]
struct Kind {
    count: u64,
    alg_ops: Option<f64>,
    uarch_ops: Option<f64>,
    tiu_cycles: u64,
    total_ns: i64,
}

/// Time by kind of layer; of operators if there are no layers.
fn kinds(
    profile: &Profile,
    found: &Overview,
    mut row: u32,
    sheet: &mut Worksheet,
    style: &Style,
) -> Written {
    let grouping = match profile.layers {
        Some(_) => Grouping::Layer,
        None => Grouping::Operator,
    };
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for group in roll_up(profile, grouping, &Filter::default()) {
        let kind = kinds.entry(group.kind.clone()).or_default();
        kind.count += group.count;
        let plus = |sum: &mut Option<f64>, ops: Option<f64>| {
            if let Some(ops) = ops {
                *sum = Some(sum.unwrap_or(0.0) + ops);
            }
        };
        plus(&mut kind.alg_ops, group.alg_ops);
        plus(&mut kind.uarch_ops, group.uarch_ops);
        kind.tiu_cycles += group.tiu_cycles;
        kind.total_ns += group.total_ns;
    }
    let mut kinds: Vec<(String, Kind)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.total_ns));
    let names = [
        "Function",
        "Count",
        "Algorithm OPs",
        "Algorithm OPs Ratio",
        "uArch OPs",
        "uArch URate",
        "ASIC Cycles",
        "Time (us)",
        "Time Ratio",
        "MAC utilisation",
    ];
    header(sheet, row, 0, &names, &style.bold)?;
    let all_ops: f64 = kinds.iter().filter_map(|(_, kind)| kind.alg_ops).sum();
    let all_ns: i64 = kinds.iter().map(|(_, kind)| kind.total_ns).sum();
    let peak = found.peak_gops / profile.cores.len().max(1) as f64;
    for (name, kind) in &kinds {
        row += 1;
        sheet.write(row, 0, name)?;
        let share = |part: Option<f64>, whole: f64| part.filter(|_| whole > 0.0).map(|p| p / whole);
        let ns = kind.total_ns as f64;
        let cells = [
            (Some(kind.count as f64), &style.whole),
            (kind.alg_ops, &style.whole),
            (share(kind.alg_ops, all_ops), &style.percent),
            (kind.uarch_ops, &style.whole),
            (
                share(kind.alg_ops, kind.uarch_ops.unwrap_or(0.0)),
                &style.percent,
            ),
            (Some(kind.tiu_cycles as f64), &style.whole),
            (Some(ns / 1000.0), &style.fixed),
            (share(Some(ns), all_ns as f64), &style.percent),
            (share(kind.alg_ops, ns * peak), &style.percent),
        ];
        for (column, (value, format)) in (1u16..).zip(cells) {
            if let Some(value) = value {
                sheet.write_with_format(row, column, value, format)?;
            }
        }
    }
    Ok(())
}
