//! `nightly --dry-run`: the jobs with their shares of the time, and which older partitions would be removed. Nothing is changed.

use std::path::PathBuf;

use opdata::{RunManifest, RunState};
use serde::Serialize;

use super::history::{self, Retention};
use super::{NightlyError, NightlyPlan, share};

/// A plan and the effects of running it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NightlyEstimate {
    /// The plan.
    pub plan: NightlyPlan,
    /// One entry a job, in the plan's order.
    pub jobs: Vec<JobEstimate>,
    /// The older nightly runs that would stay or be removed.
    pub retention: Retention,
}

/// A job before it begins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobEstimate {
    /// Its name for people.
    pub label: String,
    /// Its share of the time in ns, if the others take theirs.
    pub share_ns: u64,
    /// Arguments of the main job.
    pub arguments: Vec<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it was finished earlier tonight.
    pub finished: bool,
}

/// Looks ahead, as if every job took its share.
///
/// # Errors
/// Fails if earlier nightly runs cannot be read.
pub fn estimate(plan: NightlyPlan) -> Result<NightlyEstimate, NightlyError> {
    let retention = history::retention(&plan, &history::partitions(&plan.dataset)?);
    let mut left = plan.budget();
    let mut jobs = Vec::with_capacity(plan.jobs.len());
    for (place, job) in plan.jobs.iter().enumerate() {
        let share = share(left, &plan.jobs[place..]);
        left = left.saturating_sub(share);
        let folder = plan.job_folder(job);
        let arguments = job.arguments(&folder, share);
        jobs.push(JobEstimate {
            label: job.label(),
            share_ns: share.as_nanos() as u64,
            arguments: arguments
                .iter()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            finished: RunManifest::load(&folder).is_ok_and(|m| m.state == RunState::Finished),
            folder,
        });
    }
    Ok(NightlyEstimate {
        plan,
        jobs,
        retention,
    })
}
