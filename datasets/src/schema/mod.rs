//! The schema: which columns a row of the dataset has.
//!
//! The table itself is in `columns`; every form of the schema (CSV header, Parquet types, the text of `SCHEMA.md`) is
//! derived from it. `examples/schema_md.rs` writes `SCHEMA.md`. [`crate::cell`] defines what a cell holds.

mod columns;

pub use columns::{COLUMNS, Row, SCHEMA_VERSION};

pub use crate::cell::{Cell, CellError, ColumnType, Presence, Storage};
pub(crate) use crate::cell::{Field, Glance, Initial, TextCells, parse_cell, text_cell};

/// One column of the dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// The name in every file format and in [`Row`].
    pub name: &'static str,
    /// Type of the column's values.
    pub ty: ColumnType,
    /// Whether a cell may be missing.
    pub presence: Presence,
    /// The unit of the value, `""` if it has none.
    pub unit: &'static str,
    /// The part of the schema it belongs to.
    pub group: Group,
    /// Meaning of the column, as one paragraph.
    pub doc: &'static str,
}

impl Column {
    /// The position of the column called `name`, if there is one.
    pub fn position(name: &str) -> Option<usize> {
        COLUMNS.iter().position(|column| column.name == name)
    }
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
    /// Versions of the programs that made the row.
    Provenance,
    /// The resources of a device that a kernel needs, as its compiler reports them.
    Resources,
    /// Counts with a fixed meaning, and what belongs to them.
    Counts,
    /// How near a measured time comes to the machine's calibrated rates.
    Roofline,
    /// What a simulator says in place of a measurement.
    Simulation,
    /// Which other machine it was measured on.
    Remote,
    /// The algorithm of a convolution.
    Algorithm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_carry_their_unit() {
        for (position, column) in COLUMNS.iter().enumerate() {
            assert_eq!(
                Column::position(column.name),
                Some(position),
                "{}",
                column.name
            );
            assert!(column.doc.ends_with(['.', '…']), "{}", column.name);
            assert_eq!(
                column.unit == "ns",
                column.name.ends_with("_ns"),
                "{}",
                column.name
            );
        }
    }
}
