//! The schema's vocabulary: what a column is, and how a field becomes a cell and back.
//!
//! The table itself is in `columns`; every form of the schema (CSV header, Parquet types, the
//! text of `SCHEMA.md`) is derived from it. A cell is the neutral value between a typed field and
//! a file format: missing, an unsigned integer, a finite float, or text.

mod columns;
mod document;
mod field;

use std::borrow::Cow;
use std::fmt;

pub use columns::{COLUMNS, Row, SCHEMA_VERSION};
pub use document::schema_markdown;
pub(crate) use field::{Field, Glance, Initial, TextCells, text_cell, text_field};

/// One column of the dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// The name in every file format and in [`Row`].
    pub name: &'static str,
    /// What a cell of it holds.
    pub ty: ColumnType,
    /// Whether a cell may be missing.
    pub presence: Presence,
    /// The unit of the value, `""` if it has none.
    pub unit: &'static str,
    /// The part of the schema it belongs to.
    pub group: Group,
    /// What it means, as one paragraph.
    pub doc: &'static str,
}

impl Column {
    /// The position of the column called `name`, if there is one.
    pub fn position(name: &str) -> Option<usize> {
        COLUMNS.iter().position(|column| column.name == name)
    }
}

/// Whether a cell of a column may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Every row has it.
    Required,
    /// Missing is written as an empty CSV field, a Parquet null, an absent JSON key.
    Optional,
}

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// An unsigned 64-bit integer.
    Integer,
    /// A finite 64-bit float.
    Float,
    /// Any non-empty text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// JSON, as text.
    Json,
    /// Extents, as [`crate::Dims`] writes them: `3x3`.
    Dims,
    /// Shapes, as [`crate::Shapes`] writes them: `1x64x56x56;64`.
    Shapes,
    /// Loops, as [`crate::LoopNest`] writes them: `ff:64:s,rc:64:r`.
    LoopNest,
    /// A UTC time, as [`crate::Timestamp`] writes it: `2026-01-31T12:00:00.000Z`.
    Timestamp,
}

impl ColumnType {
    /// How a file format stores it.
    pub fn storage(self) -> Storage {
        match self {
            Self::Integer => Storage::Integer,
            Self::Float => Storage::Float,
            _ => Storage::Text,
        }
    }
}

/// The physical forms of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// `u64`; Parquet INT64 annotated as unsigned.
    Integer,
    /// `f64`; Parquet DOUBLE.
    Float,
    /// UTF-8; Parquet BYTE_ARRAY annotated as a string.
    Text,
}

/// The parts of the schema, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Which row, point and run this is.
    Identity,
    /// The model the operator came from.
    Model,
    /// What is computed.
    Operator,
    /// Where it runs.
    Target,
    /// How it was scheduled.
    Schedule,
    /// What was measured, or why nothing was.
    Measurement,
    /// What it took to build the kernel.
    Build,
    /// Hardware counters and energy.
    Counters,
    /// With what it was made.
    Provenance,
}

/// The neutral form of one value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Not known, or not applicable.
    Missing,
    /// A value of an integer column.
    Integer(u64),
    /// A value of a float column; finite in every valid row.
    Float(f64),
    /// A value of any other column; never empty in a valid row.
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// The same cell, owning its text.
    pub fn into_owned(self) -> Cell<'static> {
        match self {
            Cell::Missing => Cell::Missing,
            Cell::Integer(value) => Cell::Integer(value),
            Cell::Float(value) => Cell::Float(value),
            Cell::Text(text) => Cell::Text(Cow::Owned(text.into_owned())),
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => Ok(()),
            Cell::Integer(value) => write!(f, "{value}"),
            // Debug, not Display: the shortest text that reads back as the same bits, without
            // the 300 zeros of an extreme value.
            Cell::Float(value) => write!(f, "{value:?}"),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

/// A cell that its column cannot hold.
#[derive(Debug, Clone, PartialEq)]
pub struct CellError {
    /// The column.
    pub column: &'static str,
    /// What is wrong, with the offending text.
    pub detail: String,
}

/// The wording of a cell of the wrong kind.
pub(crate) fn expected(what: &str, found: &Cell<'_>) -> String {
    match found {
        Cell::Missing => format!("expected {what}, found nothing"),
        other => format!("expected {what}, found `{}`", excerpt(&other.to_string())),
    }
}

/// The beginning of a text for an error message, which is one line.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut short = String::new();
    for c in text.chars().take(LONGEST) {
        if c.is_control() {
            short.extend(c.escape_default());
        } else {
            short.push(c);
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

/// Reads a cell of a text format (CSV) according to the column's storage.
pub(crate) fn parse_cell(storage: Storage, text: &str) -> Result<Cell<'_>, String> {
    if text.is_empty() {
        return Ok(Cell::Missing);
    }
    match storage {
        Storage::Integer => match text.parse::<u64>() {
            Ok(value) => Ok(Cell::Integer(value)),
            Err(_) => Err(expected(
                "an unsigned integer",
                &Cell::Text(Cow::Borrowed(text)),
            )),
        },
        Storage::Float => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Cell::Float(value)),
            _ => Err(expected(
                "a finite number",
                &Cell::Text(Cow::Borrowed(text)),
            )),
        },
        Storage::Text => Ok(Cell::Text(Cow::Borrowed(text))),
    }
}
