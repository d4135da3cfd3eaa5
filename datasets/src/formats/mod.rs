//! The file formats of rows, one a file, and the choice among them by name.
//!
//! `.csv` (the format of a run while it grows), `.parquet` (of a finished one) and `.jsonl` (for
//! exchange). All readers hand out validated rows in the file's order and stop at the first
//! fault, with its file, line and column.

pub mod csv;
pub mod jsonl;
pub mod parquet;

mod layout;

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Error, InvalidRow, Result};
use crate::schema::{Column, Row, SCHEMA_VERSION};

/// The rows of a run as they are made.
pub const ROWS_CSV: &str = "rows.csv";
/// The rows of a finished run.
pub const ROWS_PARQUET: &str = "rows.parquet";

/// The rows of a file, in its order. Ends at the first error.
pub struct RowReader {
    rows: Option<Box<dyn Iterator<Item = Result<Row>>>>,
}

impl RowReader {
    /// Opens a `.csv`, `.parquet` or `.jsonl` file, or a run's folder: there its `rows.csv`, or
    /// `rows.parquet` if only that is left.
    ///
    /// # Errors
    /// Fails if the path is missing or not readable, if its format is unknown, or if its columns are not those of this
    /// schema version.
    pub fn open(path: &Path) -> Result<Self> {
        let path = &*file_of(path);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let rows: Box<dyn Iterator<Item = Result<Row>>> = match extension {
            Some("csv") => Box::new(csv::CsvRows::open(path)?),
            Some("parquet") => Box::new(parquet::ParquetRows::open(path)?),
            Some("jsonl") => Box::new(jsonl::JsonlRows::open(path)?),
            _ if !path.exists() => {
                return Err(Error::NotFound {
                    path: path.to_owned(),
                });
            }
            _ => {
                return Err(Error::UnknownFormat {
                    path: path.to_owned(),
                });
            }
        };
        Ok(Self { rows: Some(rows) })
    }
}

impl Iterator for RowReader {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.rows.as_mut()?.next();
        if !matches!(item, Some(Ok(_))) {
            self.rows = None;
        }
        item
    }
}

/// All rows of a file or a run's folder; see [`RowReader::open`].
///
/// # Errors
/// Fails if the file cannot be opened, or at the first faulty row.
pub fn read_rows(path: &Path) -> Result<Vec<Row>> {
    read_rows_with(path, Traces::Keep)
}

/// Whether to read `schedule_trace`, which is most of a row's bytes and only needed for a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traces {
    /// Rows have it.
    Keep,
    /// Rows come without traces. Those of CSV files are not checked to be JSON either.
    Skip,
}

impl Traces {
    /// Whether a column is left out.
    fn skips(self, column: &Column) -> bool {
        self == Self::Skip && column.name == "schedule_trace"
    }
}

/// All rows of a file or a run's folder, with or without their schedule traces. Large CSV files
/// are read on all cores.
///
/// # Errors
/// Fails if the file cannot be opened, or at the first faulty row.
pub fn read_rows_with(path: &Path, traces: Traces) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    read_batches(path, traces, |rows: &mut Vec<Row>| {
        all.append(rows);
        Ok::<_, Error>(())
    })?;
    Ok(all)
}

/// Hands the rows of a file or of a run's folder to `take`, in order and in blocks. Only one block
/// is in memory at a time; `take` may leave them in the list. Large CSV files are read on all
/// cores, while `take` works.
///
/// # Errors
/// Fails if the file cannot be opened, with the first fault of a row, or with an error of `take`, which ends the
/// reading.
pub fn read_batches<E: From<Error> + Send>(
    path: &Path,
    traces: Traces,
    mut take: impl FnMut(&mut Vec<Row>) -> Result<(), E> + Send,
) -> Result<(), E> {
    let path = &*file_of(path);
    if path.extension().is_some_and(|extension| extension == "csv") {
        return csv::read_batches(path, traces, &mut take);
    }
    let mut reader = RowReader::open(path)?;
    loop {
        let mut rows = reader.by_ref().take(TOGETHER).collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Ok(());
        }
        if traces == Traces::Skip {
            rows.iter_mut().for_each(|row| row.schedule_trace = None);
        }
        take(&mut rows)?;
    }
}

/// Rows that are handed out together where they are read one after the other.
const TOGETHER: usize = 4096;

/// The file that holds the rows: that of a run, if the path is its folder.
fn file_of(path: &Path) -> Cow<'_, Path> {
    if !path.is_dir() {
        return path.into();
    }
    let csv = path.join(ROWS_CSV);
    let parquet = path.join(ROWS_PARQUET);
    if parquet.exists() && !csv.exists() {
        parquet.into()
    } else {
        csv.into()
    }
}

/// The row, if it may be part of a dataset; otherwise its position and the reason.
fn checked(path: &Path, line: u64, row: Row) -> Result<Row> {
    if row.schema_version != SCHEMA_VERSION {
        return Err(Error::SchemaVersion {
            path: path.to_owned(),
            found: row.schema_version,
        });
    }
    match row.validate() {
        Ok(()) => Ok(row),
        Err(InvalidRow { column, detail, .. }) => Err(Error::Cell {
            path: path.to_owned(),
            line,
            column: column.to_owned(),
            detail,
        }),
    }
}

/// A fault of one cell, with its place.
fn cell_error(path: &Path, line: u64, column: &str, detail: String) -> Error {
    Error::Cell {
        path: path.to_owned(),
        line,
        column: column.to_owned(),
        detail,
    }
}
