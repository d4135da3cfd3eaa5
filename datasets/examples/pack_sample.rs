//! Packs runs of one machine into one folder: `pack_sample SOURCE OUT` writes the rows of every run below the folder SOURCE
//! to `OUT/rows.parquet`. It writes the facts of the machine to `run.json`, and each `whole_model.json` under the name of
//! its import.
//!
//! Schedule traces are left out: they are most of a row's bytes, and only `opcollect replay` needs them.

use std::error::Error;
use std::fs;
use std::path::Path;

use opdata::contract::whole_model::{whole_model_file_name, whole_model_files};
use opdata::{RUN_JSON, Row, RunManifest, Traces, find_runs, read_rows_with};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, out] = &arguments[..] else {
        return Err("usage: pack_sample SOURCE OUT".into());
    };
    let out = Path::new(out);
    fs::create_dir_all(out)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut packed: Option<RunManifest> = None;
    for run in find_runs(Path::new(source))? {
        let manifest = RunManifest::load(&run)?;
        let of_run = read_rows_with(&run, Traces::Skip)?;
        copy_whole_models(&run, out, &of_run).map_err(|e| format!("{}: {e}", run.display()))?;
        rows.extend(of_run);
        packed = Some(match packed {
            Some(first) => joined(first, manifest)?,
            None => manifest,
        });
    }
    let mut packed = packed.ok_or("there is no run")?;
    packed.run_id = "sample".to_owned();
    packed.command_line = vec!["scripts/sample".to_owned()];
    // The command line contains the path of the program.
    packed.environment["software"]["command_line"] = packed.command_line.clone().into();
    // Each run had its own plan.
    packed.plan = Value::Null;
    packed.plan_hash = None;
    fs::write(out.join(RUN_JSON), serde_json::to_vec(&packed)?)?;
    opdata::formats::parquet::write(&out.join("rows.parquet"), rows.into_iter().map(Ok))?;
    Ok(())
}

/// The record of two runs on one machine.
fn joined(mut first: RunManifest, next: RunManifest) -> Result<RunManifest, Box<dyn Error>> {
    if first.environment["env_hash"] != next.environment["env_hash"] {
        return Err(format!("{} is of another machine", next.run_id).into());
    }
    first.created = first.created.min(next.created);
    first.ended = first.ended.max(next.ended);
    first.counts.planned += next.counts.planned;
    for (status, count) in next.counts.ended {
        *first.counts.ended.entry(status).or_default() += count;
    }
    Ok(first)
}

/// Copies the times of whole models, without line breaks, under names that tell their imports apart.
fn copy_whole_models(run: &Path, out: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    for file in whole_model_files(run)? {
        let first = rows.first().and_then(|row| row.import_key.as_deref());
        let name = whole_model_file_name(file.import_key.as_deref().or(first));
        let record: Value = serde_json::from_slice(&fs::read(&file.path)?)?;
        fs::write(out.join(name), serde_json::to_vec(&record)?)?;
    }
    Ok(())
}
