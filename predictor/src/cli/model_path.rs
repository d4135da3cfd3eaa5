//! Chooses the trained model: the one named, else the newest `.opm` in `models/` or the working directory.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opreport::output::say;

use crate::model::{Trained, file};

/// Loads the model named, or the newest; says on stderr which one it took by itself.
pub fn load(named: Option<&Path>) -> anyhow::Result<Trained> {
    if let Some(path) = named {
        return Ok(file::load(path)?);
    }
    let newest = ["models", "."]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "opm") && path.is_file())
        .max_by_key(modified);
    let Some(path) = newest else {
        anyhow::bail!(
            "no trained model: name one with --model FILE.opm, or train one with `oppredict train runs/* --out models/cpu.opm`"
        );
    };
    say(&format!("asking {}", path.display()));
    Ok(file::load(&path)?)
}

#[allow(clippy::ptr_arg, reason = "the key of an iterator over owned paths")]
fn modified(path: &PathBuf) -> SystemTime {
    std::fs::metadata(path)
        .and_then(|m| m.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
