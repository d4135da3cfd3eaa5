//! Cells: how a field of a row becomes a neutral value and back.
//!
//! A cell stands between a typed field and a file format: missing, an unsigned integer, a finite float, or text.
//! [`crate::schema`] has the columns.

mod field;

use std::borrow::Cow;
use std::fmt;

pub(crate) use field::{Field, Glance, Initial, TextCells, text_cell, text_field};

/// Whether a cell of a column may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Every row has it.
    Required,
    /// Missing is written as an empty CSV field, a Parquet null, an absent JSON key.
    Optional,
}

/// The type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// An unsigned 64-bit integer.
    Integer,
    /// A finite 64-bit float.
    Float,
    /// Any non-empty text.
    Text,
    /// Exactly one of these words.
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

/// The neutral form of one value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// The value is unknown, or the column does not apply.
    Missing,
    /// A value of an integer column.
    Integer(u64),
    /// A value of a float column; finite in every valid row.
    Float(f64),
    /// A value of any other column; never empty in a valid row.
    Text(Cow<'a, str>),
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
    /// Description of the fault, with the offending text.
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
