//! The report of an evaluation as text.

use std::fmt::Write;

use oplearn::crossval::metrics::Metrics;

use super::render::{optional, too_few};
use crate::eval::Report;
use crate::eval::report::Ordering;

fn metrics_line(name: &str, m: &Metrics) -> String {
    format!(
        "{name:<24} {:>8} {:>8.1} {:>8.1} {:>6.1} {:>6.1} {:>6.1} {:>8} {:>8}\n",
        m.samples,
        m.mape,
        m.median_ape,
        m.within_5,
        m.within_10,
        m.within_20,
        optional(m.r2_log2, 3),
        optional(m.spearman, 3),
    )
}

fn ordering_line(name: &str, o: &Ordering) -> String {
    format!(
        "{name}: pairwise {} % (all pairs {} %), top-1 {}, top-5 {} over {} workloads\n",
        optional(o.pairwise, 1),
        optional(o.pairwise_micro, 1),
        optional(o.top1, 3),
        optional(o.top5, 3),
        o.ranked_workloads
    )
}

/// The report of an evaluation; `workloads` lines by workload.
pub fn report(report: &Report, workloads: usize) -> String {
    let mut text = format!(
        "{} {:?}: {} samples of {} rows, {} workloads, {} folds\n",
        report.split,
        report.model,
        report.overall.samples,
        report.data.rows,
        report.workloads,
        report.folds
    );
    let noise = report.data.repeat_noise;
    if report.data.duplicates > 0 {
        let _ = writeln!(
            text,
            "{} rows repeat a point (median spread {} %)",
            report.data.duplicates,
            optional(noise.map(|n| 100.0 * n), 1)
        );
    }
    for (reason, count) in &report.data.left_out {
        let _ = writeln!(text, "{count} records left out: {reason}");
    }
    let _ = writeln!(
        text,
        "\n{:<24} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>8}",
        "", "samples", "MAPE %", "median %", "±5 %", "±10 %", "±20 %", "R2 log2", "Spearman"
    );
    text.push_str(&metrics_line("all", &report.overall));
    for (kind, metrics) in &report.by_kind {
        text.push_str(&metrics_line(kind, metrics));
    }
    let _ = writeln!(
        text,
        "\nMAPE as the mean over workloads: {:.1} %",
        report.mape_workloads
    );
    text.push_str(&ordering_line("predicted times", &report.ordering));
    if let Some(ranker) = &report.ranker {
        text.push_str(&ordering_line("ranker", ranker));
    }
    if let Some(c) = &report.coverage {
        let _ = writeln!(
            text,
            "intervals of {:.0} % hold {:.1} % of the samples ({:.1} % as the mean over workloads); median upper/lower end {:.2}",
            c.nominal, c.samples, c.workloads, c.median_ratio
        );
        if report.workloads < c.workloads_needed {
            let _ = writeln!(
                text,
                "{}",
                too_few(report.workloads, c.nominal, c.workloads_needed)
            );
        }
    }
    for point in &report.curve {
        let _ = writeln!(
            text,
            "learned from {:.0} %: MAPE {:.1} %, pairwise {} %",
            100.0 * point.share,
            point.mape,
            optional(point.pairwise, 1)
        );
    }
    text.push_str(&models(report));
    text.push_str(&by_workload(report, workloads));
    text
}

/// Whole models from their operators; nothing where none was held out.
fn models(report: &Report) -> String {
    let mut text = String::new();
    if !report.models.is_empty() {
        let _ = writeln!(
            text,
            "\n{:>8} {:>12} {:>12} {:>8}  model",
            "threads", "measured ms", "predicted ms", "error %"
        );
        for m in &report.models {
            let _ = writeln!(
                text,
                "{:>8} {:>12.3} {:>12.3} {:>8.1}  {}",
                m.threads, m.measured_ms, m.predicted_ms, m.error, m.model
            );
        }
    }
    text
}

/// The workloads with most samples.
fn by_workload(report: &Report, workloads: usize) -> String {
    let mut text = String::new();
    if workloads > 0 {
        let _ = writeln!(
            text,
            "\n{:>8} {:>8} {:>8} {:>9}  workload",
            "samples", "MAPE %", "bias", "pairwise"
        );
        for w in report.by_workload.iter().take(workloads) {
            let _ = writeln!(
                text,
                "{:>8} {:>8.1} {:>8.2} {:>9}  {}",
                w.samples,
                w.mape,
                w.bias_log2,
                optional(w.pairwise, 1),
                w.workload
            );
        }
    }
    text
}
