//! `opcollect tpu`: runs the requests of the command line on `tpuprofile` and says what came of them.
//!
//! Data goes to standard output, talk to standard error. A dump that is read but not whole ends with
//! [`Exit::PointsFailed`]: its files hold what can be known, and the account what cannot.

use std::fmt::Write as _;
use std::io::Write as _;

use opreport::output::print;
use opreport::{Exit, OutputFormat, Verbosity, View};
use serde_json::{Value, json};
use tpuprofile::analysis::rollup::{Grouping, roll_up};
use tpuprofile::diff::{diff, text as diff_text};
use tpuprofile::export::summary;
use tpuprofile::job::{Done, Job, Output, run_one};
use tpuprofile::record::{RecordOptions, full_streams, record};
use tpuprofile::report::Severity;

use crate::cli::tpu::{TpuReading, TpuRequest};

/// Findings that are told one by one; the rest is in `report.json`.
const FINDINGS: usize = 12;

/// Does what was asked for.
///
/// # Errors
/// A dump cannot be read, a file cannot be written, a command cannot be recorded, an option makes no sense.
pub fn perform(request: TpuRequest, view: View) -> anyhow::Result<Exit> {
    match request {
        TpuRequest::Read(reading) => read(&reading, None, view),
        TpuRequest::Diff {
            a,
            b,
            by,
            ingest,
            filter,
            top,
            fail_above,
        } => {
            let (a, b) = (
                tpuprofile::ingest(&a, &ingest)?,
                tpuprofile::ingest(&b, &ingest)?,
            );
            let result = diff(&a, &b, by, &filter);
            talk(
                view,
                Verbosity::Normal,
                &result
                    .warnings
                    .iter()
                    .map(|w| format!("warning: {w}\n"))
                    .collect::<String>(),
            );
            match view.format {
                OutputFormat::Json => {
                    let mut object = json!(result);
                    if let Some(changes) = object["changes"].as_array_mut() {
                        changes.truncate(top);
                    }
                    print(format!("{object:#}\n").as_bytes())?;
                }
                OutputFormat::Text => print(diff_text(&result, top).as_bytes())?,
            }
            match (fail_above, result.ratio) {
                (Some(percent), Some(ratio)) if (ratio - 1.0) * 100.0 > percent => {
                    let text = format!(
                        "the second dump takes {:.2} % longer, more than --fail-above {percent} %\n",
                        (ratio - 1.0) * 100.0
                    );
                    talk(view, Verbosity::Normal, &text);
                    Ok(Exit::Regression)
                }
                _ => Ok(Exit::Done),
            }
        }
        TpuRequest::Record {
            options,
            mut reading,
        } => {
            reading.job.ingest.validate()?;
            reading.job.dumps = record(&options)?;
            let names: Vec<String> = reading
                .job
                .dumps
                .iter()
                .map(|d| d.display().to_string())
                .collect();
            talk(
                view,
                Verbosity::Normal,
                &format!("recorded {}\n", names.join(", ")),
            );
            read(&reading, Some(&options), view)
        }
    }
}

fn read(
    reading: &TpuReading,
    recorded: Option<&RecordOptions>,
    view: View,
) -> anyhow::Result<Exit> {
    let job = &reading.job;
    job.validate()?;
    let mut exit = Exit::Done;
    let mut any = false;
    let mut objects = Vec::new();
    let places = job.places();
    let several = places.len() > 1;
    let mut failed = None;
    for (dump, out) in places {
        let done = match run_one(job, &dump, &out) {
            Ok(done) => done,
            // One bad folder does not cost the others.
            Err(error) if several => {
                let text = format!("error: {error}; the other dumps are read\n");
                talk(view, Verbosity::Quiet, &text);
                exit = Exit::PointsFailed;
                failed.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        any = true;
        if !done.profile.report.is_whole() {
            exit = Exit::PointsFailed;
        }
        tell(reading, recorded, &done, view);
        match view.format {
            OutputFormat::Json => objects.push(done.json(job)),
            OutputFormat::Text => print(tables(reading, &done).as_bytes())?,
        }
    }
    if let (Some(error), false) = (failed, any) {
        return Err(error.into());
    }
    if view.format == OutputFormat::Json {
        let object = if objects.len() == 1 && !several {
            objects.remove(0)
        } else {
            json!({ "dumps": Value::Array(objects) })
        };
        print(format!("{object:#}\n").as_bytes())?;
    }
    Ok(exit)
}

fn tell(reading: &TpuReading, recorded: Option<&RecordOptions>, done: &Done, view: View) {
    let report = &done.profile.report;
    let mut text = String::new();
    if let Some(cores) = reading
        .cores
        .filter(|&n| n as usize != done.profile.cores.len())
    {
        let have = done.profile.cores.len();
        let _ = writeln!(
            text,
            "warning: --num_core {cores}, but the dump has {have}; all of them are read"
        );
    }
    let cores = &done.profile.cores;
    for number in &reading.job.filter.cores {
        if !cores.iter().any(|core| core.number == *number) {
            let _ = writeln!(
                text,
                "warning: --core {number}: the dump has no core {number}; nothing of it is counted"
            );
        }
    }
    if let Some(options) = recorded {
        for stream in full_streams(&done.profile, options) {
            let _ = writeln!(
                text,
                "warning: {stream} reaches the configured number of records: the earliest may be gone; record again with a larger --record-size"
            );
        }
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
    talk(view, Verbosity::Normal, &text);
    let notes = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Note);
    talk(
        view,
        Verbosity::Verbose,
        &notes
            .map(|f| format!("note: {}: {}\n", f.place, f.text))
            .collect::<String>(),
    );
    let files: String = done
        .files
        .iter()
        .map(|f| format!("wrote {}\n", f.display()))
        .collect();
    talk(view, Verbosity::Normal, &files);
}

fn tables(reading: &TpuReading, done: &Done) -> String {
    let job = &reading.job;
    let mut text = String::new();
    if job.outputs.contains(&Output::Summary) || job.outputs.len() > 1 || !reading.tables.is_empty()
    {
        text.push_str(&summary::text(&done.profile, &done.summary));
    }
    text.push_str(&account(done));
    for &grouping in &reading.tables {
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
    let mut text = format!(
        "\n{:<40} {:>7} {:>9} {:>14} {:>8} {:>12} {:>12} {:>10}\n",
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
            "{:<40} {:>7} {:>9} {:>14.3} {:>7.2}% {:>12.3} {:>12.3} {:>10}",
            group.name,
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

fn talk(view: View, least: Verbosity, text: &str) {
    if view.verbosity >= least && !text.is_empty() {
        // A closed standard error is no reason to stop.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
