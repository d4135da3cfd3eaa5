//! `opcollect tpu`: reads, compares or records profile dumps and shows the result.
//!
//! Tables go to standard output, warnings to standard error. A dump that is damaged but readable ends with
//! [`Exit::PointsFailed`]: its files hold what could be read, and the report lists what could not.

use opreport::output::print;
use opreport::{Exit, OutputFormat, Verbosity, View};
use serde_json::{Value, json};
use tpuprofile::export::comparison::{Side, remove_old, write as write_comparison};
use tpuprofile::job::{Output, run_one};
use tpuprofile::record::{RecordOptions, record};

use crate::diff::{Comparison, note};
use crate::request::{TpuReading, TpuRequest};
use crate::tables::{files, notes, tables, warnings};

/// Carries out a request.
///
/// # Errors
/// Fails if a dump cannot be read, a file cannot be written, a command cannot be recorded, an option makes no sense.
pub(crate) fn perform(request: TpuRequest, view: View) -> anyhow::Result<Exit> {
    match request {
        TpuRequest::Read(reading) => read(&reading, None, view),
        TpuRequest::Diff {
            first,
            others,
            by,
            ingest,
            filter,
            top,
            fail_above,
        } => {
            let mut comparison = Comparison::of(&first, others.len() > 1, &ingest)?;
            for dump in &others {
                comparison.add(dump, &ingest, by, &filter, view)?;
            }
            comparison.show(top, view)?;
            Ok(comparison.verdict(fail_above, view))
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
    let places = job.places();
    let several = places.len() > 1;
    let compared = several && job.outputs.contains(&Output::Web);
    let mut sides = Vec::new();
    let mut unread = Vec::new();
    let (mut any, mut failed) = (false, None);
    for (dump, out) in places {
        let done = match run_one(job, &dump, &out) {
            Ok(done) => done,
            // A folder that cannot be read does not stop the others.
            Err(error) if several => {
                let text = format!("error: {error}; the other dumps are read\n");
                note(view, Verbosity::Quiet, &text);
                exit = Exit::PointsFailed;
                failed.get_or_insert(error);
                unread.push(dump);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        any = true;
        if compared {
            let (profile, summary) = (&done.profile, &done.summary);
            sides.push(Side::of(profile, summary, &job.filter, &out));
        }
        if !done.profile.report.is_whole() {
            exit = Exit::PointsFailed;
        }
        note(
            view,
            Verbosity::Normal,
            &warnings(job, reading.cores, recorded, &done),
        );
        note(view, Verbosity::Verbose, &notes(&done));
        note(view, Verbosity::Normal, &files(&done));
        match view.format {
            OutputFormat::Json => objects.push(done.json(job)),
            OutputFormat::Text => print(tables(&reading.job, &reading.tables, &done).as_bytes())?,
        }
    }
    if let (Some(error), false) = (failed, any) {
        return Err(error.into());
    }
    let page = job.out.join("comparison.html");
    if several {
        remove_old(&page)?;
    }
    if sides.len() > 1 {
        write_comparison(&sides, &unread, job.top, &page)?;
        let text = format!("compared in {}\n", page.display());
        note(view, Verbosity::Normal, &text);
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
