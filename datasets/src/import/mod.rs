//! Importers of other tools' measurements into rows.
//!
//! | module | reads |
//! | --- | --- |
//! | [`autotvm`] | AutoTVM's JSON lines of TVM 0.6 to 0.9 (log formats 0.1 and 0.2) |
//! | [`metaschedule`] | a MetaSchedule database: `database_workload.json` and `database_tuning_record.json` |
//!
//! Files may be compressed with gzip. A measurement that failed becomes a row with its status; a line that is no record
//! is an error with its number. What an importer cannot express as a row is counted in [`Imported::left_out`] with the
//! reason, never dropped in silence.

pub mod autotvm;
pub mod metaschedule;

mod lines;
mod workload;

use std::collections::BTreeMap;

use crate::schema::Row;

/// What came out of a foreign log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// A row for each record, in the log's order.
    pub rows: Vec<Row>,
    /// Records that have no row, counted by the reason.
    pub left_out: BTreeMap<String, u64>,
}

impl Imported {
    fn leave_out(&mut self, reason: String) {
        *self.left_out.entry(reason).or_default() += 1;
    }
}
