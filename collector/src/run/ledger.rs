//! The rows of a running run, and their consequences for later points.
//!
//! A run knows its past from its rows alone: which points are done, how fast an operator can be, which programs were
//! built. A resumed run reads them from disk and goes on as if it had not been stopped.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use opdata::{Row, RunManifest, RunWriter, Status};
use opengine::device::Conditions;

/// A point as a run knows it: an operator's function in an import, and the point's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PointName {
    pub import_key: String,
    /// The target's dictionary, without the conditions that only its device has.
    pub target: String,
    pub symbol: String,
    pub point_id: String,
}

/// Whether rows stay in memory once they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Only their names stay: no later step reads the rows.
    Names,
    /// The rows stay, for proposers that decide by outcomes.
    Rows,
}

/// The rows of a run.
pub(super) struct Ledger<'a> {
    writer: &'a mut RunWriter,
    manifest: &'a mut RunManifest,
    folder: &'a Path,
    /// Points with a row; the row itself where a proposer learns from it.
    done: HashMap<PointName, Option<Arc<Row>>>,
    keeping: Keeping,
    best_ns: HashMap<(String, String, Option<Conditions>), f64>,
    /// Point and row that had a program of an operator first, by import, target, function and hash.
    programs: HashMap<[String; 4], (String, String)>,
}

impl<'a> Ledger<'a> {
    /// A ledger of the rows that are there already.
    pub fn new(
        writer: &'a mut RunWriter,
        manifest: &'a mut RunManifest,
        folder: &'a Path,
        rows: &[Row],
        planned: u64,
        keeping: Keeping,
    ) -> Ledger<'a> {
        let mut ledger = Ledger {
            writer,
            manifest,
            folder,
            done: HashMap::new(),
            keeping,
            best_ns: HashMap::new(),
            programs: HashMap::new(),
        };
        ledger.manifest.counts.ended.clear();
        ledger.manifest.counts.planned = planned;
        rows.iter().for_each(|row| ledger.learn(row));
        ledger
    }

    /// The number of the next row.
    pub fn next_ordinal(&self) -> u64 {
        self.writer.next_ordinal()
    }

    /// Points of the plan without a row.
    pub fn left(&self) -> u64 {
        let counts = &self.manifest.counts;
        counts.planned.saturating_sub(counts.rows())
    }

    /// Ends the plan after the last proposal: its planned points are those with a row.
    pub fn end_plan(&mut self) {
        self.manifest.counts.planned = self.manifest.counts.rows();
    }

    /// Whether a point has its row.
    pub fn has(&self, point: &PointName) -> bool {
        self.done.contains_key(point)
    }

    /// The row of a point, if it has one and rows are kept.
    pub fn row(&self, point: &PointName) -> Option<Arc<Row>> {
        self.done.get(point)?.clone()
    }

    /// The rows of an import in the order in which they were written, if rows are kept.
    pub fn rows(&self, import: &str) -> Vec<Arc<Row>> {
        let own = self
            .done
            .iter()
            .filter(|(point, _)| point.import_key == import);
        let mut rows: Vec<Arc<Row>> = own.filter_map(|(_, row)| row.clone()).collect();
        rows.sort_by(|a, b| a.row_id.cmp(&b.row_id));
        rows
    }

    /// The best time known of an operator under the same conditions, in nanoseconds.
    pub fn best_ns(&self, import: &str, symbol: &str, at: &Conditions) -> Option<f64> {
        let key = (import.to_owned(), symbol.to_owned(), Some(at.clone()));
        self.best_ns.get(&key).copied()
    }

    /// The row that had a program first, unless it is of one of the kernel's own points.
    pub fn duplicate(&self, own: &[PointName], program_hash: &str) -> Option<&str> {
        let point = own.first()?;
        let key = [
            point.import_key.clone(),
            point.target.clone(),
            point.symbol.clone(),
            program_hash.to_owned(),
        ];
        let (point_id, row_id) = self.programs.get(&key)?;
        let is_own = own.iter().any(|p| p.point_id == *point_id);
        (!is_own).then_some(row_id.as_str())
    }

    /// Adds a row; when this returns, it survives the end of the process.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.writer.append(row)?;
        self.learn(row);
        Ok(())
    }

    /// Makes all rows survive a power cut too.
    ///
    /// # Errors
    /// Fails if they cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        self.writer.sync()?;
        Ok(self.manifest.save(self.folder)?)
    }

    fn learn(&mut self, row: &Row) {
        self.manifest.counts.add(row);
        let import = row.import_key.clone().unwrap_or_default();
        let symbol = row.op_symbol.clone().unwrap_or_default();
        let target = Conditions::dictionary_of_row(row).unwrap_or_default();
        if let Some(ns) = row.time_median_ns {
            let key = (import.clone(), symbol.clone(), Conditions::of_row(row));
            let best = self.best_ns.entry(key).or_insert(ns);
            *best = best.min(ns);
        }
        if let (Some(hash), true) = (&row.program_hash, row.status != Status::Skipped) {
            self.programs
                .entry([import.clone(), target.clone(), symbol.clone(), hash.clone()])
                .or_insert_with(|| (row.point_id.clone(), row.row_id.clone()));
        }
        let point = PointName {
            import_key: import,
            target,
            symbol,
            point_id: row.point_id.clone(),
        };
        let kept = (self.keeping == Keeping::Rows).then(|| Arc::new(row.clone()));
        self.done.insert(point, kept);
    }
}
