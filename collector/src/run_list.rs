//! `opcollect list runs`: what each run of a folder is, from its `run.json` alone, as plain data.

use std::path::{Path, PathBuf};

use opdata::contract::plan::TargetRecord;
use opdata::{RunLabel, RunManifest, RunState, Status, Timestamp, all_runs};
use serde::Serialize;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    /// Its folder.
    pub path: PathBuf,
    /// The user's label.
    #[serde(flatten)]
    pub label: RunLabel,
    /// The model, as requested.
    pub model: Option<String>,
    /// The target, as `--target` takes it.
    pub target: Option<String>,
    /// When it began.
    pub created: Option<Timestamp>,
    /// Points of its plan.
    pub planned: u64,
    /// Points with a row.
    pub rows: u64,
    /// The outcome.
    pub verdict: RunVerdict,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunVerdict {
    /// Every point has a row.
    Finished {
        /// Points that failed.
        failed: u64,
    },
    /// It was stopped, and can be taken up again.
    Interrupted,
    /// The run is under way, or was killed.
    Running,
    /// Its manifest cannot be read.
    Damaged {
        /// The reason.
        reason: String,
    },
}

/// The runs below a folder, the newest first; with a tag, those that have it.
///
/// # Errors
/// Fails if there is no run, or if a folder cannot be read.
pub fn list(folder: &Path, tag: Option<&str>) -> opdata::Result<Vec<ListedRun>> {
    let runs = all_runs(folder)?.into_iter();
    let listed = runs.map(|(path, manifest)| match manifest {
        Ok(manifest) => listed(path, &manifest),
        Err(error) => damaged(path, error.to_string()),
    });
    let chosen = listed.filter(|run| tag.is_none_or(|tag| run.label.tags.iter().any(|t| t == tag)));
    Ok(chosen.collect())
}

fn listed(path: PathBuf, manifest: &RunManifest) -> ListedRun {
    let counts = &manifest.counts;
    let fine = [
        Status::Measured,
        Status::Simulated,
        Status::Compiled,
        Status::Skipped,
    ];
    let fine: u64 = fine.into_iter().map(|status| counts.of(status)).sum();
    let target = serde_json::from_value::<TargetRecord>(manifest.plan["target"].clone());
    let model = manifest.plan["model"]["model"].as_str();
    ListedRun {
        path,
        label: manifest.label.clone(),
        model: model.map(str::to_owned),
        target: target.ok().map(|target| target.to_string()),
        created: Some(manifest.created),
        planned: counts.planned,
        rows: counts.rows(),
        verdict: match manifest.state {
            RunState::Finished => RunVerdict::Finished {
                failed: counts.rows() - fine,
            },
            RunState::Interrupted => RunVerdict::Interrupted,
            RunState::Running => RunVerdict::Running,
        },
    }
}

fn damaged(path: PathBuf, reason: String) -> ListedRun {
    ListedRun {
        path,
        label: RunLabel::default(),
        model: None,
        target: None,
        created: None,
        planned: 0,
        rows: 0,
        verdict: RunVerdict::Damaged { reason },
    }
}
