//! A store as a SQLite file in write-ahead mode.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde_json::Value;

use super::entry::Cells;
use super::{Database, Entry, KEEP, PATIENCE, Result, StoreError, schema};

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    connection: Connection,
}

impl File {
    /// Opens a file, and makes it with its folder if it is not there.
    ///
    /// Where several connections put a new file into write-ahead mode at one moment, SQLite
    /// reports "busy" at once, without waiting for [`PATIENCE`]. So this tries again.
    pub fn open(path: &Path) -> Result<File> {
        let end = Instant::now() + PATIENCE;
        loop {
            match File::open_once(path) {
                Err(StoreError::Sql(error)) if is_busy(&error) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                answer => return answer,
            }
        }
    }

    fn open_once(path: &Path) -> Result<File> {
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
            _ if is_busy(&error) => error.into(),
            _ => StoreError::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            },
        };
        let mut connection = Connection::open(path).map_err(damaged)?;
        connection.busy_timeout(PATIENCE)?;
        // Both are read in one transaction, because another process may be making the tables.
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
            transaction.pragma_update(None, "user_version", schema::FORMAT)?;
            transaction.commit()?;
        }
        Ok(File { connection })
    }
}

/// Whether another connection held a lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

impl Database for File {
    fn add(&mut self, entries: &[Entry]) -> Result<u64> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut better = 0;
        {
            let mut insert = transaction.prepare(schema::UPSERT)?;
            let mut prune = transaction.prepare(&schema::prune())?;
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
                    entry.choice.rewrites_program(),
                    KEEP as i64
                ])?;
            }
        }
        transaction.commit()?;
        Ok(better)
    }

    fn select(&mut self, sql: &str, texts: &[&str]) -> Result<Vec<Entry>> {
        let mut statement = self.connection.prepare(sql)?;
        let mut records = statement.query(rusqlite::params_from_iter(texts))?;
        let mut entries = Vec::new();
        while let Some(record) = records.next()? {
            entries.push(Entry::of_record(record)?);
        }
        Ok(entries)
    }

    fn check(&mut self) -> Result<()> {
        let found: Option<String> = self
            .connection
            .query_row("pragma integrity_check", [], |row| row.get(0))
            .optional()?;
        match found.as_deref() {
            Some("ok") => Ok(()),
            _ => Err(StoreError::Damaged {
                path: self.connection.path().unwrap_or_default().into(),
                reason: found.unwrap_or_default(),
            }),
        }
    }
}

impl Cells for rusqlite::Row<'_> {
    fn text(&self, at: usize) -> Result<Option<String>> {
        Ok(self.get(at)?)
    }

    fn number(&self, at: usize) -> Result<Option<f64>> {
        Ok(self.get(at)?)
    }

    fn integer(&self, at: usize) -> Result<i64> {
        Ok(self.get(at)?)
    }

    fn missing(at: usize) -> StoreError {
        let reason = "an entry lacks it".into();
        rusqlite::Error::FromSqlConversionFailure(at, Type::Null, reason).into()
    }
}
