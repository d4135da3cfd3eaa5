//! Databases of MetaSchedule: a folder of two JSON files, written by TVM's own functions.
//!
//! The index of a workload is a counter in the memory of who writes, so two writers corrupt a database without an error. A
//! [`Writer`] therefore works in a folder that nobody else has; whoever makes it renames it when it is complete.

use std::path::Path;

use crate::call::{Obj, array, boolean, call, none, text};
use crate::error::Result;
use crate::ir::{ENTRY, PrimFunc};
use crate::libs::Libraries;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::trace::Trace;

/// Adds records to a new database.
pub struct Writer {
    database: Obj,
    target: Target,
}

impl Writer {
    /// A database in an empty folder, for a target.
    ///
    /// # Errors
    /// TVM's, or the folder cannot be written.
    pub fn new(folder: &Path, target: &Target) -> Result<Writer> {
        Libraries::load()?;
        let file = |name: &str| text(&folder.join(name).to_string_lossy());
        let database = call(
            "s_tir.meta_schedule.DatabaseJSONDatabase",
            &[
                &file("database_workload.json"),
                &file("database_tuning_record.json"),
                &boolean(true),
                &text("structural"),
            ],
        )?;
        Ok(Writer {
            database,
            target: target.clone(),
        })
    }

    /// Adds a function's schedule by its trace, with its time in nanoseconds.
    ///
    /// # Errors
    /// The trace is not one of the function's.
    pub fn add(&self, function: &PrimFunc, trace: &Trace, time_ns: f64) -> Result<()> {
        // TVM looks a function up under this name.
        let named = function.with_symbol(ENTRY)?;
        let schedule = Schedule::new(&named, 0)?;
        schedule.apply(trace)?;
        let module = named.to_module()?;
        let workload = call(
            "s_tir.meta_schedule.DatabaseCommitWorkload",
            &[&self.database, &module.handle],
        )?;
        let seconds = Obj(tvm_ffi::Any::from(time_ns * 1e-9));
        let seconds = call("ir.FloatImm", &[&text("float64"), &seconds, &none()])?;
        let arguments = call("s_tir.meta_schedule.ArgInfoFromPrimFunc", &[&named.handle])?;
        let record = call(
            "s_tir.meta_schedule.TuningRecord",
            &[
                &schedule.trace_object()?,
                &workload,
                &array([&seconds])?,
                &self.target.handle,
                &arguments,
            ],
        )?;
        call(
            "s_tir.meta_schedule.DatabaseCommitTuningRecord",
            &[&self.database, &record],
        )
        .map(drop)
    }
}
