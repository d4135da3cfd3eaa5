//! Checks from the manifests alone that the named runs are all shards of one plan, each once.

use std::path::{Path, PathBuf};

use opdata::{RunManifest, Shard};
use serde_json::Value;

use super::{MergeError, MergeRequest};

/// Parts of a plan that say where its results go, not which points there are.
const PLACE_KEYS: [&str; 3] = ["out", "run_id", "shard"];

/// A shard, its rows not yet read.
#[derive(Debug)]
pub(super) struct ShardRun {
    pub folder: PathBuf,
    pub manifest: RunManifest,
    pub shard: Shard,
}

/// The shards in the order of their numbers, and the numbers of missing ones.
#[derive(Debug)]
pub(super) struct Shards {
    pub runs: Vec<ShardRun>,
    pub missing: Vec<u32>,
}

/// Reads the manifests and checks that they belong together.
pub(super) fn load(request: &MergeRequest) -> Result<Shards, MergeError> {
    let mut runs: Vec<ShardRun> = request
        .shards
        .iter()
        .map(|f| open(f))
        .collect::<Result<_, _>>()?;
    runs.sort_by_key(|run| run.shard.index);
    for pair in runs.windows(2) {
        belong_together(&pair[0], &pair[1])?;
    }
    let count = runs.first().map_or(0, |run| run.shard.count);
    let missing: Vec<u32> = (1..=count)
        .filter(|index| !runs.iter().any(|run| run.shard.index == *index))
        .collect();
    if !missing.is_empty() && !request.partial {
        return Err(MergeError::MissingShards { missing, count });
    }
    Ok(Shards { runs, missing })
}

fn open(folder: &Path) -> Result<ShardRun, MergeError> {
    let manifest = RunManifest::load(folder)?;
    match (manifest.shard, &manifest.plan_hash) {
        (Some(shard), Some(_)) => Ok(ShardRun {
            folder: folder.to_owned(),
            manifest,
            shard,
        }),
        _ => Err(MergeError::NoShard {
            folder: folder.to_owned(),
        }),
    }
}

fn belong_together(first: &ShardRun, other: &ShardRun) -> Result<(), MergeError> {
    let (a, b) = (first.folder.clone(), other.folder.clone());
    if first.manifest.plan_hash != other.manifest.plan_hash {
        Err(MergeError::OtherPlan {
            first: a,
            other: b,
            keys: differing(&first.manifest.plan, &other.manifest.plan),
        })
    } else if first.shard.count != other.shard.count {
        Err(MergeError::OtherCut {
            first: a,
            first_shard: first.shard,
            other: b,
            other_shard: other.shard,
        })
    } else if first.shard.index == other.shard.index {
        Err(MergeError::ShardTwice {
            first: a,
            second: b,
            shard: first.shard,
        })
    } else {
        Ok(())
    }
}

/// The names of the differences between two plans.
fn differing(a: &Value, b: &Value) -> Vec<String> {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return Vec::new();
    };
    let mut keys: Vec<String> = a
        .keys()
        .chain(b.keys().filter(|key| !a.contains_key(*key)))
        .filter(|key| !PLACE_KEYS.contains(&key.as_str()) && a.get(*key) != b.get(*key))
        .cloned()
        .collect();
    keys.sort();
    keys
}
