//! Logs of other tools as entries of a store: AutoTVM's, whose kernels cannot be built any more, and MetaSchedule's
//! databases, whose traces `apply` replays.
//!
//! A log names its target, not its machine. Its entries count as this machine's only where the user says so.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context as _;
use opdata::import::metaschedule::{RECORDS, WORKLOADS};
use opdata::import::{Format, Import, machine_of_target};
use opdata::{Row, Status, stable_hash};
use opengine::schedule::Choice;
use serde_json::Value;
use tvm_bridge::Trace;
use tvm_bridge::database::Workload;

use super::Entry;

/// The schedules read from a log.
#[derive(Debug, Default)]
pub struct Log {
    /// Records that were read.
    pub seen: u64,
    /// The measured ones.
    pub entries: Vec<Entry>,
    /// Records without an entry, counted by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// The format of a log, where a path is one: a folder with a MetaSchedule database, or a file of AutoTVM's records.
pub fn format_of(path: &Path) -> Option<Format> {
    if path.join(RECORDS).is_file() || path.file_name().is_some_and(|name| name == RECORDS) {
        return Some(Format::Metaschedule);
    }
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let is_text = [".json", ".jsonl", ".log", ".txt"]
        .iter()
        .any(|ending| name.ends_with(ending));
    (is_text && path.is_file()).then_some(Format::Autotvm)
}

/// Reads a log. Its entries are of the machine `here`, if that is given, else of the one that its target names.
///
/// # Errors
/// Fails if the file cannot be read, or no line of it is a record.
pub fn read(path: &Path, format: Format, here: Option<&str>) -> anyhow::Result<Log> {
    let imported = Import::new(format, path).read()?;
    let mut log = Log {
        seen: imported.rows.len() as u64 + imported.left_out.values().sum::<u64>(),
        left_out: imported.left_out,
        entries: Vec::new(),
    };
    let workloads = match format {
        Format::Metaschedule => workloads(path)?,
        _ => HashMap::new(),
    };
    for row in &imported.rows {
        match check(row, &workloads).and_then(|()| entry(row, here)) {
            Ok(entry) => log.entries.push(entry),
            Err(reason) => *log.left_out.entry(reason).or_default() += 1,
        }
    }
    Ok(log)
}

/// The key in the store of a function that a MetaSchedule database knows by `hash`.
pub fn workload_key(hash: &str) -> String {
    stable_hash(&[("structural_hash", hash)])
}

/// The workloads of a database by their key.
fn workloads(path: &Path) -> anyhow::Result<HashMap<String, Workload>> {
    let folder = match path.is_dir() {
        true => path,
        false => path.parent().unwrap_or(Path::new(".")),
    };
    let file = folder.join(WORKLOADS);
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut workloads = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = || format!("{}, line {}", file.display(), number + 1);
        let line: Value = serde_json::from_str(line).with_context(at)?;
        let workload = Workload::of_line(&line).with_context(at)?;
        workloads.insert(workload_key(&workload.hash), workload);
    }
    Ok(workloads)
}

/// Whether a record fits its workload: two writers of one database mix them up without an error.
fn check(row: &Row, workloads: &HashMap<String, Workload>) -> Result<(), String> {
    let key = row.workload_hash.as_deref().unwrap_or_default();
    let Some(workload) = workloads.get(key) else {
        return Ok(());
    };
    let shapes = [&row.input_shapes, &row.weight_shapes];
    let shapes: Vec<String> = shapes
        .into_iter()
        .filter_map(|shapes| Some(shapes.as_ref()?.to_string()))
        .collect();
    let mut own: Vec<String> = workload
        .arguments
        .as_array()
        .into_iter()
        .flatten()
        .map(|argument| joined(&argument[2]))
        .collect();
    own.pop();
    if shapes.join(";") != own.join(";") {
        return Err("the shapes of its arguments are not its workload's".to_owned());
    }
    let trace = row.schedule_trace.as_ref().map(opdata::JsonText::decode);
    if let Some(Ok(trace)) = trace {
        let applied = workload.apply(&Trace(trace));
        applied.map_err(|_| "its trace does not apply to its workload".to_owned())?;
    }
    Ok(())
}

fn joined(shape: &Value) -> String {
    let extents = shape.as_array().into_iter().flatten();
    extents.map(Value::to_string).collect::<Vec<_>>().join("x")
}

/// The entry of a measured record, with the columns that a log leaves open.
fn entry(row: &Row, here: Option<&str>) -> Result<Entry, String> {
    if row.status != Status::Measured {
        return Err(row.reason.clone().unwrap_or_else(|| row.status.to_string()));
    }
    let lacks = || "it lacks its target or its knobs".to_owned();
    let target: Value = row
        .target
        .as_ref()
        .and_then(|t| t.decode().ok())
        .ok_or_else(lacks)?;
    let knobs: Value = row
        .schedule_knobs
        .as_ref()
        .and_then(|k| k.decode().ok())
        .ok_or_else(lacks)?;
    let tool = row.tool_version.as_deref().unwrap_or("log");
    let mut row = row.clone();
    row.env_hash = match (here, &target) {
        (Some(here), _) => Some(here.to_owned()),
        (None, Value::String(text)) => Some(machine_of_target(text)),
        (None, json) => Some(json["mcpu"].as_str().unwrap_or("unknown").to_owned()),
    };
    // AutoTVM's logs do not say how many threads there were.
    row.threads
        .get_or_insert(target["num-cores"].as_u64().unwrap_or(0));
    let trace = row
        .schedule_trace
        .as_ref()
        .map_or("", opdata::JsonText::as_str);
    let program = stable_hash(&[("knobs", &knobs.to_string()), ("trace", trace)]);
    row.program_hash.get_or_insert(program);
    let choice =
        serde_json::from_value(knobs.clone()).unwrap_or_else(|_| Choice::new(tool, &knobs));
    row.schedule_knobs = serde_json::to_value(choice)
        .ok()
        .map(|knobs| opdata::JsonText::from(&knobs));
    let mut entry = Entry::of_row(&row, &row.run_id).ok_or_else(lacks)?;
    if here.is_some() {
        // Keys that TVM adds to a target when it writes one.
        for key in ["keys", "tag", "host"] {
            entry
                .key
                .target
                .as_object_mut()
                .map(|target| target.remove(key));
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_autotvm_log_every_measured_line_becomes_an_entry_that_no_kernel_is_built_by() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tune.log");
        let record = |cost: &str, error: u8, tile: u8| {
            format!(
                r#"{{"input": ["llvm -mcpu=skylake-avx512", "dense_nopack.x86", [["TENSOR", [4, 64], "float32"], ["TENSOR", [8, 64], "float32"]], {{}}], "config": {{"index": {tile}, "entity": [["tile_x", "sp", [-1, {tile}]]]}}, "result": [[{cost}], {error}, 0.4, 1608482296.0], "version": 0.2}}"#
            )
        };
        let lines = [
            record("2e-6", 0, 1),
            record("1e-6", 0, 2),
            record("1e9", 1, 4),
            "{".to_owned(),
        ];
        std::fs::write(&file, lines.join("\n")).unwrap();
        assert_eq!(format_of(&file), Some(Format::Autotvm));
        let log = read(&file, Format::Autotvm, None).unwrap();
        assert_eq!((log.seen, log.entries.len()), (4, 2));
        assert_eq!(log.left_out.values().sum::<u64>(), 2, "{:?}", log.left_out);
        let entry = &log.entries[0];
        assert_eq!(entry.key.machine, "llvm -mcpu=skylake-avx512");
        assert_eq!((entry.kind.as_str(), entry.key.threads), ("dense", 0));
        assert_eq!(
            (entry.choice.template.as_str(), entry.spec()),
            ("autotvm", None)
        );
        assert_ne!(entry.program_hash, log.entries[1].program_hash);
    }
}
