//! A whole job: dumps in, chosen files out. It is `opcollect tpu` without the command line.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::analysis::rollup::Filter;
use crate::analysis::summary::{Summary, summarise};
use crate::error::{Error, Result, io_at};
use crate::export::host_trace::HostTrace;
use crate::export::{
    csv, json as profile_json, parquet, perfetto, reginfo, rows, summary, web, xlsx,
};
use crate::ingest::{IngestOptions, ingest};
use crate::profile::Profile;
use crate::report::{Report, Severity};
use crate::staged::Staged;

/// A kind of file to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Output {
    /// `summary.txt`.
    Summary,
    /// `perfetto.pftrace`.
    Perfetto,
    /// RegInfo text, CSV and workbook.
    Doc,
    /// `result.html`.
    Web,
    /// `profile.json`.
    Json,
    /// `events.parquet`.
    Parquet,
    /// A run of dataset rows.
    Rows,
}

/// The default outputs.
pub const DEFAULT_OUTPUTS: [Output; 2] = [Output::Summary, Output::Perfetto];

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Folders of dumps.
    pub dumps: Vec<PathBuf>,
    /// Where files go: into this folder for one dump, into one folder each in it for several.
    pub out: PathBuf,
    /// The files to write.
    pub outputs: BTreeSet<Output>,
    /// How the dump is read.
    pub ingest: IngestOptions,
    /// Host trace to merge into the Perfetto trace.
    pub trace_file: Option<PathBuf>,
    /// The events that roll-ups count.
    pub filter: Filter,
    /// Length of lists.
    pub top: usize,
}

impl Job {
    /// Checks the values.
    pub fn validate(&self) -> Result<()> {
        self.ingest.validate()?;
        if self.dumps.is_empty() {
            return Err(Error::Option {
                option: "DIR",
                what: "give at least one cdm_profile_data_* folder".into(),
            });
        }
        if self.top == 0 {
            return Err(Error::Option {
                option: "--top",
                what: "give a number more than 0".to_string(),
            });
        }
        if self.trace_file.is_some() && self.dumps.len() > 1 {
            return Err(Error::Option {
                option: "--trace_file",
                what: "a host trace belongs to one dump; give one folder".to_string(),
            });
        }
        Ok(())
    }

    /// Each dump with the folder of its files.
    pub fn places(&self) -> Vec<(PathBuf, PathBuf)> {
        if let [dump] = self.dumps.as_slice() {
            return vec![(dump.clone(), self.out.clone())];
        }
        let mut used = BTreeSet::new();
        self.dumps
            .iter()
            .map(|dump| {
                let name = dump
                    .file_name()
                    .map_or("dump".to_string(), |n| n.to_string_lossy().into_owned());
                let mut place = name.clone();
                let mut number = 2;
                while !used.insert(place.clone()) {
                    place = format!("{name}-{number}");
                    number += 1;
                }
                (dump.clone(), self.out.join(place))
            })
            .collect()
    }
}

/// A dump that was done.
#[derive(Debug)]
pub struct Done {
    /// The profile.
    pub profile: Profile,
    /// Its totals.
    pub summary: Summary,
    /// The folder of its files.
    pub out: PathBuf,
    /// The files written.
    pub files: Vec<PathBuf>,
}

impl Done {
    /// The JSON that `--json` prints.
    pub fn json(&self, job: &Job) -> Value {
        let mut object = profile_json::object(&self.profile, &self.summary, &job.filter, job.top);
        object["out"] = json!(self.out.display().to_string());
        object["files"] = json!(
            self.files
                .iter()
                .map(|f| f.display().to_string())
                .collect::<Vec<_>>()
        );
        object
    }
}

/// Reads one dump and writes its files.
pub fn run_one(job: &Job, dump: &Path, out: &Path) -> Result<Done> {
    let host = job.trace_file.as_deref().map(HostTrace::read).transpose()?;
    let staged = Staged::new(out)?;
    let options = IngestOptions {
        scratch: Some(staged.folder.clone()),
        ..job.ingest.clone()
    };
    let mut profile = ingest(dump, &options)?;
    if let (Some(host), Some(path)) = (&host, &job.trace_file) {
        note_host(host, path, &mut profile);
    }
    let summary = summarise(&profile);
    let mut done = Done {
        profile,
        summary,
        out: out.to_path_buf(),
        files: Vec::new(),
    };
    for output in &job.outputs {
        write(job, &mut done, *output, host.as_ref(), &staged.folder)?;
    }
    let path = staged.folder.join("report.json");
    write_report(&path, &done.profile.report)?;
    done.files.push(path);
    staged.publish(&mut done.files)?;
    Ok(done)
}

/// Says what the host's trace lacks.
fn note_host(host: &HostTrace, path: &Path, profile: &mut Profile) {
    let place = path.display();
    if host.slices.is_empty() {
        let text = "no event of category tpudnn in it, so nothing of the host is in the trace";
        let report = &mut profile.report;
        report.lose("host_events_missing", place, 1, text.to_string());
    } else if !host.is_anchored(profile) {
        let text = "no end of disable_profile, or no tail_offset_ns in global.profile: the host is aligned by the end of \
                    its first tpudnn event";
        let report = &mut profile.report;
        report.add(Severity::Note, "host_alignment", place, 1, text.to_string());
    }
}

fn write_report(path: &Path, report: &Report) -> Result<()> {
    let failed = || io_at(path, "cannot write");
    let mut out = BufWriter::new(File::create(path).map_err(failed())?);
    serde_json::to_writer_pretty(&mut out, report).map_err(|error| failed()(error.into()))?;
    out.write_all(b"\n")
        .and_then(|()| out.flush())
        .map_err(failed())
}

/// Says that a trace is too large for a browser.
fn note_size(path: &Path, report: &mut Report) {
    const MOST: u64 = 2 << 30;
    let bytes = std::fs::metadata(path).map_or(0, |m| m.len());
    if bytes > MOST {
        let text = format!(
            "{:.1} GiB: more than the 2 GiB that ui.perfetto.dev holds in a browser; open it with trace_processor_shell, \
             or write a part of the time (--from, --to)",
            bytes as f64 / f64::from(1 << 30)
        );
        report.add(Severity::Note, "trace_large", "perfetto.pftrace", 1, text);
    }
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(io_at(path, "cannot write"))
}

fn write(
    job: &Job,
    done: &mut Done,
    output: Output,
    host: Option<&HostTrace>,
    out: &Path,
) -> Result<()> {
    let profile = &done.profile;
    match output {
        Output::Summary => {
            let path = out.join("summary.txt");
            write_text(&path, &summary::text(profile, &done.summary))?;
            done.files.push(path);
        }
        Output::Perfetto => {
            let path = out.join("perfetto.pftrace");
            perfetto::write(profile, host, &path)?;
            note_size(&path, &mut done.profile.report);
            done.files.push(path);
        }
        Output::Doc => {
            let files = reginfo::write(profile, out)?;
            done.files.extend(files);
            let folder = out.join("PerfDoc");
            std::fs::create_dir_all(&folder).map_err(io_at(&folder, "cannot make the folder"))?;
            let name = done
                .out
                .file_name()
                .map_or("profile".to_string(), |n| n.to_string_lossy().into_owned());
            let (table, book) = (
                folder.join(format!("{name}.csv")),
                folder.join(format!("{name}.xlsx")),
            );
            csv::write(profile, &table)?;
            xlsx::write(profile, &done.summary, &book)?;
            done.files.extend([table, book]);
        }
        Output::Web => {
            let path = out.join("result.html");
            web::write(profile, &done.summary, web::MOST_COMMANDS, &path)?;
            done.files.push(path);
        }
        Output::Json => {
            let path = out.join("profile.json");
            let object = profile_json::object(profile, &done.summary, &job.filter, job.top);
            write_text(&path, &format!("{object:#}\n"))?;
            done.files.push(path);
        }
        Output::Parquet => {
            let path = out.join("events.parquet");
            parquet::write(profile, &path)?;
            done.files.push(path);
        }
        Output::Rows => {
            let run_id = format!(
                "{}-tpu-{}",
                opdata::Timestamp::now().compact(),
                profile.name()
            );
            let folder = out.join("rows");
            let files = rows::write(profile, &run_id, &folder, &job.filter)?;
            done.files.extend(files);
        }
    }
    Ok(())
}
