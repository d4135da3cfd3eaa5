//! The file formats of rows, one a file, and the choice among them by name.
//!
//! `.csv` (the format of a run while it grows), `.parquet` (of a finished one) and `.jsonl` (for
//! exchange). All readers hand out validated rows in the file's order and stop at the first
//! fault, with its file, line and column.

pub mod csv;
pub mod jsonl;
pub mod parquet;

mod layout;

use std::path::Path;

use crate::error::{Error, InvalidRow, Result};
use crate::schema::{Row, SCHEMA_VERSION};

/// The rows of a file, in its order. Ends at the first error.
pub struct RowReader {
    rows: Option<Box<dyn Iterator<Item = Result<Row>>>>,
}

impl RowReader {
    /// Opens a `.csv`, `.parquet` or `.jsonl` file, or a run's folder: there its `rows.csv`, or
    /// `rows.parquet` if only that is left.
    ///
    /// # Errors
    /// If the path is not there or not readable, its format is not known, or its columns are
    /// not those of this schema version.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let csv = path.join(crate::run::ROWS_CSV);
            let parquet = path.join(crate::run::ROWS_PARQUET);
            return Self::open(if parquet.exists() && !csv.exists() {
                &parquet
            } else {
                &csv
            });
        }
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
/// Those of opening, and the first fault of a row.
pub fn read_rows(path: &Path) -> Result<Vec<Row>> {
    RowReader::open(path)?.collect()
}

/// The row, if it may be part of a dataset, or where it is and why not.
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
