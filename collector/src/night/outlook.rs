//! What a night would do: its jobs with their shares of the time, and what would become of older nights. Nothing is changed.

use std::path::PathBuf;

use opdata::{RunManifest, RunState};
use serde::Serialize;

use super::history::{self, Retention};
use super::{NightError, NightPlan, share};

/// A plan and what it would find.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NightOutlook {
    /// The plan.
    pub plan: NightPlan,
    /// One entry a job, in the plan's order.
    pub jobs: Vec<JobOutlook>,
    /// What would become of older nights.
    pub retention: Retention,
}

/// A job before it begins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobOutlook {
    /// What people call it.
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
/// The nights on disk cannot be read.
pub fn outlook(plan: NightPlan) -> Result<NightOutlook, NightError> {
    let retention = history::retention(&plan, &history::nights(&plan.dataset)?);
    let mut left = plan.budget();
    let mut jobs = Vec::with_capacity(plan.jobs.len());
    for (place, job) in plan.jobs.iter().enumerate() {
        let share = share(left, &plan.jobs[place..]);
        left = left.saturating_sub(share);
        let folder = plan.job_folder(job);
        let arguments = job.arguments(&folder, share);
        jobs.push(JobOutlook {
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
    Ok(NightOutlook {
        plan,
        jobs,
        retention,
    })
}
