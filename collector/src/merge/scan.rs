//! Checks every row of every shard before anything is written: whole, not repeated, of like machines.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use opdata::{RowReader, RunState};

use super::shards::{ShardRun, Shards};
use super::{MergeError, MergeRequest};

/// Facts about a shard's rows.
#[derive(Debug, Default)]
pub(super) struct ScannedShard {
    pub rows: u64,
    pub env_hashes: BTreeSet<String>,
    /// The new run of its rows, if the name of the old one is taken.
    pub renamed: Option<String>,
}

/// Reads all rows; one entry a shard, in their order.
pub(super) fn scan(
    shards: &Shards,
    request: &MergeRequest,
) -> Result<Vec<ScannedShard>, MergeError> {
    // Two operators of a model may be one computation, so the function's name is part of a point.
    let mut points: HashMap<(String, Option<String>), usize> = HashMap::new();
    let mut row_ids: HashSet<String> = HashSet::new();
    let mut scanned = Vec::with_capacity(shards.runs.len());
    for (place, run) in shards.runs.iter().enumerate() {
        let mut shard = ScannedShard::default();
        let mut own_ids = Vec::new();
        for row in RowReader::open(&run.folder)? {
            let row = row?;
            let point = (row.point_id, row.op_symbol);
            if let Some(&first) = points.get(&point).filter(|first| **first != place) {
                return Err(MergeError::Overlap {
                    first: shards.runs[first].folder.clone(),
                    second: run.folder.clone(),
                    point_id: point.0,
                    operator: point.1.unwrap_or(row.op_name),
                });
            }
            points.insert(point, place);
            own_ids.push(row.row_id);
            shard.rows += 1;
            if let Some(hash) = row.env_hash
                && !shard.env_hashes.contains(&hash)
            {
                shard.env_hashes.insert(hash);
            }
        }
        whole(run, shard.rows, request.partial)?;
        // Shards that start in the same second on several machines have the same name, and so have their rows.
        if own_ids.iter().any(|id| row_ids.contains(id)) {
            let part = run.shard;
            shard.renamed = Some(format!(
                "{}-shard{}of{}",
                run.manifest.run_id, part.index, part.count
            ));
        }
        row_ids.extend(own_ids);
        scanned.push(shard);
    }
    if !request.allow_other_machine {
        alike(shards, &scanned)?;
    }
    Ok(scanned)
}

/// A shard has all rows that it says it has, and without `--partial` all that it should have.
fn whole(run: &ShardRun, found: u64, partial: bool) -> Result<(), MergeError> {
    let finished = run.manifest.state == RunState::Finished;
    let counted = run.manifest.counts.rows();
    // While a run is under way its manifest may be behind its rows, never before them.
    if found < counted || (finished && found != counted) {
        return Err(MergeError::LostRows {
            folder: run.folder.clone(),
            counted,
            found,
        });
    }
    if !finished && !partial {
        return Err(MergeError::Unfinished {
            folder: run.folder.clone(),
            shard: run.shard,
            rows: found,
            planned: run.manifest.counts.planned,
        });
    }
    Ok(())
}

fn alike(shards: &Shards, scanned: &[ScannedShard]) -> Result<(), MergeError> {
    let mut machines = BTreeMap::new();
    for (run, shard) in shards.runs.iter().zip(scanned) {
        for hash in &shard.env_hashes {
            machines
                .entry(hash.clone())
                .or_insert_with(|| run.folder.clone());
        }
    }
    if machines.len() > 1 {
        return Err(MergeError::OtherMachine {
            machines: machines.into_iter().collect(),
        });
    }
    Ok(())
}
