//! `opcollect profile`: one model on the virtual machine, call by call.
//!
//! The model is imported, built with the schedules of the main job and checked. A worker then runs it by the schedule
//! of steps ([`opengine::protocol::StepSchedule`]). [`summary`] computes the lines of the table from the record,
//! [`trace`] writes Perfetto and Chrome traces. `render/profile.rs` prints the result.

pub mod advice;
pub mod libtorch;
pub mod stacks;
pub mod summary;
pub mod trace;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};
use opdata::contract::Calibration;
use opengine::measure::counters::request::CounterRequest;
use opengine::protocol::{CallCounts, ProfileSpec, Profiled, StepSchedule, WholeModelSpec};
use opmodels::graph::Graph;

use crate::plan::Planned;
use crate::run::{Session, in_model, runner, scratch};
use summary::{GroupBy, SortBy};

/// Time for the runs that show what watching costs.
const OVERHEAD_BUDGET: Duration = Duration::from_secs(2);

/// The runs recorded of a simulator: one, because all take the same simulated time.
const ONE_RUN: StepSchedule = StepSchedule {
    skip_first: 0,
    wait: 0,
    warmup: 0,
    active: 1,
    repeat: 1,
};

/// A request for a profile, and the form of its output.
#[derive(Debug, PartialEq)]
pub struct ProfileRequest {
    /// The model, the target and the threads.
    pub planned: Box<Planned>,
    /// The runs that are recorded.
    pub schedule: StepSchedule,
    /// The content of the output.
    pub shown: Shown,
}

/// The content of the output: flags of `opcollect profile`.
#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Table")]
pub struct Shown {
    /// How calls are grouped into lines
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub group_by: GroupBy,
    /// Key to sort the lines by
    #[arg(long = "sort", value_name = "WHAT", value_enum, default_value_t)]
    pub sort_by: SortBy,
    /// Show the first N lines only
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Show bytes allocated, freed and alive, and the peak
    #[arg(long)]
    pub memory: bool,
    /// Show the modules that operators are called in as separate lines (--framework torch)
    #[arg(long)]
    pub stack: bool,
    /// Write the table to this file too, all of its lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write a flame graph: a picture if FILE ends in .svg, else folded stacks
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub flamegraph: Option<PathBuf>,
    /// Write a trace: Chrome's JSON if FILE ends in .json, else Perfetto's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
}

impl Shown {
    /// The files to write, with their flags.
    pub fn files(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--csv", self.csv.as_deref()),
            ("--trace", self.trace.as_deref()),
            ("--flamegraph", self.flamegraph.as_deref()),
        ]
    }
}

/// A model that was profiled.
#[derive(Debug, Clone)]
pub struct ProfiledModel {
    /// The model's graph.
    pub graph: Graph,
    /// The target that it was compiled for.
    pub target: serde_json::Value,
    /// The target as users write it.
    pub described: String,
    /// The processor or the device.
    pub cpu: Option<String>,
    /// How it is simulated, if its times are not measured.
    pub simulation: Option<String>,
    /// Threads.
    pub threads: u32,
    /// The runs that were recorded.
    pub schedule: StepSchedule,
    /// The reference of the output.
    pub checked_against: String,
    /// The machine's peak rates, if it is calibrated.
    pub calibration: Option<Calibration>,
    /// The record.
    pub profiled: Profiled,
}

impl ProfiledModel {
    /// The counters that counted, each with the calls' counts.
    pub fn counted(&self) -> impl Iterator<Item = (&CallCounts, &[f64])> {
        let all = self.profiled.counts.iter();
        all.filter_map(|counts| Some((counts, counts.of_calls.as_deref().ok()?)))
    }
}

/// Profiles a model.
///
/// # Errors
/// Fails if the target's kernels run beside the host, the model cannot be imported or built, has a wrong output, or the
/// worker is lost.
pub fn profile(
    request: &ProfileRequest,
    session: &mut Session<'_>,
) -> anyhow::Result<ProfiledModel> {
    let plan = &request.planned.plan;
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let model = &plan.model.model;
    let device = plan.target.device;
    let environment = session.environment();
    let target = plan.target.dictionary(&environment);
    let simulation = device.simulation(&target);
    session.progress.working(&format!("importing {model}"));
    let imported =
        session
            .importer
            .import(&plan.model, request.planned.python.as_deref(), &mut |_| {})?;
    let jobs = environment.state.cores_usable as usize;
    let scratch = scratch()?;
    let mut runner = runner(plan, &imported, &target, jobs, session, scratch.path())?;
    session
        .progress
        .working("building the model and checking its output");
    let spec = WholeModelSpec {
        graph: imported.graph.clone(),
        jobs,
        schedules: Default::default(),
        export: None,
        watch_tasks: simulation.is_none(),
    };
    let ready = in_model::build(&mut runner, spec).with_context(|| model.clone())?;
    session.progress.working("profiling");
    let schedule = match simulation {
        Some(_) => ONE_RUN,
        None => request.schedule,
    };
    let spec = ProfileSpec {
        threads: threads as usize,
        schedule,
        overhead_budget_ns: OVERHEAD_BUDGET.as_nanos() as u64,
        counters: CounterRequest::parse(&plan.counters)?,
    };
    let profiled = runner
        .first
        .profile_whole_model(spec, timeout(&schedule, plan.worker.measure_timeout_ns))
        .map_err(|failure| anyhow!("{model}: {}", failure.reason))?;
    runner.rest();
    let calibration = match simulation {
        // This machine's peaks are not the device's.
        Some(_) => None,
        None => {
            let calibration = session.calibrations.load(&environment.env_hash);
            calibration.unwrap_or_else(|error| {
                session.progress.note(&error.to_string());
                None
            })
        }
    };
    Ok(ProfiledModel {
        graph: imported.graph,
        described: device.describe_target(&target),
        target,
        cpu: match simulation {
            Some(_) => Some(device.hardware(&environment)),
            None => environment.machine.cpu.name.clone(),
        },
        simulation,
        threads,
        schedule,
        checked_against: ready.checked_against,
        calibration,
        profiled,
    })
}

/// `per_run_ns` for each run of the schedule, and for as many more that measure the overhead.
fn timeout(schedule: &StepSchedule, per_run_ns: u64) -> Duration {
    let cycle = u64::from(schedule.wait) + u64::from(schedule.warmup) + u64::from(schedule.active);
    let runs = u64::from(schedule.skip_first) + cycle * u64::from(schedule.repeat);
    Duration::from_nanos(per_run_ns.saturating_mul(runs.saturating_add(1)))
}

/// The file of a cycle: `path` itself if there is one cycle, else with the cycle's number before the extension.
///
/// # Errors
/// Fails if the path has no file name.
pub fn file_of_cycle(
    path: &std::path::Path,
    cycle: usize,
    cycles: usize,
) -> anyhow::Result<PathBuf> {
    if cycles == 1 {
        return Ok(path.to_owned());
    }
    let stem = path.file_stem().context("the path names no file")?;
    let mut name = stem.to_os_string();
    name.push(format!(".{}", cycle + 1));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_cycle_has_a_file_of_its_own() {
        let name = |cycle, cycles| file_of_cycle(Path::new("d/t.json"), cycle, cycles).unwrap();
        assert_eq!(name(0, 1), Path::new("d/t.json"));
        assert_eq!(name(1, 2), Path::new("d/t.2.json"));
        assert!(file_of_cycle(Path::new("/"), 0, 2).is_err());
    }
}
