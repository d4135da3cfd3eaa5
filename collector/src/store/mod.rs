//! The store of best schedules: a SQLite database that sweeps, tuning and imports feed, and that compiling reads.
//!
//! One row is a schedule of a workload, for a target, on a machine, at a number of threads, in a state of the caches: its
//! knobs and trace, its time, and where that came from. Of equal programs the fastest measurement stays; of a workload the
//! [`KEEP`] fastest stay. Many processes may write at once: each change is one transaction in write-ahead mode.

mod entry;
mod schema;

use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::Row;
use opengine::schedule::Choice;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde_json::Value;

use entry::{ENTRY_COLUMNS, of_record};
pub use entry::{Entry, Key};

/// Schedules that are kept of a workload under equal conditions.
pub const KEEP: usize = 8;
/// Longest wait for another writer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened.
    #[error("the store {}: {reason}; name another file with --store", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is damaged, or no store.
    #[error(
        "the store {} is damaged or no store of schedules ({reason}); it is left as it is: restore it from a copy, or name \
         another file with --store",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is of a newer version.
    #[error("the store {} is of format {found}, and this program reads {}; use a newer version of the program", path.display(), schema::FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
    /// A statement failed.
    #[error("the store: {0}")]
    Sql(#[from] rusqlite::Error),
    /// What is stored cannot be written as JSON.
    #[error("the store: {0}")]
    Json(#[from] serde_json::Error),
}

type Result<T> = std::result::Result<T, StoreError>;

/// What an import, or the end of a run, added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Rows looked at.
    pub seen: u64,
    /// Rows with a time and a schedule that can be rebuilt.
    pub usable: u64,
    /// Schedules that are new, or faster than known.
    pub better: u64,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Schedules.
    pub schedules: u64,
    /// Workloads.
    pub workloads: u64,
    /// Machines.
    pub machines: u64,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens a store, and makes it if there is no file.
    ///
    /// # Errors
    /// It cannot be opened, is damaged, or is no store.
    pub fn open(path: &Path) -> Result<Store> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::Open {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
        }
        let damaged = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly) => {
                StoreError::Open {
                    path: path.to_owned(),
                    reason: error.to_string(),
                }
            }
            _ => StoreError::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            },
        };
        let mut connection = Connection::open(path).map_err(damaged)?;
        connection.busy_timeout(PATIENCE)?;
        // Both at one moment: another process may be making the tables.
        let (format, tables): (i64, i64) = {
            let moment = connection.transaction().map_err(damaged)?;
            let read = |sql| moment.query_row(sql, [], |row| row.get(0));
            let format = read("pragma user_version").map_err(damaged)?;
            let tables = read("select count(*) from sqlite_master").map_err(damaged)?;
            (format, tables)
        };
        if format > schema::FORMAT {
            return Err(StoreError::Newer {
                path: path.to_owned(),
                found: format,
            });
        }
        if format == 0 && tables > 0 {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                reason: "it has tables of another program".to_owned(),
            });
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        if format == 0 {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(schema::CREATE)?;
            transaction.commit()?;
        }
        Ok(Store { connection })
    }

    /// Adds what rows tell: those with a time, a schedule that can be rebuilt, and a machine that was not emulated. `source`
    /// says where they came from.
    ///
    /// # Errors
    /// The database's.
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

    /// Adds entries; how many were new or faster than known.
    ///
    /// # Errors
    /// The database's.
    pub fn add(&mut self, entries: &[Entry]) -> Result<u64> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut better = 0;
        {
            let mut insert = transaction.prepare(schema::UPSERT)?;
            let mut prune = transaction.prepare(schema::PRUNE)?;
            for entry in entries {
                let Entry { key, .. } = entry;
                let target = key.target.to_string();
                better += insert.execute(params![
                    key.workload,
                    target,
                    key.machine,
                    key.threads,
                    key.cache,
                    entry.program_hash,
                    entry.operator,
                    entry.kind,
                    entry.shapes,
                    serde_json::to_string(&entry.choice)?,
                    entry.trace.as_ref().map(Value::to_string),
                    entry.time_ns,
                    entry.half_width_ns,
                    entry.quality,
                    entry.model,
                    entry.source,
                    entry.tool,
                    entry.tvm,
                    entry.measured_at,
                ])? as u64;
                prune.execute(params![
                    key.workload,
                    target,
                    key.machine,
                    key.threads,
                    key.cache,
                    KEEP as i64
                ])?;
            }
        }
        transaction.commit()?;
        Ok(better)
    }

    /// The best schedules of a workload, the fastest first; at any number of threads unless one is given.
    ///
    /// # Errors
    /// The database's, or an entry that cannot be read.
    pub fn best(
        &self,
        workload: &str,
        target: &Value,
        machine: &str,
        threads: Option<u32>,
        most: usize,
    ) -> Result<Vec<Entry>> {
        let sql = format!(
            "select {ENTRY_COLUMNS} from schedules where workload = ?1 and target = ?2 and machine = ?3 \
             and (?4 is null or threads = ?4) order by time_ns limit ?5"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let found = statement.query_map(
            params![workload, target.to_string(), machine, threads, most as i64],
            of_record,
        )?;
        Ok(found.collect::<std::result::Result<_, _>>()?)
    }

    /// The knobs of the best schedules of a workload.
    ///
    /// # Errors
    /// As for [`Store::best`].
    pub fn choices(
        &self,
        workload: &str,
        target: &Value,
        machine: &str,
        most: usize,
    ) -> Result<Vec<Choice>> {
        let best = self.best(workload, target, machine, None, most)?;
        Ok(best.into_iter().map(|entry| entry.choice).collect())
    }

    /// The knobs of the best schedule of other workloads of a kind, those measured last first.
    ///
    /// # Errors
    /// As for [`Store::best`].
    pub fn nearest(
        &self,
        kind: &str,
        target: &Value,
        machine: &str,
        most: usize,
    ) -> Result<Vec<Choice>> {
        let sql = "select knobs, min(time_ns) from schedules where kind = ?1 and target = ?2 and machine = ?3 \
                   group by workload order by max(measured_at) desc limit ?4";
        let mut statement = self.connection.prepare(sql)?;
        let texts = statement.query_map(
            params![kind, target.to_string(), machine, most as i64],
            |row| row.get::<_, String>(0),
        )?;
        let mut choices = Vec::new();
        for text in texts {
            let text: String = text?;
            choices.push(serde_json::from_str(&text)?);
        }
        Ok(choices)
    }

    /// The fastest entry of each workload, machine, target, number of threads and cache state; of one kind, operator, model or
    /// workload if `filter` names it.
    ///
    /// # Errors
    /// As for [`Store::best`].
    pub fn list(&self, filter: Option<&str>) -> Result<Vec<Entry>> {
        let sql = format!(
            "select {ENTRY_COLUMNS}, min(time_ns) from schedules \
             where ?1 is null or kind = ?1 or operator = ?1 or model = ?1 or workload = ?1 \
             group by workload, target, machine, threads, cache order by model, operator, threads"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let found = statement.query_map([filter], of_record)?;
        Ok(found.collect::<std::result::Result<_, _>>()?)
    }

    /// All entries.
    ///
    /// # Errors
    /// As for [`Store::best`].
    pub fn all(&self) -> Result<Vec<Entry>> {
        let sql = format!(
            "select {ENTRY_COLUMNS} from schedules order by workload, target, machine, threads, cache, time_ns"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let found = statement.query_map([], of_record)?;
        Ok(found.collect::<std::result::Result<_, _>>()?)
    }

    /// Checks the file and every entry; what is there.
    ///
    /// # Errors
    /// The file is damaged, or an entry cannot be read.
    pub fn verify(&self) -> Result<Contents> {
        let found: Option<String> = self
            .connection
            .query_row("pragma integrity_check", [], |row| row.get(0))
            .optional()?;
        if found.as_deref() != Some("ok") {
            return Err(StoreError::Damaged {
                path: self.connection.path().unwrap_or_default().into(),
                reason: found.unwrap_or_default(),
            });
        }
        self.all()?;
        let sql =
            "select count(*), count(distinct workload), count(distinct machine) from schedules";
        Ok(self.connection.query_row(sql, [], |row| {
            let count = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            Ok(Contents {
                schedules: count(0)?,
                workloads: count(1)?,
                machines: count(2)?,
            })
        })?)
    }
}

#[cfg(test)]
mod tests;
