//! The sheet `Summary`, as in bigTpuProfile: the model, the peaks, time by kind of layer, and the ladder of possible
//! gains, with FPS and MAC utilisation. All of it comes from measurements, with findings in words.

use std::collections::BTreeMap;

use crate::analysis::gaps::find;
use crate::analysis::overview::{Overview, overview};
use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::roofline::peak_gops;
use crate::analysis::summary::Summary;
use crate::export::xlsx::Written;
use crate::export::xlsx::style::{self, Page};
use crate::profile::Profile;

/// Number of gaps to list, the longest first.
const GAPS: usize = 8;

/// Writes the sheet.
pub(super) fn write(
    profile: &Profile,
    summary: &Summary,
    element_bytes: f64,
    page: &mut Page<'_>,
) -> Written {
    page.widths([""; 12].into_iter(), 20.0)?;
    page.sheet.set_column_width(0, 68)?;
    // There are several tables, each with its own header. So the column with the names of the rows stays in view.
    page.sheet.set_freeze_panes(0, 1)?;
    let operators = roll_up(profile, Grouping::Operator, &Filter::default());
    let gaps = find(profile, GAPS);
    let found = overview(profile, summary, &operators, &gaps, element_bytes);
    let mut row = model(profile, &found, page)?;
    page.header(row, 0, "Findings")?;
    for text in &found.findings {
        row += 1;
        page.text(row, 0, text)?;
    }
    row = ladder(&found, row + 2, page)?;
    kinds(profile, &found, row + 2, page)
}

/// The model, the chip and the totals. Returns the row after them.
fn model(profile: &Profile, found: &Overview, page: &mut Page<'_>) -> Written<u32> {
    use style::Kind::{Fixed, Percent};
    let layers = profile.layers.as_ref();
    let count = profile.cores.len() as f64;
    let peak = |bytes: f64| {
        let tops = peak_gops(profile.chip.spec(), profile.tiu_mhz, bytes) * count / 1000.0;
        Some(tops)
    };
    let seconds = found.total_ns as f64 / 1e9;
    let net = layers.and_then(|l| l.net.clone());
    let mode = layers.and_then(|l| l.mode.clone());
    let texts = [
        ("Network", net.unwrap_or_else(|| profile.name())),
        ("Quant type", mode.unwrap_or_default()),
        ("Platform", profile.chip.to_string()),
        ("Bounded by", found.limit.name().to_string()),
    ];
    let mut row = 0;
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        page.header(row, 0, name)?;
        page.text(row, 1, text)?;
        row += 1;
    }
    let flops = layers.and_then(|l| l.flops).map(|ops| ops as f64 / 1e9);
    let ddr_gbps = profile.chip.spec().ddr_gbps * count;
    let fps = (seconds > 0.0).then(|| 1.0 / seconds);
    let utilisation = found.ladder.first().and_then(|step| step.mac_utilisation);
    let numbers = [
        ("Model GFLOPs (by the compiler)", flops, Fixed),
        (
            "Operations run (Gop)",
            found.alg_ops.map(|ops| ops / 1e9),
            Fixed,
        ),
        ("Peak INT8 (Tops)", peak(1.0), Fixed),
        ("Peak FP16 (Tops)", peak(2.0), Fixed),
        ("Peak FP32 (Tops)", peak(4.0), Fixed),
        ("DDR limit (GB/s)", Some(ddr_gbps), Fixed),
        ("TIU clock (MHz)", Some(profile.tiu_mhz), Fixed),
        ("DMA clock (MHz)", Some(profile.dma_mhz), Fixed),
        ("Total (us)", Some(found.total_ns as f64 / 1000.0), Fixed),
        ("FPS (profiled runs per second)", fps, Fixed),
        ("MAC utilisation", utilisation, Percent),
        ("Share of peak", found.peak_share, Percent),
        ("Share of the DDR limit", found.ddr_share, Percent),
        ("Computing", Some(found.compute_share), Percent),
        ("Moving", Some(found.move_share), Percent),
        ("Both at once", Some(found.overlap_share), Percent),
        ("Neither", Some(found.idle_share), Percent),
    ];
    for (name, value, kind) in numbers.into_iter().filter(|(_, value, _)| value.is_some()) {
        page.header(row, 0, name)?;
        page.numbers(row, 1, [(value, kind)])?;
        row += 1;
    }
    Ok(row + 1)
}

/// Writes the possible gains. Returns the row after them.
fn ladder(found: &Overview, mut row: u32, page: &mut Page<'_>) -> Written<u32> {
    use style::Kind::{Fixed, Percent};
    let names = "Case (lower bounds, one after the other)|Total (us)|Faster by|FPS|MAC utilisation";
    page.header(row, 0, names)?;
    for step in &found.ladder {
        row += 1;
        page.text(row, 0, step.what)?;
        let numbers = [
            (Some(step.total_ns / 1000.0), Fixed),
            (Some(step.speedup), Fixed),
            (Some(1e9 / step.total_ns), Fixed),
            (step.mac_utilisation, Percent),
        ];
        page.numbers(row, 1, numbers)?;
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
fn kinds(profile: &Profile, found: &Overview, mut row: u32, page: &mut Page<'_>) -> Written {
    use style::Kind::{Fixed, Percent, Whole};
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
    let names = "Function|Count|Algorithm OPs|Algorithm OPs Ratio|uArch OPs|uArch URate|ASIC Cycles|\
        Time (us)|Time Ratio|MAC utilisation";
    page.header(row, 0, names)?;
    let all_ops: f64 = kinds.iter().filter_map(|(_, kind)| kind.alg_ops).sum();
    let all_ns: i64 = kinds.iter().map(|(_, kind)| kind.total_ns).sum();
    let peak = found.peak_gops / profile.cores.len().max(1) as f64;
    let share = |part: Option<f64>, whole: f64| part.filter(|_| whole > 0.0).map(|p| p / whole);
    for (name, kind) in &kinds {
        row += 1;
        page.text(row, 0, name)?;
        let ns = kind.total_ns as f64;
        let uarch_ops = kind.uarch_ops.unwrap_or(0.0);
        let numbers = [
            (Some(kind.count as f64), Whole),
            (kind.alg_ops, Whole),
            (share(kind.alg_ops, all_ops), Percent),
            (kind.uarch_ops, Whole),
            (share(kind.alg_ops, uarch_ops), Percent),
            (Some(kind.tiu_cycles as f64), Whole),
            (Some(ns / 1000.0), Fixed),
            (share(Some(ns), all_ns as f64), Percent),
            (share(kind.alg_ops, ns * peak), Percent),
        ];
        page.numbers(row, 1, numbers)?;
    }
    Ok(())
}
