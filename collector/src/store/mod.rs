//! The store of best schedules: a database that sweeps, tuning and imports feed, and that compiling reads.
//!
//! One row is a schedule for a workload, a target, a machine, a number of threads and a state of the caches. It has the
//! knobs and trace, the time, and the time's origin. The fastest measurement of a program is kept. Each workload keeps the
//! [`KEEP`] fastest schedules of its own program, and the [`KEEP`] fastest that replace the program, such as Winograd's.
//! TVM can replay only the former. Many processes may write at once: each change is one transaction.
//!
//! A store is a SQLite file ([`sqlite`]) or, for a team, a PostgreSQL database ([`postgres`]). Both run the statements of
//! [`schema`].

mod entry;
mod foreign;
mod postgres;
mod schema;
mod sqlite;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::Row;
use opengine::schedule::Choice;
use serde_json::Value;

pub use entry::{Entry, Key};
pub use foreign::{Log, format_of, read as read_log, workload_key};

/// Schedules that are kept of a workload's own program under equal conditions, and of programs that replace it.
pub const KEEP: usize = 8;
/// Longest wait for another writer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be opened.
    #[error("the store {}: {reason}; name another one with --store", path.display())]
    Open {
        /// The file, or the server's URL.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file is damaged, or is no store.
    #[error(
        "the store {} is damaged or no store of schedules ({reason}); it is left as it is: restore it from a copy, or name \
         another one with --store",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The store has a newer format version.
    #[error("the store {} is of format {found}, and this program reads {}; use a newer version of the program", path.display(), schema::FORMAT)]
    Newer {
        /// The file, or the server's URL.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
    /// A statement failed.
    #[error("the store: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A statement failed on the server.
    #[error("the store: {0}")]
    Server(String),
    /// A stored value is not JSON, or cannot be written as JSON.
    #[error("the store: {0}")]
    Json(#[from] serde_json::Error),
}

type Result<T> = std::result::Result<T, StoreError>;

/// The additions of an import, or of the end of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of rows read.
    pub seen: u64,
    /// Rows with a time and a schedule.
    pub usable: u64,
    /// Schedules that are new, or faster than known.
    pub better: u64,
}

/// The contents of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Schedules.
    pub schedules: u64,
    /// Workloads.
    pub workloads: u64,
    /// Machines.
    pub machines: u64,
}

/// A database that holds a store.
trait Database: std::fmt::Debug {
    /// Adds entries in one transaction. Returns the number of those that were new or faster than known ones.
    fn add(&mut self, entries: &[Entry]) -> Result<u64>;

    /// The entries of a statement of [`schema`] that selects [`entry::COLUMNS`].
    fn select(&mut self, sql: &str, texts: &[&str]) -> Result<Vec<Entry>>;

    /// Whether the database itself is sound.
    fn check(&mut self) -> Result<()>;
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    database: Box<dyn Database>,
}

impl Store {
    /// Opens a store: a file, which is made if it is not there, or a database by its URL (`postgres://…`).
    ///
    /// # Errors
    /// Fails if it cannot be opened, is damaged, or is not a store.
    pub fn open(path: &Path) -> Result<Store> {
        let database: Box<dyn Database> = match postgres::url(path) {
            Some(url) => Box::new(postgres::Server::connect(url)?),
            None => Box::new(sqlite::File::open(path)?),
        };
        Ok(Store { database })
    }

    /// Opens a store if it is there: a server, or a file that exists.
    ///
    /// # Errors
    /// Fails as [`Store::open`] does.
    pub fn existing(path: &Path) -> Result<Option<Store>> {
        match postgres::url(path).is_some() || path.is_file() {
            true => Store::open(path).map(Some),
            false => Ok(None),
        }
    }

    /// Adds the schedules of rows with a time, a schedule that can be rebuilt, and a machine that was not emulated.
    /// `source` is their origin.
    ///
    /// # Errors
    /// Fails if the database does.
    pub fn add_rows<'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r Row>,
        source: &str,
    ) -> Result<Added> {
        let mut added = Added::default();
        let mut entries = Vec::new();
        for row in rows {
            added.seen += 1;
            if let Some(entry) = Entry::of_row(row, source) {
                added.usable += 1;
                entries.push(entry);
            }
        }
        added.better = self.add(&entries)?;
        Ok(added)
    }

    /// Adds entries. Returns the number of those that were new or faster than known ones.
    ///
    /// # Errors
    /// Fails if the database does.
    pub fn add(&mut self, entries: &[Entry]) -> Result<u64> {
        self.database.add(entries)
    }

    /// The best schedules of a workload, the fastest first; at any number of threads unless one is given.
    ///
    /// # Errors
    /// Fails if the database does, or if an entry cannot be read.
    pub fn best(
        &mut self,
        workload: &str,
        target: &Value,
        machine: &str,
        threads: Option<u32>,
        most: usize,
    ) -> Result<Vec<Entry>> {
        let texts = [workload, &target.to_string(), machine];
        let mut best = self.database.select(&schema::of_workload(), &texts)?;
        best.retain(|entry| threads.is_none_or(|threads| entry.key.threads == threads));
        best.truncate(most);
        Ok(best)
    }

    /// The knobs of the best schedules of a workload.
    ///
    /// # Errors
    /// Fails as [`Store::best`] does.
    pub fn choices(
        &mut self,
        workload: &str,
        target: &Value,
        machine: &str,
        most: usize,
    ) -> Result<Vec<Choice>> {
        let best = self.best(workload, target, machine, None, most)?;
        Ok(best.into_iter().map(|entry| entry.choice).collect())
    }

    /// The best schedule of each other workload of a kind, at each number of threads; those whose shapes are nearest first.
    ///
    /// # Errors
    /// Fails as [`Store::best`] does.
    pub fn nearest(
        &mut self,
        kind: &str,
        shapes: &str,
        target: &Value,
        machine: &str,
    ) -> Result<Vec<Entry>> {
        let texts = [kind, &target.to_string(), machine];
        let mut found = self.database.select(&schema::of_kind(), &texts)?;
        let distance = |entry: &Entry| entry::distance(&entry.shapes, shapes);
        found.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        Ok(found)
    }

    /// The fastest entry of each workload, machine, target, number of threads and cache state; of one kind, operator, model or
    /// workload if `filter` names it.
    ///
    /// # Errors
    /// Fails as [`Store::best`] does.
    pub fn list(&mut self, filter: Option<&str>) -> Result<Vec<Entry>> {
        match filter {
            Some(what) => self.database.select(&schema::fastest_named(), &[what]),
            None => self.database.select(&schema::fastest(), &[]),
        }
    }

    /// All entries.
    ///
    /// # Errors
    /// As for [`Store::best`].
    pub fn all(&mut self) -> Result<Vec<Entry>> {
        self.database.select(&schema::all(), &[])
    }

    /// Checks the database and every entry, and counts its contents.
    ///
    /// # Errors
    /// Fails if the database is damaged, or an entry cannot be read.
    pub fn verify(&mut self) -> Result<Contents> {
        self.database.check()?;
        let all = self.all()?;
        let distinct = |of: fn(&Entry) -> &str| all.iter().map(of).collect::<BTreeSet<_>>().len();
        Ok(Contents {
            schedules: all.len() as u64,
            workloads: distinct(|entry| &entry.key.workload) as u64,
            machines: distinct(|entry| &entry.key.machine) as u64,
        })
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
