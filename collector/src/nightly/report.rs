//! The result of a nightly run, as plain data, and the files of its summary.

use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::{Counts, Status, Timestamp};
use opreport::{Exit, units};
use serde::Serialize;

use super::digest::{Digest, Findings};
use super::history::Retention;
use super::{Job, NightlyError};
use crate::compare::{Comparison, Verdict};

/// The summary for people.
pub const SUMMARY_MD: &str = "summary.md";
/// The summary as a page in one file.
pub const SUMMARY_HTML: &str = "summary.html";
/// The summary for programs.
pub const NIGHTLY_JSON: &str = "night.json";

/// A nightly run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NightlyReport {
    /// Its date, as `2026-11-20`.
    pub date: String,
    /// The configuration.
    pub config: PathBuf,
    /// The folder of its runs and summary.
    pub folder: PathBuf,
    /// When it began.
    pub started: Timestamp,
    /// When its jobs had ended.
    pub ended: Timestamp,
    /// Time for all jobs, in ns.
    pub budget_ns: u64,
    /// Time they took, in ns.
    pub wall_ns: u64,
    /// Share of points that may fail.
    pub max_failed_share: f64,
    /// Whether it came to its end.
    pub state: NightlyState,
    /// The jobs, in the plan's order.
    pub jobs: Vec<JobReport>,
    /// The findings in the rows.
    pub findings: Findings,
    /// The comparison with the last usable run of each job.
    pub comparison: Option<Comparison>,
    /// Points that could not be compared, by reason.
    pub not_compared: Vec<NotCompared>,
    /// The older nightly runs that were kept or removed.
    pub retention: Retention,
}

/// Jobs that were not compared with an earlier nightly run, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// The reason.
    pub reason: String,
    /// Their names for people.
    pub jobs: Vec<String>,
}

/// Whether a nightly run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NightlyState {
    /// Every job was started, or its time was spent.
    Complete,
    /// The user stopped it.
    Interrupted,
}

/// A job of a nightly run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobReport {
    /// The model.
    pub model: String,
    /// The target.
    pub target: String,
    /// The sweep, if it was one.
    pub sweep: Option<String>,
    /// Number of earlier measurements of the same job, all disturbed.
    pub again: u32,
    /// Its name for people.
    pub label: String,
    /// Its folder below that of the nightly run.
    pub key: PathBuf,
    /// Its folder.
    pub folder: PathBuf,
    /// Its output; `None` if it was not started.
    pub log: Option<PathBuf>,
    /// Its share of the time budget, in ns.
    pub share_ns: u64,
    /// Time it took, in ns.
    pub wall_ns: u64,
    /// How the job ended.
    pub outcome: JobOutcome,
    /// Its rows, summarised.
    pub digest: Digest,
    /// The run that it is compared with.
    pub baseline: Option<PathBuf>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum JobOutcome {
    /// All points measured, or no more failed than allowed.
    Done,
    /// Done, but points failed.
    PointsFailed,
    /// It had been finished before, under the same date.
    Earlier,
    /// Its time was over before it was done.
    OutOfTime,
    /// The user stopped it.
    Interrupted,
    /// The job was not started.
    NotBegun {
        /// The reason.
        reason: String,
    },
    /// The job could not do its work.
    Failed {
        /// Its exit code, if it had one.
        exit_code: Option<i32>,
        /// The reason.
        reason: String,
    },
}

impl JobReport {
    /// A job that has not been started.
    pub fn new(job: &Job, folder: PathBuf, share: Duration) -> JobReport {
        JobReport {
            model: job.model.clone(),
            target: job.target.clone(),
            sweep: job.sweep.clone(),
            again: job.again,
            label: job.label(),
            key: job.key(),
            folder,
            log: None,
            share_ns: share.as_nanos() as u64,
            wall_ns: 0,
            outcome: JobOutcome::Done,
            digest: Digest::default(),
            baseline: None,
        }
    }

    /// How the job ended, in a few words.
    pub fn words(&self) -> String {
        let wall = units::wall(self.wall_ns);
        match &self.outcome {
            JobOutcome::Done => format!("done in {wall}"),
            JobOutcome::PointsFailed => format!("done in {wall}, some points failed"),
            JobOutcome::Earlier => "was done before".to_owned(),
            JobOutcome::OutOfTime => format!("stopped after {wall}, its share of the time"),
            JobOutcome::Interrupted => format!("interrupted after {wall}"),
            JobOutcome::NotBegun { reason } => format!("not begun: {reason}"),
            JobOutcome::Failed { exit_code, reason } => match exit_code {
                Some(code) => format!("failed (exit code {code}): {reason}"),
                None => format!("failed: {reason}"),
            },
        }
    }

    /// Whether it could not do its work.
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, JobOutcome::Failed { .. })
    }
}

impl NightlyReport {
    /// Number of points of all jobs by how they ended.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for (status, count) in self.jobs.iter().flat_map(|job| &job.digest.counts.ended) {
            *all.ended.entry(*status).or_default() += count;
        }
        all
    }

    /// Share of the points tried that failed.
    pub fn failed_share(&self) -> f64 {
        let counts = self.counts();
        let tried = counts.rows() - counts.of(Status::Skipped);
        if tried == 0 {
            return 0.0;
        }
        (tried - counts.timed() - counts.of(Status::Compiled)) as f64 / tried as f64
    }

    /// Regressions found.
    pub fn regressions(&self) -> u64 {
        self.comparison
            .as_ref()
            .map_or(0, |c| c.count(Verdict::Regression))
    }

    /// The exit code of the program, by the most urgent finding.
    pub fn exit(&self) -> Exit {
        let failed = self.jobs.iter().filter(|job| job.has_failed()).count();
        if self.state == NightlyState::Interrupted {
            Exit::Interrupted
        } else if self.regressions() > 0 {
            Exit::Regression
        } else if failed == self.jobs.len() {
            Exit::Failed
        } else if failed > 0 || self.failed_share() > self.max_failed_share {
            Exit::PointsFailed
        } else {
            Exit::Done
        }
    }
}

/// A file of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryFile {
    /// Its name in the folder of the nightly run.
    pub name: &'static str,
    /// Its content.
    pub text: String,
}

/// Writes the files of a summary into a folder.
pub(super) fn save(folder: &Path, files: &[SummaryFile]) -> Result<(), NightlyError> {
    for file in files {
        opdata::write_atomically(&folder.join(file.name), file.text.as_bytes())?;
    }
    Ok(())
}
