//! The front page: how the time was spent, what bounds it, what would help, in numbers and in sentences.
//!
//! Shares are of cores × total time. The ladder of "what if" is bigTpuProfile's idea (its sheet `Summary`). Each step
//! gives the shortest time of the dump without one kind of loss. Steps are lower bounds computed from measurements, not
//! predictions: a program may not reach them.

use opreport::units::{count as counted, time};
use serde::Serialize;

use crate::analysis::gaps::{Cause, Gaps};
use crate::analysis::rollup::Group;
use crate::analysis::roofline::peak_gops;
use crate::analysis::summary::{CoreTotals, Summary, ratio};
use crate::profile::Profile;
use crate::report::Engine;

/// The resource that takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Computation.
    Compute,
    /// Transfers, near the DDR limit.
    DdrBandwidth,
    /// Transfers, far from the DDR limit.
    Transfers,
    /// Neither: waiting for the host, launches or other cores.
    Waiting,
}

impl Limit {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Compute => "computation",
            Limit::DdrBandwidth => "DDR bandwidth",
            Limit::Transfers => "transfers (not by DDR bandwidth)",
            Limit::Waiting => "waiting (launches, host, other cores)",
        }
    }
}

/// A step of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// The loss that is assumed to be gone.
    pub what: &'static str,
    /// The shortest possible time then, in ns.
    pub total_ns: f64,
    /// The measured total over that time.
    pub speedup: f64,
    /// Operations of the model over what the hardware could do in that time, where known.
    pub mac_utilisation: Option<f64>,
}

/// The overview of a dump.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// First start to last end in ns.
    pub total_ns: i64,
    /// Moments with computation.
    pub compute_share: f64,
    /// Moments with a transfer.
    pub move_share: f64,
    /// Moments with both.
    pub overlap_share: f64,
    /// Moments with neither.
    pub idle_share: f64,
    /// Operations of the algorithm, where commands tell.
    pub alg_ops: Option<f64>,
    /// Peak of all cores in Gop/s for the element type of most of the work.
    pub peak_gops: f64,
    /// Operations of the algorithm over the peak's in the total time.
    pub peak_share: Option<f64>,
    /// Bytes from and to DDR, where directions are known.
    pub ddr_bytes: Option<u64>,
    /// These bytes over what DDR could move in the total time.
    pub ddr_share: Option<f64>,
    /// The resource that bounds it.
    pub limit: Limit,
    /// The three that matter most, in words.
    pub findings: Vec<String>,
    /// Possible gains, the smallest first.
    pub ladder: Vec<WhatIf>,
}

/// Makes the overview. `operators` are those of the whole dump, longest first; `element_bytes` is that of most work.
pub fn overview(
    profile: &Profile,
    summary: &Summary,
    operators: &[Group],
    gaps: &Gaps,
    element_bytes: f64,
) -> Overview {
    let spec = profile.chip.spec();
    let cores = &summary.cores;
    let count = cores.len().max(1) as f64;
    let total = summary.total_ns as f64;
    let mean = |of: &dyn Fn(&CoreTotals) -> f64| cores.iter().map(of).sum::<f64>() / count;
    let known: Vec<f64> = cores.iter().filter_map(|core| core.alg_ops).collect();
    let alg_ops = (!known.is_empty()).then(|| known.iter().sum::<f64>());
    let peak = peak_gops(spec, profile.tiu_mhz, element_bytes) * count;
    let directions = cores
        .iter()
        .all(|core| core.gdma.unknown_direction_bytes + core.sdma.unknown_direction_bytes == 0);
    let ddr = |core: &CoreTotals| core.gdma.ddr.bytes + core.sdma.ddr.bytes;
    let ddr_bytes = directions.then(|| cores.iter().map(ddr).sum::<u64>());
    let ddr_share = ddr_bytes.map(|bytes| ratio(bytes as f64, total * spec.ddr_gbps * count));
    let mut overview = Overview {
        total_ns: summary.total_ns,
        compute_share: mean(&|core| core.compute_share),
        move_share: mean(&|core| core.move_share),
        overlap_share: mean(&|core| core.overlap_share),
        idle_share: mean(&|core| core.idle_share),
        alg_ops,
        peak_gops: peak,
        peak_share: alg_ops.map(|ops| ratio(ops, peak * total)),
        ddr_bytes,
        ddr_share,
        limit: Limit::Waiting,
        findings: Vec::new(),
        ladder: Vec::new(),
    };
    overview.limit = limit(&overview);
    overview.ladder = ladder(profile, summary, &overview);
    overview.findings = findings(summary, &overview, operators, gaps);
    overview
}

/// If DDR reaches at least this share of its bandwidth while transfers run, the bandwidth bounds them.
const NEAR_LIMIT: f64 = 0.6;

fn limit(o: &Overview) -> Limit {
    let while_moving = o.ddr_share.map(|share| ratio(share, o.move_share));
    if o.idle_share > o.compute_share.max(o.move_share) {
        Limit::Waiting
    } else if o.compute_share >= o.move_share {
        Limit::Compute
    } else if while_moving.is_some_and(|share| share >= NEAR_LIMIT) {
        Limit::DdrBandwidth
    } else {
        Limit::Transfers
    }
}

fn ladder(profile: &Profile, summary: &Summary, o: &Overview) -> Vec<WhatIf> {
    let spec = profile.chip.spec();
    let total = summary.total_ns as f64;
    let longest =
        |of: &dyn Fn(&CoreTotals) -> f64| summary.cores.iter().map(of).fold(0.0, f64::max);
    let compute = |core: &CoreTotals| core.tiu.busy_ns as f64;
    let moving = |core: &CoreTotals| core.move_share * total;
    let model_ops = profile.layers.as_ref().and_then(|layers| layers.flops);
    let model_ops = model_ops.map(|ops| ops as f64).or(o.alg_ops);
    let mut steps = vec![
        ("as it was measured", total),
        (
            "no moment with neither computation nor transfer",
            longest(&|core| (1.0 - core.idle_share) * total),
        ),
        (
            "all transfers behind computation, or all computation behind transfers",
            longest(&|core| compute(core).max(moving(core))),
        ),
    ];
    if o.ddr_bytes.is_some() {
        let at_limit =
            |core: &CoreTotals| (core.gdma.ddr.bytes + core.sdma.ddr.bytes) as f64 / spec.ddr_gbps;
        steps.push((
            "and transfers at the DDR limit",
            longest(&|core| compute(core).max(at_limit(core))),
        ));
        if o.alg_ops.is_some() {
            let useful = |core: &CoreTotals| match (core.alg_ops, core.uarch_ops) {
                (Some(alg), Some(uarch)) if uarch > alg => compute(core) * alg / uarch,
                _ => compute(core),
            };
            steps.push((
                "and no operation spent on padding",
                longest(&|core| useful(core).max(at_limit(core))),
            ));
            let peak = o.peak_gops / summary.cores.len().max(1) as f64;
            let at_peak = |core: &CoreTotals| core.alg_ops.unwrap_or(0.0) / peak;
            steps.push((
                "and computation at the peak",
                longest(&|core| at_peak(core).max(at_limit(core))),
            ));
        }
    }
    let mut before = f64::INFINITY;
    let step = |(what, ns): (&'static str, f64)| {
        // Each step keeps the savings of the steps before it, so its time is no longer.
        before = before.min(ns);
        WhatIf {
            what,
            total_ns: before,
            speedup: ratio(total, before),
            mac_utilisation: model_ops
                .filter(|_| before > 0.0)
                .map(|ops| ops / o.peak_gops / before),
        }
    };
    steps
        .into_iter()
        .filter(|(_, ns)| *ns > 0.0)
        .map(step)
        .collect()
}

fn findings(summary: &Summary, o: &Overview, operators: &[Group], gaps: &Gaps) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut found = vec![bounds(o)];
    found.extend(slowest_core(summary));
    found.extend(waits(summary, gaps));
    found.extend(heaviest(summary, operators, Engine::Tiu));
    found.extend(heaviest(summary, operators, Engine::Gdma));
    found.truncate(SHOWN);
    found
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn bounds(o: &Overview) -> String {
    let hidden = ratio(o.overlap_share, o.compute_share.min(o.move_share));
    let mut text = format!(
        "It is bounded by {}: the TIU computes in {} of the time, a DMA engine moves in {}, and {} of the shorter of the two lies \
         behind the other",
        o.limit.name(),
        percent(o.compute_share),
        percent(o.move_share),
        percent(hidden)
    );
    if let Some(share) = o.ddr_share.filter(|_| o.move_share > 0.0) {
        let rate = ratio(share, o.move_share);
        text += &format!("; while it moves, DDR is used to {}", percent(rate));
    }
    text + "."
}

/// A finding about the slowest core, if the cores' loads differ.
fn slowest_core(summary: &Summary) -> Option<String> {
    const UNEVEN: f64 = 0.1;
    let busy = |core: &CoreTotals| core.compute_share + core.move_share - core.overlap_share;
    let most = summary
        .cores
        .iter()
        .max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let mean = summary.cores.iter().map(busy).sum::<f64>() / summary.cores.len() as f64;
    (busy(most) - mean > UNEVEN).then(|| {
        format!(
            "The cores are not loaded alike: core {} works in {} of the time, all of them in {} on average.",
            most.core,
            percent(busy(most)),
            percent(mean)
        )
    })
}

fn waits(summary: &Summary, gaps: &Gaps) -> Option<String> {
    let (cause, (count, ns)) = gaps.by_cause.iter().max_by_key(|(_, (_, ns))| *ns)?;
    let idle: i64 = gaps.by_cause.values().map(|(_, ns)| ns).sum();
    let longest = gaps.longest.first()?;
    let what = match cause {
        Cause::Launch => "nothing that is recorded (the host, or the next launch)",
        Cause::Sync => "other cores or engines (sync commands)",
        Cause::Gdma => "GDMA transfers",
        Cause::Sdma => "SDMA transfers",
        Cause::Cdma => "CDMA transfers",
    };
    Some(format!(
        "The TIU waits in {} of the time; {} of that for {what} ({} gaps). The longest gap, {} on core {} at {}, \
         ends with {}.",
        percent(ratio(
            idle as f64,
            (summary.total_ns * summary.cores.len() as i64) as f64
        )),
        percent(ratio(*ns as f64, idle as f64)),
        counted(*count as f64),
        time(longest.length_ns as f64),
        longest.core,
        time(longest.start_ns as f64),
        longest.before.as_deref().unwrap_or("the end of the dump")
    ))
}

/// The operator that takes most of an engine's time.
fn heaviest(summary: &Summary, operators: &[Group], engine: Engine) -> Option<String> {
    let group = operators
        .iter()
        .find(|group| group.engine == Some(engine))?;
    let work: i64 = summary
        .cores
        .iter()
        .map(|core| match engine {
            Engine::Tiu => core.tiu.work_ns,
            _ => core.gdma.work_ns,
        })
        .sum();
    let rate = match (group.alg_ops, group.uarch_ops) {
        (Some(alg), Some(uarch)) if uarch > 0.0 => format!(
            " and needs {} of the operations that the hardware ran for it",
            percent(alg / uarch)
        ),
        _ => String::new(),
    };
    Some(format!(
        "{} takes {} of the {engine}'s time ({} commands){rate}.",
        group.name,
        percent(ratio(group.total_ns as f64, work as f64)),
        counted(group.count as f64)
    ))
}
