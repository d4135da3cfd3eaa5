//! One side of a comparison, read row by row; only the columns that are compared are kept.
//!
//! Reads run folders (rows, the machine's name from `run.json`, whole models), folders of run folders,
//! and single files of rows. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use opdata::{CacheState, Row, RowReader, RunManifest, Status, find_runs};
use serde::{Deserialize, Serialize};

use super::estimate::Timing;
use super::{CompareError, Ending, SideFacts, Subject, whole_models};

/// A machine, as far as its runs tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Its fingerprint; `None` for rows that do not say.
    pub env_hash: Option<String>,
    /// Its processor.
    pub cpu: Option<String>,
}

impl Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.env_hash, &self.cpu) {
            (None, _) => f.write_str("an unknown machine"),
            (Some(hash), None) => write!(f, "machine {hash}"),
            (Some(hash), Some(cpu)) => write!(f, "machine {hash} ({cpu})"),
        }
    }
}

/// A point, as far as it is compared.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub subject: Subject,
    pub model: String,
    pub point_id: String,
    pub row_id: String,
    pub symbol: String,
    pub kind: String,
    pub shapes: String,
    pub target: String,
    pub target_kind: String,
    pub target_cpu: String,
    pub threads: Option<u64>,
    pub cache: Option<CacheState>,
    pub status: Status,
    reason: Option<String>,
    workload: String,
    name: String,
    schedule: String,
    timing: Option<Timing>,
}

impl Point {
    /// What is compared of a row.
    pub fn of(row: &Row) -> Point {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let shapes: Vec<String> = [&row.input_shapes, &row.weight_shapes]
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let shapes = shapes.join(";");
        let target = row
            .target
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        let kind = row
            .target
            .as_ref()
            .and_then(|t| t.decode::<TargetKind>().ok())
            .map_or_else(|| row.device_kind.to_string(), |t| t.kind);
        // A default schedule is what the tool makes of an operator today; knobs tell the schedules of a sweep apart.
        let schedule = match row.schedule_space.as_deref() {
            Some("default") => "default".to_owned(),
            _ => row
                .schedule_knobs
                .as_ref()
                .or(row.schedule_trace.as_ref())
                .map_or_else(String::new, |text| hash(text.as_str())),
        };
        Point {
            subject: Subject::Operator,
            model: model_label(row),
            point_id: row.point_id.clone(),
            row_id: row.row_id.clone(),
            symbol: row.op_symbol.clone().unwrap_or_else(|| row.op_name.clone()),
            kind: row.op_kind.clone(),
            target_cpu: text(&row.target_cpu),
            target,
            target_kind: kind,
            threads: row.threads,
            cache: row.cache_state,
            status: row.status,
            reason: row.reason.clone(),
            workload: row.workload_hash.clone().unwrap_or_else(|| shapes.clone()),
            name: row.op_name.clone(),
            schedule,
            shapes,
            timing: timing(row),
        }
    }

    /// The whole model of this point's import, run as one.
    pub fn whole_model(&self, threads: u64, timing: Option<Timing>) -> Point {
        let name = "whole model";
        Point {
            subject: Subject::WholeModel,
            point_id: format!("{name} {} {threads}", self.target),
            row_id: format!("{name}, threads {threads}"),
            symbol: name.to_owned(),
            name: name.to_owned(),
            kind: "model".to_owned(),
            shapes: String::new(),
            workload: String::new(),
            schedule: String::new(),
            threads: Some(threads),
            cache: None,
            status: Status::Measured,
            reason: None,
            timing,
            ..self.clone()
        }
    }

    /// Its median, if it has one that can be divided by.
    pub fn median(&self) -> Option<Timing> {
        self.timing
    }

    /// What the point is, the target aside.
    pub fn identity(&self) -> String {
        let cache = self.cache.map_or("", CacheState::as_str);
        format!(
            "{:?}\n{}\n{}\n{}\n{:?}\n{cache}\n{}",
            self.subject, self.model, self.workload, self.name, self.threads, self.schedule
        )
    }

    /// What its verdict is about: everything but the schedule.
    pub fn group_key(&self) -> String {
        let cache = self.cache.map_or("", CacheState::as_str);
        format!(
            "{:?}\n{}\n{}\n{}\n{}\n{:?}\n{cache}",
            self.subject, self.model, self.symbol, self.workload, self.target, self.threads
        )
    }

    /// Kind of target and processor.
    pub fn target_label(&self) -> String {
        format!("{} {}", self.target_kind, self.target_cpu)
            .trim_end()
            .to_owned()
    }

    /// How it ended.
    pub fn ending(&self) -> Ending {
        Ending {
            status: self.status,
            reason: self.reason.clone(),
            row: self.row_id.clone(),
        }
    }
}

/// A trace takes kilobytes, and all that matters of it here is whether it is another one's.
fn hash(schedule: &str) -> String {
    opdata::stable_hash(&[("schedule", schedule)])
}

#[derive(Deserialize)]
struct TargetKind {
    kind: String,
}

/// The model of a row, with what changes its operators.
fn model_label(row: &Row) -> String {
    let mut label = row.model_name.clone().unwrap_or_default();
    if let Some(batch) = row.batch {
        label.push_str(&format!(", batch {batch}"));
    }
    if let Some(seqlen) = row.seqlen {
        label.push_str(&format!(", sequence {seqlen}"));
    }
    label
}

fn timing(row: &Row) -> Option<Timing> {
    let interval = match (row.time_ci_low_ns, row.time_ci_high_ns, row.ci_level) {
        (Some(low), Some(high), Some(level)) => Some((low, high, level)),
        _ => None,
    };
    Some(Timing {
        median_ns: row.time_median_ns.filter(|median| *median > 0.0)?,
        interval,
        std_ns: row.time_std_ns,
        samples: row.samples,
        min_ns: row.time_min_ns.filter(|min| *min > 0.0),
        drift: drift(row.drift_ratio),
        busy: row.interference().was_busy(),
    })
}

/// A drift as a factor by which the machine was slower; never below 1.
pub(super) fn drift(ratio: Option<f64>) -> f64 {
    ratio.unwrap_or(1.0).max(1.0)
}

/// One side.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// What the user named.
    pub paths: Vec<PathBuf>,
    /// Points, in the order of the rows; a run's whole models behind them.
    pub points: Vec<Point>,
    /// Machines, by fingerprint.
    pub machines: Vec<Machine>,
}

impl Side {
    /// Reads everything at `paths`.
    pub fn read(paths: &[PathBuf]) -> Result<Side, CompareError> {
        let mut points = Vec::new();
        let mut machines: BTreeMap<Option<String>, Option<String>> = BTreeMap::new();
        for path in paths {
            for run in find_runs(path)? {
                read_run(&run, &mut points, &mut machines)?;
            }
        }
        Ok(Side {
            paths: paths.to_vec(),
            points,
            machines: machines
                .into_iter()
                .map(|(env_hash, cpu)| Machine { env_hash, cpu })
                .collect(),
        })
    }

    /// Fingerprints of its machines.
    pub fn env_hashes(&self) -> BTreeSet<Option<&str>> {
        self.machines
            .iter()
            .map(|m| m.env_hash.as_deref())
            .collect()
    }

    /// Its models.
    pub fn models(&self) -> Vec<String> {
        let all: BTreeSet<&str> = self.points.iter().map(|p| p.model.as_str()).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    /// Its numbers.
    pub fn facts(&self) -> SideFacts {
        let count = |of: &dyn Fn(&Point) -> bool| {
            self.points
                .iter()
                .filter(|p| p.subject == Subject::Operator && of(p))
                .count() as u64
        };
        SideFacts {
            paths: self.paths.clone(),
            machines: self.machines.clone(),
            models: self.models(),
            points: count(&|_| true),
            measured: count(&|p| p.status == Status::Measured),
            compiled: count(&|p| p.status == Status::Compiled),
            skipped: count(&|p| p.status == Status::Skipped),
        }
    }
}

fn read_run(
    run: &Path,
    points: &mut Vec<Point>,
    machines: &mut BTreeMap<Option<String>, Option<String>>,
) -> Result<(), CompareError> {
    let mut firsts: Vec<(Option<String>, Point)> = Vec::new();
    let mut env_hash = None;
    for row in RowReader::open(run)? {
        let row = row?;
        // Nearly all rows of a run are of one machine: no need to look it up for each.
        if env_hash.as_ref() != Some(&row.env_hash) {
            env_hash = Some(row.env_hash.clone());
            machines.entry(row.env_hash.clone()).or_default();
        }
        let point = Point::of(&row);
        if firsts.iter().all(|(key, _)| *key != row.import_key) {
            firsts.push((row.import_key, point.clone()));
        }
        points.push(point);
    }
    if !run.is_dir() {
        return Ok(());
    }
    if let (Some(Some(hash)), Ok(manifest)) = (env_hash, RunManifest::load(run)) {
        let cpu = manifest.environment["machine"]["cpu"]["name"].as_str();
        machines.insert(Some(hash), cpu.map(str::to_owned));
    }
    points.extend(whole_models::points(run, &firsts)?);
    Ok(())
}
