//! A validated plan of a nightly run, where its results go, and the command line of each job.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::safe_file_name;
use serde::Serialize;

use super::jobs;

/// A validated nightly configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NightlyPlan {
    /// The configuration file.
    pub config: PathBuf,
    /// Folder of all nightly runs.
    pub dataset: PathBuf,
    /// The date, as `2026-11-20` (UTC).
    pub date: String,
    /// Time for all jobs, in ns.
    pub budget_ns: u64,
    /// Number of nightly runs to keep.
    pub keep: u64,
    /// The slowdown that counts as a regression.
    pub threshold: f64,
    /// Share of points that may fail.
    pub max_failed_share: f64,
    /// Whether jobs under interference are measured again in the time left of the budget.
    pub repeat_disturbed: bool,
    /// The jobs, in order.
    pub jobs: Vec<Job>,
}

/// One model on one target with one sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Name of the model's partition.
    pub model: String,
    /// Source of the model.
    pub source: String,
    /// The model, as the main job takes it.
    pub name: String,
    /// The target.
    pub target: String,
    /// The sweep; `None` for the default schedules alone.
    pub sweep: Option<String>,
    /// Number of earlier measurements of the same job, all disturbed.
    pub again: u32,
    /// Its weight in the division of the time budget.
    pub weight: f64,
    /// Flags of the main job with their values.
    pub settings: BTreeMap<String, String>,
}

impl NightlyPlan {
    /// Time for all jobs.
    pub fn budget(&self) -> Duration {
        Duration::from_nanos(self.budget_ns)
    }

    /// Folder of this nightly run.
    pub fn night_folder(&self) -> PathBuf {
        self.dataset.join(format!("date={}", self.date))
    }

    /// Folder of a job's run.
    pub fn job_folder(&self, job: &Job) -> PathBuf {
        self.night_folder().join(job.key())
    }

    /// File for a job's output.
    pub fn job_log(&self, job: &Job) -> PathBuf {
        let name = job.key().to_string_lossy().replace('/', ",");
        self.night_folder()
            .join(jobs::LOGS)
            .join(format!("{name}.log"))
    }
}

/// Distinguishes a repeated measurement by the number of those before; `None` for the first.
pub fn again_name(before: u32) -> Option<String> {
    match before {
        0 => None,
        1 => Some("again".to_owned()),
        more => Some(format!("again-{more}")),
    }
}

impl Job {
    /// Its folder below that of a nightly run: the same every night. Further measurements are beside the first.
    pub fn key(&self) -> PathBuf {
        let again = again_name(self.again).map_or_else(String::new, |again| format!("-{again}"));
        let sweep = safe(self.sweep.as_deref().unwrap_or("none"));
        [
            format!("model={}", self.model),
            format!("backend={}", safe(&self.target)),
            format!("sweep={sweep}{again}"),
        ]
        .iter()
        .collect()
    }

    /// Its name for people.
    pub fn label(&self) -> String {
        let words = [Some(&self.model), Some(&self.target), self.sweep.as_ref()];
        let words = words.into_iter().flatten().cloned();
        words
            .chain(again_name(self.again))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The command line of the main job that measures it into `out` within `time`.
    pub fn arguments(&self, out: &Path, time: Duration) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![
            "--modelsource".into(),
            (&self.source).into(),
            "--modelname".into(),
            (&self.name).into(),
            "--target".into(),
            (&self.target).into(),
        ];
        if let Some(sweep) = &self.sweep {
            args.extend(["--sweep".into(), sweep.into()]);
        }
        args.extend(["--out".into(), out.into(), time_budget(time)]);
        // With `=` a value may begin with a dash and a switch may have one.
        let settings = self.settings.iter();
        args.extend(settings.map(|(key, value)| format!("--{key}={value}").into()));
        args
    }

    /// The command line that resumes an unfinished run of it, by the run's own plan.
    pub fn resume_arguments(&self, run: &Path, time: Duration) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--resume".into(), run.into(), time_budget(time)];
        let python = self.settings.get("python");
        args.extend(python.map(|python| format!("--python={python}").into()));
        args
    }
}

fn time_budget(time: Duration) -> OsString {
    format!("--time-budget={}s", time.as_secs().max(1)).into()
}

/// A text as part of a folder's name.
pub(super) fn safe(text: &str) -> String {
    safe_file_name(text, 100)
}
