//! Databases of MetaSchedule: a folder of two JSON files, written and read by TVM's own functions.
//!
//! The index of a workload is a counter in the writer's memory, so two writers corrupt a database without an error. A
//! [`Writer`] therefore works in a folder of its own. Its caller renames the folder when it is complete.

use std::path::Path;

use serde_json::Value;

use crate::call::{Obj, array, boolean, call, elements, field, none, text};
use crate::error::{Error, Result};
use crate::ir::{ENTRY, IrModule, PrimFunc};
use crate::libs::Libraries;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::trace::{Trace, object_of_json, plain_json};

/// Adds records to a new database.
pub struct Writer {
    database: Obj,
    target: Target,
}

impl Writer {
    /// A database in an empty folder, for a target.
    ///
    /// # Errors
    /// Fails if TVM does, or if the folder cannot be written.
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
    /// Fails if the trace is not one of the function.
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

/// A function of a database, with the shapes that its records must fit.
#[derive(Debug, Clone)]
pub struct Workload {
    /// TVM's structural hash of it, as the database writes it.
    pub hash: String,
    function: PrimFunc,
    /// Its arguments, `["TENSOR", data type, shape]` each.
    pub arguments: Value,
}

impl Workload {
    /// Reads a line of `database_workload.json`.
    ///
    /// # Errors
    /// Fails if it is not a workload of this version of TVM, if its hash differs, or if it has no function `main`.
    pub fn of_line(line: &Value) -> Result<Workload> {
        const NAME: &str = "s_tir.meta_schedule.WorkloadFromJSON";
        Libraries::load()?;
        let hash = line[0].as_str();
        let hash = hash.ok_or_else(|| Error::unexpected(NAME, "no structural hash"))?;
        let workload = call(NAME, &[&object_of_json(line)?])?;
        let module = IrModule {
            handle: field(&workload, "mod")?,
        };
        let function = module.prim_func(ENTRY)?;
        let arguments = arguments(&function)?;
        Ok(Workload {
            hash: hash.to_owned(),
            function,
            arguments,
        })
    }

    /// Applies a trace to the function.
    ///
    /// # Errors
    /// Fails if it is the trace of another function.
    pub fn apply(&self, trace: &Trace) -> Result<()> {
        Schedule::new(&self.function, 0)?.apply(trace)
    }
}

/// The hash under which a database has a function.
///
/// # Errors
/// Fails if TVM does.
pub fn workload_hash(function: &PrimFunc) -> Result<String> {
    let module = function.with_symbol(ENTRY)?.to_module()?;
    Ok(module.structural_hash()?.to_string())
}

fn arguments(function: &PrimFunc) -> Result<Value> {
    let infos = call(
        "s_tir.meta_schedule.ArgInfoFromPrimFunc",
        &[&function.handle],
    )?;
    let infos = elements(&infos)?;
    let json = infos
        .iter()
        .map(|info| plain_json(&call("s_tir.meta_schedule.ArgInfoAsJSON", &[info])?));
    Ok(Value::Array(json.collect::<Result<_>>()?))
}
