//! Importers of other tools' measurements into rows.
//!
//! | module | reads |
//! | --- | --- |
//! | [`autotvm`] | AutoTVM's JSON lines of TVM 0.6 to 0.9 (log formats 0.1 and 0.2) |
//! | [`metaschedule`] | a MetaSchedule database: `database_workload.json` and `database_tuning_record.json` |
//! | [`table`] | CSV tables of shapes and times (NeuSight, DeepBench and the like) |
//!
//! Files may be compressed with gzip. A failed measurement becomes a row with its status. Lines that cannot become rows
//! (no record, an impossible time, a target without a device kind) are never dropped silently. They are counted in
//! [`Imported::left_out`] with the reason and the first line; with [`Import::strict`] they are errors.

pub mod autotvm;
pub mod metaschedule;
pub mod table;

mod faults;
mod gather;
mod lines;
mod machine;
mod physics;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::Result;
use crate::schema::Row;

pub use gather::gather;
pub use machine::machine_of_target;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// See [`autotvm`].
    Autotvm,
    /// See [`metaschedule`].
    Metaschedule,
    /// See [`table`].
    Table,
}

impl Format {
    /// All formats that can be imported.
    pub const ALL: [Self; 3] = [Self::Autotvm, Self::Metaschedule, Self::Table];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Autotvm => "autotvm",
            Self::Metaschedule => "metaschedule",
            Self::Table => "table",
        }
    }
}

/// A foreign file to read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its format.
    pub format: Format,
    /// The file, or a database's folder.
    pub path: PathBuf,
    /// The machine of the measurements; `None` if the target names it.
    pub machine: Option<String>,
    /// Whether a line that cannot be used is an error, not a count.
    pub strict: bool,
}

impl Import {
    /// An import that counts what it cannot use, of the machine that the file's target names.
    pub fn new(format: Format, path: impl Into<PathBuf>) -> Self {
        Self {
            format,
            path: path.into(),
            machine: None,
            strict: false,
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or no line of it is a record; with `strict`, also if a line cannot be used.
    pub fn read(&self) -> Result<Imported> {
        let mut imported = match self.format {
            Format::Autotvm => autotvm::read(self),
            Format::Metaschedule => metaschedule::read(self),
            Format::Table => table::read(self),
        }?;
        if let Some(machine) = &self.machine {
            for row in &mut imported.rows {
                row.env_hash = Some(match &row.env_hash {
                    Some(device) => format!("{machine} {device}"),
                    None => machine.clone(),
                });
            }
        }
        Ok(imported)
    }
}

/// The result of importing a foreign log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// A row for each record, in the log's order.
    pub rows: Vec<Row>,
    /// Lines and records that have no row, counted by the reason.
    pub left_out: BTreeMap<String, u64>,
}

impl Imported {
    fn leave_out(&mut self, reason: String) {
        *self.left_out.entry(reason).or_default() += 1;
    }
}
