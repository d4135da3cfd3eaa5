//! Nightly runs: models × targets × sweeps within a time budget, written as a dated partition of the dataset and compared with
//! the previous one.
//!
//! [`config`] reads `nightly.toml` into a [`NightlyPlan`]; [`jobs`] runs each job as a process of its own, so that a
//! failing one costs only itself; [`history`] finds earlier nightly runs, baselines among them, and those to remove;
//! [`digest`] summarises the new rows; [`report`] is the result, as plain data. The folder is `date=2026-11-20`, with a
//! run's folder for each job below it, as Hive lays them out. DuckDB, pandas and Spark read such partitions as columns.
//! Names of partitions differ from those of the rows' columns.

pub mod config;
pub mod digest;
mod estimate;
pub mod history;
pub mod jobs;
mod lock;
mod plan;
pub mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use opdata::{RunManifest, RunState, Timestamp};
use opengine::interrupt::Interrupt;
use opreport::progress::Progress;
use opreport::units;
use thiserror::Error;

use crate::compare::{CompareError, Comparison, Options, compare};

use digest::{Digest, Tally};
pub use estimate::{JobEstimate, NightlyEstimate, estimate};
use history::{JobRun, Partition};
use jobs::{JobCommand, JobEnd, JobRunner};
use lock::NightlyLock;
pub use plan::{Job, NightlyPlan, again_name};
use report::{JobOutcome, JobReport, NightlyReport, NightlyState, NotCompared, SummaryFile, save};

/// A job is asked to stop this long after its share of the time is spent, if it has not stopped by itself.
const GRACE: Duration = Duration::from_secs(30);
/// A job that has less time than this is not begun.
const LEAST_SHARE: Duration = Duration::from_secs(5);
/// Maximum number of measurements of a job under interference.
const MEASUREMENTS: u32 = 3;

/// Why a nightly run could not take place.
#[derive(Debug, Error)]
pub enum NightlyError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    /// Another nightly run is under way.
    #[error("another night is under way in {} ({holder}); wait for its end, or stop it and the job it runs", dataset.display())]
    Locked {
        /// The dataset.
        dataset: PathBuf,
        /// The holder of the lock.
        holder: String,
    },
    /// A file or folder of the dataset.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// Earlier nightly runs cannot be read.
    #[error(transparent)]
    History(#[from] CompareError),
}

/// The error of an operation on a path of the dataset.
fn io_error(action: &'static str, path: &std::path::Path, source: std::io::Error) -> NightlyError {
    let path = path.to_owned();
    NightlyError::Data(opdata::Error::Io {
        action,
        path,
        source,
    })
}

/// A nightly run to start, resume or show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NightlyRequest {
    /// Its configuration.
    pub config: PathBuf,
    /// Its date.
    pub date: String,
    /// Whether to show what it would do, and stop.
    pub dry_run: bool,
}

/// The resources of a nightly run besides its plan.
pub struct Session<'a> {
    /// Runs the jobs.
    pub runner: &'a mut dyn JobRunner,
    /// Whether the user wants to stop.
    pub interrupt: Interrupt,
    /// Where progress is shown.
    pub progress: &'a mut dyn Progress,
    /// Makes the files of the summary.
    pub summary: fn(&NightlyReport) -> Vec<SummaryFile>,
}

/// Runs all jobs of the plan, compares with the previous nightly run, writes the summary and removes old partitions.
///
/// # Errors
/// Fails if another nightly run is under way, or the dataset cannot be read or written. Jobs that fail are no errors.
pub fn run(plan: &NightlyPlan, session: &mut Session<'_>) -> Result<NightlyReport, NightlyError> {
    let started = Timestamp::now();
    let clock = Instant::now();
    let folder = plan.night_folder();
    let lock = NightlyLock::take(&plan.dataset)?;
    std::fs::create_dir_all(folder.join(jobs::LOGS))
        .map_err(|source| io_error("create", &folder, source))?;

    let mut reports = all_of(&plan.jobs, plan, (clock, &lock), session);
    resume_unfinished(plan, (clock, &lock), &mut reports, session);
    session.progress.end();
    let mut tally = Tally::default();
    add_rows(&mut reports, &mut tally);
    if plan.repeat_disturbed {
        repeat_disturbed(plan, (clock, &lock), &mut reports, &mut tally, session);
    }
    let partitions = history::partitions(&plan.dataset)?;
    let (comparison, not_compared) = compare_with_baselines(plan, &mut reports, &partitions);
    let state = if session.interrupt.requested() {
        NightlyState::Interrupted
    } else {
        NightlyState::Complete
    };
    // An interrupted nightly run must not replace an older, complete one.
    let retention = match state {
        NightlyState::Complete => history::apply(&history::retention(plan, &partitions))?,
        NightlyState::Interrupted => history::Retention::default(),
    };
    let report = NightlyReport {
        date: plan.date.clone(),
        config: plan.config.clone(),
        folder: folder.clone(),
        started,
        ended: Timestamp::now(),
        budget_ns: plan.budget_ns,
        wall_ns: clock.elapsed().as_nanos() as u64,
        max_failed_share: plan.max_failed_share,
        state,
        jobs: reports,
        findings: tally.findings(),
        comparison,
        not_compared,
        retention,
    };
    save(&folder, &(session.summary)(&report))?;
    Ok(report)
}

/// Runs jobs one after the other, in the time that is left of a night's budget, counted from its start. The part of the
/// progress that shows them stays open.
fn all_of(
    jobs: &[Job],
    plan: &NightlyPlan,
    night: (Instant, &NightlyLock),
    session: &mut Session<'_>,
) -> Vec<JobReport> {
    session.progress.begin("night", jobs.len() as u64);
    let mut reports = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.iter().enumerate() {
        let label = job.label();
        let report = first_of(&jobs[place..], &label, plan, night, session);
        session.progress.point(&label, &report.words());
        reports.push(report);
    }
    reports
}

/// Measures jobs under interference again in the time left of the budget. Jobs disturbed again are measured once more.
/// Interference may outlast a job's own re-measure budget, but seldom a night.
fn repeat_disturbed(
    plan: &NightlyPlan,
    night: (Instant, &NightlyLock),
    reports: &mut Vec<JobReport>,
    tally: &mut Tally,
    session: &mut Session<'_>,
) {
    let mut jobs = again(&plan.jobs, reports);
    while jobs.first().is_some_and(|job| job.again < MEASUREMENTS) {
        let mut round = all_of(&jobs, plan, night, session);
        session.progress.end();
        add_rows(&mut round, tally);
        jobs = again(&jobs, &round);
        round.retain(|report| !matches!(report.outcome, JobOutcome::NotBegun { .. }));
        reports.extend(round);
    }
}

/// The next measurements of those jobs that something else disturbed.
fn again(jobs: &[Job], reports: &[JobReport]) -> Vec<Job> {
    let both = jobs.iter().zip(reports);
    let disturbed = both.filter(|(_, report)| report.digest.was_disturbed());
    let again = disturbed.map(|(job, _)| Job {
        again: job.again + 1,
        ..job.clone()
    });
    again.collect()
}

/// Gives the rest of the budget to the jobs that needed more than their shares, in their order. Each gets it once, so
/// one job cannot extend the nightly run without end.
fn resume_unfinished(
    plan: &NightlyPlan,
    night: (Instant, &NightlyLock),
    reports: &mut [JobReport],
    session: &mut Session<'_>,
) {
    let (places, jobs): (Vec<usize>, Vec<Job>) = plan
        .jobs
        .iter()
        .cloned()
        .enumerate()
        .filter(|(place, _)| reports[*place].outcome == JobOutcome::OutOfTime)
        .unzip();
    for (number, place) in places.into_iter().enumerate() {
        let label = jobs[number].label();
        let again = first_of(
            &jobs[number..],
            &format!("{label} again"),
            plan,
            night,
            session,
        );
        if matches!(again.outcome, JobOutcome::NotBegun { .. }) {
            return;
        }
        let first = &reports[place];
        reports[place] = JobReport {
            share_ns: first.share_ns + again.share_ns,
            wall_ns: first.wall_ns + again.wall_ns,
            ..again
        };
        let words = reports[place].words();
        session.progress.note(&format!("{label}  {words}"));
    }
}

/// Runs the first of these jobs, shown as `label`, for its share of the time left of the night's budget.
fn first_of(
    jobs: &[Job],
    label: &str,
    plan: &NightlyPlan,
    (began, lock): (Instant, &NightlyLock),
    session: &mut Session<'_>,
) -> JobReport {
    let left = plan.budget().saturating_sub(began.elapsed());
    let share = share(left, jobs);
    let wall = units::wall(share.as_nanos() as u64);
    session.progress.working(&format!("{label}, up to {wall}"));
    one_job(plan, &jobs[0], share, lock, session)
}

/// The part of the time left that the first of these jobs gets. It is in proportion to its weight among all that
/// remain, so time that one leaves goes to the others.
fn share(left: Duration, jobs: &[Job]) -> Duration {
    let all: f64 = jobs.iter().map(|job| job.weight).sum();
    match jobs.first() {
        Some(job) if all > 0.0 => left.mul_f64((job.weight / all).clamp(0.0, 1.0)),
        _ => Duration::ZERO,
    }
}

fn one_job(
    plan: &NightlyPlan,
    job: &Job,
    share: Duration,
    lock: &NightlyLock,
    session: &mut Session<'_>,
) -> JobReport {
    let mut report = JobReport::new(job, plan.job_folder(job), share);
    let state = || RunManifest::load(&report.folder).ok().map(|m| m.state);
    let before = state();
    if before == Some(RunState::Finished) {
        report.outcome = JobOutcome::Earlier;
        return report;
    }
    if session.interrupt.requested() {
        report.outcome = JobOutcome::NotBegun {
            reason: "interrupted".to_owned(),
        };
        return report;
    }
    if share < LEAST_SHARE {
        report.outcome = JobOutcome::NotBegun {
            reason: "no time was left".to_owned(),
        };
        return report;
    }
    let command = JobCommand {
        // A nightly run can be killed and started again: an unfinished run is resumed.
        args: match before {
            Some(_) => job.resume_arguments(&report.folder, share),
            None => job.arguments(&report.folder, share),
        },
        log: plan.job_log(job),
        stop_after: share + GRACE,
        lock: lock.handle(),
    };
    let began = Instant::now();
    let end = session.runner.run(&command, &session.interrupt);
    // A job that stops by itself when its time is over exits without an error, but is not finished.
    let stopped = state() == Some(RunState::Interrupted);
    report.wall_ns = began.elapsed().as_nanos() as u64;
    report.log = Some(command.log.clone());
    report.outcome = match end {
        Ok(JobEnd::Exited(0 | 4)) if stopped => JobOutcome::OutOfTime,
        Ok(end) => JobOutcome::of(end, session.interrupt.requested(), &command.log),
        Err(error) => JobOutcome::Failed {
            exit_code: None,
            reason: format!("it could not be started: {error}"),
        },
    };
    report
}

/// Reads the rows that jobs have left, however they ended.
fn add_rows(reports: &mut [JobReport], tally: &mut Tally) {
    for report in reports.iter_mut().filter(|report| report.folder.exists()) {
        match Digest::read(&report.folder, tally) {
            Ok(digest) => report.digest = digest,
            Err(error) => {
                report.outcome = JobOutcome::Failed {
                    exit_code: None,
                    reason: format!("its results cannot be read: {error}"),
                };
            }
        }
    }
}

/// Compares each job's run with the last usable run of the same job on the same machine. Also says which could not be
/// compared, and why.
fn compare_with_baselines(
    plan: &NightlyPlan,
    reports: &mut [JobReport],
    partitions: &[Partition],
) -> (Option<Comparison>, Vec<NotCompared>) {
    let current = partitions.iter().find(|p| p.date == plan.date);
    let (mut before, mut now) = (Vec::new(), Vec::new());
    let (mut compared, mut alone) = (Vec::new(), Vec::new());
    for report in reports {
        // The first measurement of a job is the one that every night has.
        if report.again > 0 {
            continue;
        }
        let own = |run: &&JobRun| run.key == report.key && run.is_usable();
        let Some(run) = current.and_then(|partition| partition.runs.iter().find(own)) else {
            continue;
        };
        match history::baseline(partitions, &plan.date, run) {
            Some(base) => {
                report.baseline = Some(base.folder.clone());
                before.push(base.folder.clone());
                now.push(run.folder.clone());
                compared.push(report.label.clone());
            }
            None => alone.push(report.label.clone()),
        }
    }
    let mut notes = Vec::new();
    let mut note = |jobs: Vec<String>, reason: String| {
        if !jobs.is_empty() {
            notes.push(NotCompared { reason, jobs });
        }
    };
    note(alone, "no earlier night on this machine".to_owned());
    if now.is_empty() {
        return (None, notes);
    }
    let options = Options {
        threshold: plan.threshold,
        allow_other_machine: false,
    };
    match compare(&before, &now, options) {
        Ok(comparison) => (Some(comparison), notes),
        Err(error) => {
            note(compared, error.to_string());
            (None, notes)
        }
    }
}

impl JobOutcome {
    /// The outcome of a job by the end of its process.
    fn of(end: JobEnd, interrupted: bool, log: &std::path::Path) -> JobOutcome {
        match end {
            JobEnd::Exited(0) => JobOutcome::Done,
            JobEnd::Exited(4) => JobOutcome::PointsFailed,
            JobEnd::OutOfTime => JobOutcome::OutOfTime,
            _ if interrupted => JobOutcome::Interrupted,
            JobEnd::Exited(130) => JobOutcome::Interrupted,
            JobEnd::Exited(code) => JobOutcome::Failed {
                exit_code: Some(code),
                reason: jobs::last_words(log),
            },
            JobEnd::Killed(signal) => JobOutcome::Failed {
                exit_code: None,
                reason: format!("it was killed by signal {signal}"),
            },
        }
    }
}
