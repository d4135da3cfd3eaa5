//! Rows as JSON lines: one object a row, column names as keys, missing cells left out.
//!
//! For exchange: foreign logs are turned into it easily. Columns that hold JSON are text here as
//! everywhere, but plain JSON in their place is taken too. Blank lines are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{cell_error, checked};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::schema::{COLUMNS, Cell, Column, ColumnType, Row, SCHEMA_VERSION, Storage};
use crate::values::json_fault;

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (column, cell) in COLUMNS.iter().zip(self.cells()) {
            match cell {
                Cell::Missing => {}
                Cell::Integer(value) => map.serialize_entry(column.name, &value)?,
                Cell::Float(value) => map.serialize_entry(column.name, &value)?,
                Cell::Text(text) => map.serialize_entry(column.name, &text)?,
            }
        }
        map.end()
    }
}

/// The rows of a JSON lines file.
pub struct JsonlRows {
    path: PathBuf,
    reader: BufReader<File>,
    text: Vec<u8>,
    line: u64,
}

impl JsonlRows {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path).map_err(|source| Error::io("read", path, source))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(file),
            text: Vec::new(),
            line: 0,
        })
    }

    fn read(&mut self) -> Result<Option<Row>> {
        loop {
            self.text.clear();
            let count = self
                .reader
                .read_until(b'\n', &mut self.text)
                .map_err(|source| Error::io("read", &self.path, source))?;
            if count == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !self.text.trim_ascii().is_empty() {
                return self.row().map(Some);
            }
        }
    }

    fn row(&self) -> Result<Row> {
        let object: Map<String, Value> =
            serde_json::from_slice(&self.text).map_err(|error| Error::Record {
                path: self.path.clone(),
                line: self.line,
                detail: format!("not a JSON object in one line: {}", json_fault(&error)),
            })?;
        // Keys of another version would be called unknown: say the version first.
        if let Some(found) = object.get("schema_version").and_then(Value::as_u64)
            && found != SCHEMA_VERSION
        {
            return Err(Error::SchemaVersion {
                path: self.path.clone(),
                found,
            });
        }
        if let Some(key) = object.keys().find(|key| Column::position(key).is_none()) {
            let detail = format!("schema version {SCHEMA_VERSION} has no such column");
            return Err(cell_error(&self.path, self.line, key, detail));
        }
        let mut cells = Vec::with_capacity(COLUMNS.len());
        for column in COLUMNS {
            let cell = cell_of(column, object.get(column.name))
                .map_err(|detail| cell_error(&self.path, self.line, column.name, detail))?;
            cells.push(cell);
        }
        let row = Row::from_cells(cells)
            .map_err(|error| cell_error(&self.path, self.line, error.column, error.detail))?;
        checked(&self.path, self.line, row)
    }
}

impl Iterator for JsonlRows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn cell_of(column: &Column, value: Option<&Value>) -> Result<Cell<'static>, String> {
    let wrong = |what: &str, value: &Value| Err(format!("expected {what}, found `{value}`"));
    match (column.ty.storage(), value) {
        (_, None | Some(Value::Null)) => Ok(Cell::Missing),
        (Storage::Integer, Some(value)) => match value.as_u64() {
            Some(number) => Ok(Cell::Integer(number)),
            None => wrong("an unsigned integer", value),
        },
        (Storage::Float, Some(value)) => match value.as_f64() {
            Some(number) => Ok(Cell::Float(number)),
            None => wrong("a number", value),
        },
        (Storage::Text, Some(Value::String(text))) => {
            Ok(crate::schema::text_cell(text.clone().into()))
        }
        (Storage::Text, Some(value)) if column.ty == ColumnType::Json => {
            Ok(Cell::Text(value.to_string().into()))
        }
        (Storage::Text, Some(value)) => wrong("text", value),
    }
}
