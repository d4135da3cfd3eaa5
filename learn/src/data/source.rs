//! Sources of rows: files and run folders of this project, logs of other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opdata::import::{Import, gather};
use opdata::{Row, RunManifest, Traces, find_runs, read_batches, read_rows_with};
use serde_json::Value;

use crate::data::end_to_end::{self, Timed};
use crate::error::{Error, Result};
use crate::features::machine::MachineFacts;

/// One source of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A dataset: a run's folder, a folder of runs, `.csv`, `.parquet` or `.jsonl`.
    Dataset(PathBuf),
    /// A foreign log.
    Import(Import),
}

/// Rows and the facts about their machines.
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    /// The rows of all sources, in order.
    pub rows: Vec<Row>,
    /// Facts by machine, for the runs that recorded an environment.
    pub facts: BTreeMap<String, MachineFacts>,
    /// Whole models that were timed.
    pub(super) timed: Vec<Timed>,
    /// Cores, or multiprocessors of a GPU, of machines whose own number is not known; nominal if missing.
    pub units: Option<u32>,
    /// Records that have no row, counted by the reason.
    pub left_out: BTreeMap<String, u64>,
}

impl From<Vec<Row>> for RowSet {
    /// Rows without facts about their machines.
    fn from(rows: Vec<Row>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

impl RowSet {
    /// Reads all sources.
    ///
    /// # Errors
    /// Fails at the first source that cannot be read.
    pub fn read(sources: &[Source]) -> Result<Self> {
        let mut set = Self::default();
        let mut imports = Vec::new();
        for source in sources {
            match source {
                Source::Dataset(path) => {
                    for run in find_runs(path)? {
                        set.read_dataset(&run)?;
                    }
                }
                Source::Import(import) => imports.push(import),
            }
        }
        let imported = gather(&imports)?;
        set.rows.extend(imported.rows);
        set.left_out = imported.left_out;
        Ok(set)
    }

    fn read_dataset(&mut self, path: &Path) -> Result<()> {
        // No feature looks at traces, which are most of a file.
        let rows = read_rows_with(path, Traces::Skip)?;
        // The environment is an extra: rows without one are learned from all the same.
        let folder = if path.is_dir() {
            Some(path)
        } else {
            path.parent()
        };
        if let Some(manifest) = folder.and_then(|folder| RunManifest::load(folder).ok()) {
            let machines: BTreeSet<&String> = rows
                .iter()
                .filter_map(|row| row.env_hash.as_ref())
                .collect();
            for hash in machines {
                self.meet(hash, &manifest.environment)
                    .map_err(|source| opdata::Error::Format {
                        path: path.to_owned(),
                        source,
                    })?;
            }
        }
        if path.is_dir() {
            self.timed.extend(end_to_end::timed(path, &rows));
        }
        if self.rows.is_empty() {
            // Moves the list, because copying a million rows would take a gigabyte or two.
            self.rows = rows;
        } else {
            self.rows.extend(rows);
        }
        Ok(())
    }

    /// Takes the facts of a run's environment, if it is that machine's. Runs from before the machine was calibrated
    /// learn its rates from later ones.
    fn meet(
        &mut self,
        env_hash: &str,
        environment: &Value,
    ) -> std::result::Result<(), opdata::FormatError> {
        if environment["env_hash"]
            .as_str()
            .is_some_and(|e| e != env_hash)
        {
            return Ok(());
        }
        let facts = MachineFacts::of_environment(env_hash, environment)?;
        let known = self.facts.get(env_hash);
        if known.is_none() || !facts.rates.is_empty() {
            self.facts.insert(env_hash.to_owned(), facts);
        }
        Ok(())
    }
}

/// Hands the rows of all sources to `take` in their order, some at a time, so that no file has to fit into memory; `take`
/// may leave them in the list. Returns how many records have no row, by the reason.
///
/// # Errors
/// Fails with the first source that cannot be read, or with an error of `take`.
pub fn each_batch<E: From<Error> + From<opdata::Error> + Send>(
    sources: &[Source],
    mut take: impl FnMut(&mut Vec<Row>) -> std::result::Result<(), E> + Send,
) -> std::result::Result<BTreeMap<String, u64>, E> {
    let mut left_out = BTreeMap::new();
    for source in sources {
        match source {
            Source::Dataset(path) => {
                for run in find_runs(path)? {
                    read_batches(&run, Traces::Skip, &mut take)?;
                }
            }
            Source::Import(import) => {
                let mut imported = import.read()?;
                take(&mut imported.rows)?;
                for (reason, count) in imported.left_out {
                    *left_out.entry(reason).or_default() += count;
                }
            }
        }
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_calibration_is_known_to_all_runs_of_its_machine() {
        let plain = json!({"machine": {}, "state": {"cores_usable": 2}});
        let mut calibrated = plain.clone();
        let peak = json!({"best": 90.0, "median": 90.0, "spread": 0.0, "samples": 1});
        let rates = json!([{"threads": 1, "peak_gflops_per_s": peak, "read_gbytes_per_s": {}}]);
        calibrated["calibration"] = json!({
            "format": 1, "env_hash": "m", "measured_at_utc": "2026-01-31T12:00:00.000Z", "versions": {},
            "target": {}, "cores_usable": 1, "rates": rates,
        });
        calibrated["env_hash"] = json!("m");
        for order in [[&plain, &calibrated], [&calibrated, &plain]] {
            let mut set = RowSet::default();
            order.into_iter().for_each(|e| set.meet("m", e).unwrap());
            set.meet("n", &plain).unwrap();
            assert_eq!(set.facts["m"].rates_at(1).unwrap().gflops, Some(90.0));
            assert_eq!(set.facts["n"].rates_at(1), None);
            set.meet("n", &calibrated).unwrap();
            assert_eq!(set.facts["n"].rates_at(1), None, "another machine's");
        }
    }
}
