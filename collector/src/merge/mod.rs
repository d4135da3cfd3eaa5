//! Joins the shards of one plan into one run.
//!
//! First everything is checked ([`shards`]: all shards of one plan, each once; [`scan`]: every row whole and there once), then
//! the new run is written beside its final place and moved there ([`mod@write`]). Shards are only read, and an error leaves no
//! half-made run.

mod scan;
mod shards;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use opdata::run::RUN_JSON;
use opdata::{Counts, RunState, Shard};
use serde::Serialize;
use thiserror::Error;

/// A request to merge: the arguments of `opcollect merge`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct MergeRequest {
    /// Folder of the new run, which must not exist yet
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Folders of the shards, in any order
    #[arg(value_name = "SHARD", required = true, value_hint = ValueHint::DirPath)]
    pub shards: Vec<PathBuf>,
    /// Join the shards that exist, even if some are missing or not finished
    #[arg(long)]
    pub partial: bool,
    /// Join shards of different machines too
    #[arg(long)]
    pub allow_other_machine: bool,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Merged {
    /// The new run's folder.
    pub out: PathBuf,
    /// Its name.
    pub run_id: String,
    /// Number of the run's points by how they ended.
    pub counts: Counts,
    /// The shards, by number.
    pub shards: Vec<MergedShard>,
    /// Shards of the plan that are not in it.
    pub missing: Vec<u32>,
}

/// A shard of the new run, as its `merged_from.json` keeps it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergedShard {
    /// Its folder.
    pub folder: PathBuf,
    /// Its part of the plan.
    pub shard: Shard,
    /// Its name.
    pub run_id: String,
    /// The run that its rows belong to now, which differs if another shard has rows of the same names.
    pub rows_run_id: String,
    /// Its progress.
    pub state: RunState,
    /// Its rows.
    pub rows: u64,
    /// Fingerprints of its machines.
    pub env_hashes: Vec<String>,
}

/// Why shards cannot be joined. Nothing was written.
#[derive(Debug, Error)]
pub enum MergeError {
    /// A shard cannot be read, or the new run cannot be written.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// The new run's folder is there.
    #[error("{} is there already; name a folder that does not exist yet", path.display())]
    OutExists {
        /// The folder.
        path: PathBuf,
    },
    /// A run that is not a shard.
    #[error("{} is no shard: its {RUN_JSON} names no shard of a plan; merge joins runs made with --shard", folder.display())]
    NoShard {
        /// The run.
        folder: PathBuf,
    },
    /// Shards of different plans.
    #[error(
        "{} and {} are shards of different plans{}; join shards of one plan, made with the same settings",
        first.display(), other.display(), differences(keys)
    )]
    OtherPlan {
        /// The first shard.
        first: PathBuf,
        /// A shard of another plan.
        other: PathBuf,
        /// The settings that differ, as far as they are known.
        keys: Vec<String>,
    },
    /// Shards of one plan, cut in different ways.
    #[error(
        "{} is shard {first_shard}, {} shard {other_shard}: the plan was cut in different ways; join shards of one cut",
        first.display(), other.display()
    )]
    OtherCut {
        /// The first shard.
        first: PathBuf,
        /// The part of the plan in the first shard.
        first_shard: Shard,
        /// A shard of another cut.
        other: PathBuf,
        /// The part of the plan in the other shard.
        other_shard: Shard,
    },
    /// A shard twice.
    #[error("{} and {} are both shard {shard}; leave one out", first.display(), second.display())]
    ShardTwice {
        /// Folder of one of the two.
        first: PathBuf,
        /// Folder of the other.
        second: PathBuf,
        /// The part.
        shard: Shard,
    },
    /// Shards that nobody named.
    #[error(
        "of {count} shards these are missing: {}; name their folders too, or give --partial to join without them",
        numbers(missing)
    )]
    MissingShards {
        /// Their numbers.
        missing: Vec<u32>,
        /// Number of shards of the plan.
        count: u32,
    },
    /// A shard that has not reached its end.
    #[error("{} (shard {shard}) is not finished: {rows} of {planned} points; resume it, or give --partial to join what it has", folder.display())]
    Unfinished {
        /// The shard.
        folder: PathBuf,
        /// The part.
        shard: Shard,
        /// Its rows.
        rows: u64,
        /// Its points.
        planned: u64,
    },
    /// Rows that the manifest counts are gone.
    #[error("{}: {RUN_JSON} counts {counted} rows, but {found} are there; bring the folder back from a copy, or run the shard again", folder.display())]
    LostRows {
        /// The shard.
        folder: PathBuf,
        /// Rows by the manifest.
        counted: u64,
        /// Rows in the file.
        found: u64,
    },
    /// One point in two shards.
    #[error("{} and {} overlap: both have the point {point_id} ({operator}); run one of them again", first.display(), second.display())]
    Overlap {
        /// Folder of one shard.
        first: PathBuf,
        /// Folder of the other shard.
        second: PathBuf,
        /// The point.
        point_id: String,
        /// Its operator.
        operator: String,
    },
    /// Unlike machines.
    #[error(
        "the shards are of unlike machines: {}; give --allow-other-machine to join them nevertheless",
        machine_list(machines)
    )]
    OtherMachine {
        /// Each fingerprint with a shard that has it.
        machines: Vec<(String, PathBuf)>,
    },
}

fn differences(keys: &[String]) -> String {
    match keys {
        [] => String::new(),
        keys => format!(" (they differ in {})", keys.join(", ")),
    }
}

fn numbers(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    texts.join(", ")
}

fn machine_list(machines: &[(String, PathBuf)]) -> String {
    let texts: Vec<String> = machines
        .iter()
        .map(|(hash, folder)| format!("{hash} ({})", folder.display()))
        .collect();
    texts.join(", ")
}

/// Joins shards into a new run.
///
/// # Errors
/// Fails if the shards do not belong together, are not whole, or the new run cannot be written; then nothing was.
pub fn merge(request: &MergeRequest, command_line: Vec<String>) -> Result<Merged, MergeError> {
    if request.out.exists() {
        return Err(MergeError::OutExists {
            path: request.out.clone(),
        });
    }
    let shards = shards::load(request)?;
    let scanned = scan::scan(&shards, request)?;
    write::write(&request.out, &shards, scanned, command_line)
}
