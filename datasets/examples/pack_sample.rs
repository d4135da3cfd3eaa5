//! Packs runs into the sample dataset: `pack_sample SOURCE OUT` writes, for every run below the folder SOURCE, a folder in
//! OUT with `rows.parquet`, `run.json` and `whole_model*.json`.
//!
//! Schedule traces are left out: they are most of a row's bytes, and only `opcollect replay` needs them.

use std::error::Error;
use std::fs;
use std::path::Path;

use opdata::{RUN_JSON, RunManifest, Traces, find_runs, read_rows_with};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, out] = &arguments[..] else {
        return Err("usage: pack_sample SOURCE OUT".into());
    };
    for run in find_runs(Path::new(source))? {
        pack(&run, Path::new(out)).map_err(|e| format!("{}: {e}", run.display()))?;
    }
    Ok(())
}

fn pack(run: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let manifest = RunManifest::load(run)?;
    let folder = out.join(&manifest.run_id);
    fs::create_dir_all(&folder)?;
    let rows = read_rows_with(run, Traces::Skip)?;
    opdata::formats::parquet::write(&folder.join("rows.parquet"), rows.into_iter().map(Ok))?;
    fs::copy(run.join(RUN_JSON), folder.join(RUN_JSON))?;
    for entry in fs::read_dir(run)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with("whole_model") && text.ends_with(".json") {
            fs::copy(run.join(&name), folder.join(&name))?;
        }
    }
    Ok(())
}
