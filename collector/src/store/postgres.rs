//! A store as a table of a PostgreSQL database, which a team shares.
//!
//! Its URL is `postgres://user@host:port/database`. The password is that of `PGPASSWORD`: a URL is written into every run's
//! plan. The connection is not encrypted, so the server should be in the same network or behind a tunnel.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use ::postgres::{Client, Config, NoTls, Row};
use serde_json::Value;

use super::entry::Cells;
use super::{Database, Entry, KEEP, PATIENCE, Result, StoreError, schema};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Number of the lock under which the table is made: any number that other programs do not take.
const MAKING: i64 = 0x6f70_6265_6e63_6801;

/// The URL, where a path is one.
pub(super) fn url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
        .then_some(text)
}

/// A connection.
pub(super) struct Server {
    client: Client,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Connects, and makes the table if it is not there.
    pub fn connect(url: &str) -> Result<Server> {
        let open = |reason: String| StoreError::Open {
            path: url.into(),
            reason,
        };
        let mut config: Config = url
            .parse()
            .map_err(|error: ::postgres::Error| open(in_words(&error)))?;
        if config.get_password().is_some() {
            // The error must not show it.
            return Err(StoreError::Open {
                path: "postgres://…".into(),
                reason: "a password in the URL would be written into every run's plan; \
                         set PGPASSWORD instead"
                    .to_owned(),
            });
        }
        if let Ok(password) = std::env::var("PGPASSWORD") {
            config.password(password);
        }
        let connect = config
            .connect_timeout(CONNECT)
            .application_name("opcollect");
        let mut client = connect
            .connect(NoTls)
            .map_err(|error| open(in_words(&error)))?;
        let patience = PATIENCE.as_millis();
        client.batch_execute(&format!("set lock_timeout = {patience}"))?;
        let mut making = client.transaction()?;
        making.execute("select pg_advisory_xact_lock($1)", &[&MAKING])?;
        making.batch_execute(schema::CREATE)?;
        making.batch_execute(
            "create table if not exists schedules_format (format bigint not null)",
        )?;
        let format = making.query_opt("select format from schedules_format", &[])?;
        let format: i64 = match format {
            Some(record) => record.try_get(0)?,
            None => {
                let insert = "insert into schedules_format values ($1)";
                making.execute(insert, &[&schema::FORMAT])?;
                schema::FORMAT
            }
        };
        making.commit()?;
        match format > schema::FORMAT {
            true => Err(StoreError::Newer {
                path: url.into(),
                found: format,
            }),
            false => Ok(Server { client }),
        }
    }
}

/// A statement with PostgreSQL's names of parameters.
fn dollars(sql: &str) -> String {
    sql.replace('?', "$")
}

impl Database for Server {
    fn add(&mut self, entries: &[Entry]) -> Result<u64> {
        let mut transaction = self.client.transaction()?;
        // Writers take turns, as SQLite's do: two that prune the same workload would wait for each other.
        transaction.batch_execute("lock table schedules in share row exclusive mode")?;
        let insert = transaction.prepare(&dollars(schema::UPSERT))?;
        let prune = transaction.prepare(&dollars(&schema::prune()))?;
        let mut better = 0;
        for entry in entries {
            let Entry { key, .. } = entry;
            let target = key.target.to_string();
            let threads = i32::try_from(key.threads).unwrap_or(i32::MAX);
            better += transaction.execute(
                &insert,
                &[
                    &key.workload,
                    &target,
                    &key.machine,
                    &threads,
                    &key.cache,
                    &entry.program_hash,
                    &entry.operator,
                    &entry.kind,
                    &entry.shapes,
                    &serde_json::to_string(&entry.choice)?,
                    &entry.trace.as_ref().map(Value::to_string),
                    &entry.time_ns,
                    &entry.half_width_ns,
                    &entry.quality,
                    &entry.model,
                    &entry.source,
                    &entry.tool,
                    &entry.tvm,
                    &entry.measured_at,
                ],
            )?;
            transaction.execute(
                &prune,
                &[
                    &key.workload,
                    &target,
                    &key.machine,
                    &threads,
                    &key.cache,
                    &entry.choice.rewrites_program(),
                    &(KEEP as i64),
                ],
            )?;
        }
        transaction.commit()?;
        Ok(better)
    }

    fn select(&mut self, sql: &str, texts: &[&str]) -> Result<Vec<Entry>> {
        let texts: Vec<_> = texts
            .iter()
            .map(|text| text as &(dyn ::postgres::types::ToSql + Sync))
            .collect();
        let records = self.client.query(&dollars(sql), &texts)?;
        records.iter().map(Entry::of_record).collect()
    }

    fn check(&mut self) -> Result<()> {
        // The server checks its own files.
        Ok(())
    }
}

impl Cells for Row {
    fn text(&self, at: usize) -> Result<Option<String>> {
        Ok(self.try_get(at)?)
    }

    fn number(&self, at: usize) -> Result<Option<f64>> {
        Ok(self.try_get(at)?)
    }

    fn integer(&self, at: usize) -> Result<i64> {
        Ok(self.try_get::<_, i32>(at)?.into())
    }

    fn missing(at: usize) -> StoreError {
        StoreError::Server(format!("an entry lacks its column {at}"))
    }
}

impl From<::postgres::Error> for StoreError {
    fn from(error: ::postgres::Error) -> StoreError {
        StoreError::Server(in_words(&error))
    }
}

/// The error message of the server, or else of the library.
fn in_words(error: &::postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(answer), _) => answer.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
