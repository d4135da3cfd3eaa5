//! The nightly runs on disk: which of them is the baseline of a job, and which are old enough to remove.
//!
//! Each nightly run is one partition of the dataset, a real folder `date=YYYY-MM-DD`; nothing else there is touched. A
//! partition stays while it is among the last `keep`. It also stays while it holds the newest usable run of one of the
//! plan's jobs on a machine. Without it the next nightly run could not compare.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use opdata::{RunManifest, Timestamp, find_runs};
use serde::Serialize;

use super::{NightlyError, NightlyPlan, io_error};

/// Prefix of a partition that is being removed; readers of the dataset do not see hidden folders.
const REMOVING: &str = ".removing-";

/// A nightly run on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Date of the night, as `2026-11-20`.
    pub date: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its runs.
    pub runs: Vec<JobRun>,
}

/// The files of one job of a nightly run.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRun {
    /// Its folder below the night's: that of its job.
    pub key: PathBuf,
    /// Its folder.
    pub folder: PathBuf,
    /// The machine, if the run says.
    pub env_hash: Option<String>,
    /// Rows with a time.
    pub measured: u64,
}

impl JobRun {
    /// Whether anything can be compared with it.
    pub fn is_usable(&self) -> bool {
        self.measured > 0
    }
}

/// The older nightly runs that stay beyond the number to keep, and those that are removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Retention {
    /// Nights that stay, each with its reason.
    pub spared: Vec<SparedNight>,
    /// Folders to remove, or removed.
    pub removed: Vec<PathBuf>,
}

/// A nightly run that stays although it is old.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SparedNight {
    /// Its date.
    pub date: String,
    /// The jobs that have no newer run.
    pub baseline_of: Vec<PathBuf>,
}

/// Whether a text is a date of the calendar, as `2026-11-20`.
pub fn is_date(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00.000Z").parse::<Timestamp>().is_ok()
}

/// The nightly runs of a dataset, oldest first.
///
/// # Errors
/// Fails if the folder cannot be read. A dataset that is missing has none.
pub fn partitions(dataset: &Path) -> Result<Vec<Partition>, NightlyError> {
    let entries = match fs::read_dir(dataset) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.map_err(|source| io_error("read", dataset, source))?,
    };
    let mut partitions = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| io_error("read", dataset, source))?;
        let name = entry.file_name();
        let date = name.to_str().and_then(|name| name.strip_prefix("date="));
        let Some(date) = date.filter(|date| is_date(date)) else {
            continue;
        };
        // A link to another folder is never removed.
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            partitions.push(Partition {
                date: date.to_owned(),
                runs: runs(&entry.path())?,
                folder: entry.path(),
            });
        }
    }
    partitions.sort_by(|a, b| a.date.cmp(&b.date));
    Ok(partitions)
}

fn runs(partition: &Path) -> Result<Vec<JobRun>, NightlyError> {
    let folders = match find_runs(partition) {
        Err(opdata::Error::NoRun { .. }) => Vec::new(),
        result => result?,
    };
    let runs = folders.into_iter().map(|folder| {
        // A run without a readable manifest has no known machine, so it is nobody's baseline.
        let manifest = RunManifest::load(&folder).ok();
        JobRun {
            key: folder
                .strip_prefix(partition)
                .map_or_else(|_| folder.clone(), Path::to_owned),
            env_hash: manifest
                .as_ref()
                .and_then(|m| m.environment["env_hash"].as_str())
                .map(str::to_owned),
            measured: manifest.map_or(0, |m| m.counts.timed()),
            folder,
        }
    });
    Ok(runs.collect())
}

/// The last usable run of the same job on the same machine before `date`.
pub fn baseline<'a>(partitions: &'a [Partition], date: &str, run: &JobRun) -> Option<&'a JobRun> {
    partitions
        .iter()
        .rev()
        .filter(|partition| partition.date.as_str() < date)
        .flat_map(|partition| &partition.runs)
        .find(|old| old.key == run.key && old.env_hash == run.env_hash && old.is_usable())
}

/// The nightly runs to remove, by the plan's number to keep.
pub fn retention(plan: &NightlyPlan, partitions: &[Partition]) -> Retention {
    let keys: BTreeSet<PathBuf> = plan.jobs.iter().map(|job| job.key()).collect();
    // Jobs and machines that have a usable run in a newer partition.
    let mut served: BTreeSet<(&Path, Option<&str>)> = BTreeSet::new();
    let mut retention = Retention::default();
    for (age, partition) in partitions.iter().rev().enumerate() {
        let mut only_here = BTreeSet::new();
        for run in partition.runs.iter().filter(|run| run.is_usable()) {
            let new = served.insert((&run.key, run.env_hash.as_deref()));
            if new && keys.contains(&run.key) {
                only_here.insert(run.key.clone());
            }
        }
        if (age as u64) < plan.keep {
            continue;
        }
        if only_here.is_empty() {
            retention.removed.push(partition.folder.clone());
        } else {
            retention.spared.push(SparedNight {
                date: partition.date.clone(),
                baseline_of: only_here.into_iter().collect(),
            });
        }
    }
    retention
}

/// Removes the folders of [`Retention::removed`]. Each is hidden first, so that nobody reads half a partition.
///
/// # Errors
/// Fails if a folder cannot be removed.
pub fn apply(retention: &Retention) -> Result<Retention, NightlyError> {
    for folder in &retention.removed {
        let mut name = std::ffi::OsString::from(REMOVING);
        name.push(folder.file_name().unwrap_or_default());
        let hidden = folder.with_file_name(name);
        let failed = |source| io_error("remove", folder, source);
        if hidden.exists() {
            fs::remove_dir_all(&hidden).map_err(failed)?;
        }
        fs::rename(folder, &hidden).map_err(failed)?;
        fs::remove_dir_all(&hidden).map_err(failed)?;
    }
    Ok(retention.clone())
}
