//! Writes the joined run under a temporary name beside its final place and moves it there when it is complete.

use std::path::{Path, PathBuf};
use std::{fs, io};

use opdata::contract::whole_model::whole_model_files;
use opdata::{Counts, RowReader, RunManifest, RunState, RunWriter};
use serde_json::json;

use super::scan::ScannedShard;
use super::shards::{ShardRun, Shards};
use super::{MergeError, Merged, MergedShard};

/// File of the new run with the list of its sources.
const MERGED_FROM_JSON: &str = "merged_from.json";

/// Writes the run `out` from shards that were checked.
pub(super) fn write(
    out: &Path,
    shards: &Shards,
    scanned: Vec<ScannedShard>,
    command_line: Vec<String>,
) -> Result<Merged, MergeError> {
    let part = part_of(out);
    // The remains of a killed merge are useless.
    if part.exists() {
        fs::remove_dir_all(&part).map_err(|source| io_error("write", &part, source))?;
    }
    let done = fill(&part, out, shards, scanned, command_line).and_then(|merged| {
        fs::rename(&part, out).map_err(|source| io_error("create", out, source))?;
        Ok(merged)
    });
    if done.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_dir_all(&part);
    }
    done
}

fn fill(
    part: &Path,
    out: &Path,
    shards: &Shards,
    scanned: Vec<ScannedShard>,
    command_line: Vec<String>,
) -> Result<Merged, MergeError> {
    let mut writer = RunWriter::create(part)?;
    let mut counts = Counts::default();
    let mut merged = Vec::with_capacity(scanned.len());
    for (run, scan) in shards.runs.iter().zip(scanned) {
        for row in RowReader::open(&run.folder)? {
            let mut row = row?;
            if let Some(name) = &scan.renamed {
                row.row_id = format!("{name}{}", row.row_id.trim_start_matches(&row.run_id));
                row.run_id.clone_from(name);
            }
            writer.append(&row)?;
            counts.add(&row);
        }
        counts.planned += run.manifest.counts.planned;
        merged.push(MergedShard {
            folder: run.folder.clone(),
            shard: run.shard,
            run_id: run.manifest.run_id.clone(),
            rows_run_id: scan.renamed.unwrap_or_else(|| run.manifest.run_id.clone()),
            state: run.manifest.state,
            rows: scan.rows,
            env_hashes: scan.env_hashes.into_iter().collect(),
        });
    }
    writer.finish()?;
    let manifest = manifest(out, shards, counts.clone(), command_line);
    manifest.save(part)?;
    let record = json!({ "shards": merged, "missing": shards.missing });
    opdata::write_atomically(
        &part.join(MERGED_FROM_JSON),
        format!("{record:#}\n").as_bytes(),
    )?;
    copy_whole_models(part, &shards.runs)?;
    Ok(Merged {
        out: out.to_owned(),
        run_id: manifest.run_id,
        counts,
        shards: merged,
        missing: shards.missing.clone(),
    })
}

/// The manifest of the whole plan; what differs between the shards is in `merged_from.json`.
fn manifest(out: &Path, shards: &Shards, counts: Counts, command_line: Vec<String>) -> RunManifest {
    let manifests = || shards.runs.iter().map(|run| &run.manifest);
    let Some(first) = manifests().next() else {
        return RunManifest::new("merged");
    };
    let mut merged = first.clone();
    if manifests().any(|m| m.run_id != first.run_id) {
        merged.run_id = format!("{}-merged", first.run_id);
    }
    if let Some(plan) = merged.plan.as_object_mut() {
        plan.remove("shard");
        plan.insert("out".to_owned(), json!(out));
        plan.insert("run_id".to_owned(), json!(merged.run_id));
    }
    let whole = shards.missing.is_empty() && manifests().all(|m| m.state == RunState::Finished);
    merged.shard = None;
    merged.command_line = command_line;
    merged.counts = counts;
    merged.created = manifests()
        .map(|m| m.created)
        .min()
        .unwrap_or(first.created);
    merged.ended = manifests().filter_map(|m| m.ended).max();
    merged.state = if whole {
        RunState::Finished
    } else {
        RunState::Interrupted
    };
    merged
}

/// Copies each whole model from the first shard that measured it.
fn copy_whole_models(part: &Path, runs: &[ShardRun]) -> Result<(), MergeError> {
    for run in runs {
        let files = whole_model_files(&run.folder)?;
        for file in files {
            let copy = part.join(file.path.file_name().unwrap_or_default());
            if !copy.exists() {
                let text =
                    fs::read(&file.path).map_err(|source| io_error("read", &file.path, source))?;
                opdata::write_atomically(&copy, &text)?;
            }
        }
    }
    Ok(())
}

fn part_of(out: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(out.file_name().unwrap_or_default());
    name.push(".part");
    out.with_file_name(name)
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> MergeError {
    let path = path.to_owned();
    MergeError::Data(opdata::Error::Io {
        action,
        path,
        source,
    })
}
