//! One side of a comparison, read row by row; only the columns that are compared are kept.
//!
//! Reads run folders (rows, the machine's name from `run.json`, whole models), folders of run folders,
//! and single files of rows. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use opdata::{RowReader, RunManifest, Status, find_runs};
use serde::Serialize;

use super::point::Point;
use super::{CompareError, SideFacts, Subject, whole_models};

/// A machine, as far as its runs describe it.
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

/// One of the two sides to compare.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// The paths of the request.
    pub paths: Vec<PathBuf>,
    /// Points, in the order of the rows; a run's whole models after them.
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
            measured: count(&|p| p.status.has_time()),
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
