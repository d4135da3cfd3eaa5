//! `opcollect tpu`: reads, compares or records profile dumps and shows the result.
//!
//! Tables go to standard output, warnings to standard error. A dump that is damaged but readable ends with
//! [`Exit::PointsFailed`]: its files hold what could be read, and the report lists what could not.

use std::io::Write as _;

use opreport::output::print;
use opreport::{Exit, OutputFormat, Verbosity, View};
use serde_json::{Value, json};
use tpuprofile::diff::{diff, text as diff_text};
use tpuprofile::job::run_one;
use tpuprofile::record::{RecordOptions, record};

use crate::cli::tpu::{TpuReading, TpuRequest};
use crate::render::{tpu_files, tpu_notes, tpu_tables, tpu_warnings};

/// Carries out a request.
///
/// # Errors
/// A dump cannot be read, a file cannot be written, a command cannot be recorded, an option makes no sense.
pub(super) fn perform(request: TpuRequest, view: View) -> anyhow::Result<Exit> {
    match request {
        TpuRequest::Read(reading) => read(&reading, None, view),
        TpuRequest::Diff {
            a,
            b,
            by,
            ingest,
            filter,
            top,
        } => {
            let (a, b) = (
                tpuprofile::ingest(&a, &ingest)?,
                tpuprofile::ingest(&b, &ingest)?,
            );
            let result = diff(&a, &b, by, &filter);
            let warnings = result.warnings.iter();
            let warnings: String = warnings.map(|w| format!("warning: {w}\n")).collect();
            note(view, Verbosity::Normal, &warnings);
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
            Ok(Exit::Done)
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
            let recorded = format!("recorded {}\n", names.join(", "));
            note(view, Verbosity::Normal, &recorded);
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
    let mut objects = Vec::new();
    for (dump, out) in job.places() {
        let done = run_one(job, &dump, &out)?;
        if !done.profile.report.is_whole() {
            exit = Exit::PointsFailed;
        }
        note(
            view,
            Verbosity::Normal,
            &tpu_warnings(reading.cores, recorded, &done),
        );
        note(view, Verbosity::Verbose, &tpu_notes(&done));
        note(view, Verbosity::Normal, &tpu_files(&done));
        match view.format {
            OutputFormat::Json => objects.push(done.json(job)),
            OutputFormat::Text => {
                print(tpu_tables(&reading.job, &reading.tables, &done).as_bytes())?
            }
        }
    }
    if view.format == OutputFormat::Json {
        let object = if objects.len() == 1 {
            objects.remove(0)
        } else {
            json!({ "dumps": Value::Array(objects) })
        };
        print(format!("{object:#}\n").as_bytes())?;
    }
    Ok(exit)
}

/// Writes to standard error, if that much is to be shown.
fn note(view: View, least: Verbosity, text: &str) {
    if view.verbosity >= least && !text.is_empty() {
        // A closed standard error is no reason to stop.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
