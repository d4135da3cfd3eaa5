//! `opcollect tpu`: the warnings of a dump, and its tables.

use std::fmt::Write as _;

use tpuprofile::analysis::rollup::{Grouping, roll_up};
use tpuprofile::export::summary;
use tpuprofile::job::{Done, Job, Output};
use tpuprofile::record::{RecordOptions, full_streams};
use tpuprofile::report::Severity;

/// Findings that are listed one by one; the rest is in `report.json`.
const FINDINGS: usize = 12;

/// Warnings about the tables: lost events, full buffers, another number of `cores` than stated.
pub(crate) fn warnings(
    job: &Job,
    cores: Option<u32>,
    recorded: Option<&RecordOptions>,
    done: &Done,
) -> String {
    let report = &done.profile.report;
    let mut text = String::new();
    let have = &done.profile.cores;
    for number in &job.filter.cores {
        if !have.iter().any(|core| core.number == *number) {
            let _ = writeln!(
                text,
                "warning: --core {number}: the dump has no core {number}; nothing of it is counted"
            );
        }
    }
    if let Some(cores) = cores.filter(|&n| n as usize != done.profile.cores.len()) {
        let have = done.profile.cores.len();
        let _ = writeln!(
            text,
            "warning: --num_core {cores}, but the dump has {have}; all of them are read"
        );
    }
    if let Some(options) = recorded {
        for stream in full_streams(&done.profile, options) {
            let _ = writeln!(
                text,
                "warning: {stream} reaches the configured number of records: the earliest may be gone; record again with a larger --record-size"
            );
        }
    }
    let large = report.findings.iter().filter(|f| f.kind == "trace_large");
    for finding in large {
        let _ = writeln!(text, "warning: {}: {}", finding.place, finding.text);
    }
    let losses: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Loss)
        .collect();
    for finding in losses.iter().take(FINDINGS) {
        let _ = writeln!(text, "warning: {}: {}", finding.place, finding.text);
    }
    if losses.len() > FINDINGS {
        let _ = writeln!(
            text,
            "warning: {} more findings in report.json",
            losses.len() - FINDINGS
        );
    }
    text
}

/// Findings that lose nothing, one a line.
pub(crate) fn notes(done: &Done) -> String {
    let findings = done.profile.report.findings.iter();
    findings
        .filter(|f| f.severity == Severity::Note)
        .map(|f| format!("note: {}: {}\n", f.place, f.text))
        .collect()
}

/// The files that were written, one a line.
pub(crate) fn files(done: &Done) -> String {
    let files = done.files.iter();
    files.map(|f| format!("wrote {}\n", f.display())).collect()
}

/// The summary, if it was requested or nothing else was, and a table for each grouping.
pub(crate) fn tables(job: &Job, groupings: &[Grouping], done: &Done) -> String {
    let mut text = String::new();
    if job.outputs.contains(&Output::Summary) || job.outputs.len() > 1 || !groupings.is_empty() {
        text.push_str(&summary::text(&done.profile, &done.summary));
    }
    text.push_str(&account(done));
    for &grouping in groupings {
        text.push_str(&groups(job, done, grouping));
    }
    text
}

/// One line that says how many records have their command.
fn account(done: &Done) -> String {
    let sum = |of: &dyn Fn(&tpuprofile::report::StreamCounts) -> u64| {
        done.profile.report.streams.iter().map(of).sum::<u64>()
    };
    format!(
        "records {}: matched {}, guessed {}, unmatched {}, without commands {}, outside {}, left out {}\n",
        sum(&|s| s.records),
        sum(&|s| s.matched),
        sum(&|s| s.guessed),
        sum(&|s| s.unmatched),
        sum(&|s| s.without_commands),
        sum(&|s| s.outside + s.preamble),
        sum(&|s| s.duplicates + s.implausible)
    )
}

fn groups(job: &Job, done: &Done, grouping: Grouping) -> String {
    let all = roll_up(&done.profile, grouping, &job.filter);
    let labels = all
        .iter()
        .take(job.top)
        .map(|group| group.label().chars().count());
    let wide = labels.max().unwrap_or(0).max(40);
    let mut text = format!(
        "\n{:<wide$} {:>7} {:>9} {:>14} {:>8} {:>12} {:>12} {:>10}\n",
        grouping.name(),
        "engine",
        "count",
        "total (us)",
        "share",
        "median (us)",
        "MiB",
        "Gop/s"
    );
    for group in all.iter().take(job.top) {
        let median = group.median_ns().unwrap_or(0.0);
        let rate = group
            .alg_ops
            .filter(|_| group.total_ns > 0)
            .map(|ops| ops / group.total_ns as f64);
        let _ = writeln!(
            text,
            "{:<wide$} {:>7} {:>9} {:>14.3} {:>7.2}% {:>12.3} {:>12.3} {:>10}",
            group.label(),
            group.engine.map_or("", |e| e.name()),
            group.count,
            group.total_ns as f64 / 1000.0,
            group.share * 100.0,
            median / 1000.0,
            group.bytes as f64 / f64::from(1 << 20),
            rate.map_or("-".to_string(), |r| format!("{r:.2}"))
        );
    }
    if all.len() > job.top {
        let _ = writeln!(text, "… {} more (--top)", all.len() - job.top);
    }
    text
}
