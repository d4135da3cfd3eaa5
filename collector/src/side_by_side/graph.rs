//! `opcollect run-graph`: models run by a schedule, measured in turn with one call after another.
//!
//! All executors run the same kernels, so outputs have the same bits as those of TVM's virtual machine, which is
//! checked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum, ValueHint};
use opdata::contract::{CallRef, Executor, Expected, GraphSchedule, Lane, ScheduledModel, Stage};
use opengine::protocol::{CompareWays, SideBySideDone, SideBySideOrder, Way};
use opreport::Misuse;

use super::{Loaded, others, unexpected};
use crate::plan::Planned;
use crate::report::Ratio;
use crate::run::Session;

/// Models to run.
#[derive(Debug, PartialEq)]
pub struct RunGraphRequest {
    /// The first model, the target and the threads.
    pub planned: Box<Planned>,
    /// Further models of the same source.
    pub others: Vec<String>,
    /// How they are run.
    pub how: GraphOptions,
}

/// How models are run: flags of `opcollect run-graph`.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Schedule")]
pub struct GraphOptions {
    /// The schedule that `oppredict schedule` wrote for the models
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub schedule: Option<PathBuf>,
    /// Without a schedule: one call after another, or each model on threads of its own
    #[arg(
        long = "executor",
        value_name = "EXECUTOR",
        default_value = "sequential",
        conflicts_with = "schedule",
        id = "graph-executor"
    )]
    pub executor: ExecutorName,
    /// Rounds; each runs every way in turn
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Write the result to this file too, as JSON
    #[arg(long = "out", value_name = "FILE.json", value_hint = ValueHint::FilePath, id = "graph-out")]
    pub out: Option<PathBuf>,
}

/// The names of executors on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecutorName {
    /// One call after another.
    Sequential,
    /// Stages whose lanes run at the same time.
    Staged,
    /// Each model on threads of its own.
    Partitioned,
}

/// The result of the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphReport {
    /// The models.
    pub models: Vec<String>,
    /// Threads.
    pub threads: u32,
    /// Each way to run, the virtual machine first.
    pub ways: Vec<WayReport>,
    /// The schedule's predicted time.
    pub expected: Option<Expected>,
    /// The reference kernel's time over its idle time, the largest around a round.
    pub slowdown: f64,
}

/// A way to run the models.
#[derive(Debug, Clone, PartialEq)]
pub struct WayReport {
    /// `vm`, or the name of an executor.
    pub executor: &'static str,
    /// Its stages; none of the virtual machine.
    pub stages: usize,
    /// Lanes at once, at most.
    pub lanes: usize,
    /// Median time of one run of all models, nanoseconds.
    pub median_ns: f64,
    /// Speed-up over the virtual machine, by round.
    pub speedup: Ratio,
    /// Whether the outputs have the virtual machine's bits.
    pub same_bits: bool,
}

/// Builds the models and measures them in each way.
///
/// # Errors
/// Fails if the schedule is of other models or does not fit, a model cannot be built, or a kernel fails.
pub fn run_graph(
    request: &RunGraphRequest,
    session: &mut Session<'_>,
) -> anyhow::Result<GraphReport> {
    let plan = &request.planned.plan;
    let cores = plan.threads.iter().copied().max().unwrap_or(1);
    let given = match &request.how.schedule {
        Some(path) => Some((path, GraphSchedule::load(path)?)),
        None => None,
    };
    if let Some((path, schedule)) = &given
        && schedule.threads > cores
    {
        return Err(Misuse(format!(
            "{}: the schedule has {} threads, and this process may use {cores}; write one for {cores}: oppredict schedule --threads {cores}",
            path.display(),
            schedule.threads
        ))
        .into());
    }
    let further = others(&request.planned, &request.others);
    let python = request.planned.python.as_deref();
    let mut loaded = Loaded::load(plan, &further, python, session)?;
    let models = described(&loaded);
    let inputs: Vec<Vec<Vec<usize>>> = loaded
        .calls
        .iter()
        .map(|calls| calls.iter().map(|call| call.inputs.clone()).collect())
        .collect();
    if let Some((path, schedule)) = &given {
        check(path, schedule, &models, &inputs)?;
    }
    let expected = given.as_ref().and_then(|(_, schedule)| schedule.expected);
    let threads = given
        .as_ref()
        .map_or(cores, |(_, schedule)| schedule.threads);
    let calls: Vec<usize> = models.iter().map(|model| model.calls.len()).collect();
    let mut ways = vec![(Executor::Sequential, sequential(&calls, threads))];
    match given {
        Some((_, schedule)) if schedule.executor != Executor::Sequential => {
            ways.push((schedule.executor, schedule.stages));
        }
        Some(_) => {}
        None => match request.how.executor {
            ExecutorName::Sequential => {}
            ExecutorName::Partitioned => {
                ways.push((Executor::Partitioned, partitioned(&calls, threads)?))
            }
            ExecutorName::Staged => {
                return Err(Misuse(
                    "--executor staged needs a schedule: oppredict schedule --out schedule.json, then --schedule schedule.json".to_owned(),
                )
                .into());
            }
        },
    }
    session.progress.working("running the models in turn");
    let of = |stages: &Vec<Stage>| Way::Stages {
        stages: stages.clone(),
    };
    let all: Vec<Way> = std::iter::once(Way::VirtualMachine)
        .chain(ways.iter().map(|(_, stages)| of(stages)))
        .collect();
    /// Time for the samples of one way in a round.
    const SPAN: Duration = Duration::from_millis(100);
    let order = SideBySideOrder::Compare(CompareWays {
        ways: all,
        threads,
        rounds: request.how.rounds,
        budget_ns: SPAN.as_nanos() as u64,
    });
    let limit = plan
        .worker
        .measure_timeout_ns
        .saturating_mul(u64::from(request.how.rounds) + 1);
    let compared = match loaded.order(order, Duration::from_nanos(limit))? {
        SideBySideDone::Compared(compared) => compared,
        other => return Err(unexpected(&other)),
    };
    let vm = compared.rounds_ns.first().context("no times")?.clone();
    let names = std::iter::once(("vm", 0, 1)).chain(ways.iter().map(|(executor, stages)| {
        let lanes = stages.iter().map(|stage| stage.lanes.len()).max();
        (executor.name(), stages.len(), lanes.unwrap_or(0))
    }));
    let reports = names.zip(&compared.rounds_ns).zip(&compared.same_bits);
    let reports = reports.map(|(((executor, stages, lanes), own), same_bits)| {
        let ratios: Vec<f64> = vm.iter().zip(own).map(|(vm, own)| vm / own).collect();
        Ok(WayReport {
            executor,
            stages,
            lanes,
            median_ns: opdata::stats::median(own.iter().copied()).context("no times")?,
            speedup: Ratio::of(&ratios).context("no times")?,
            same_bits: *same_bits,
        })
    });
    Ok(GraphReport {
        models: models.into_iter().map(|model| model.model).collect(),
        threads,
        ways: reports.collect::<anyhow::Result<_>>()?,
        expected,
        slowdown: compared.slowdown,
    })
}

/// The loaded models as a schedule names them.
fn described(loaded: &Loaded) -> Vec<ScheduledModel> {
    let models = loaded.models.iter().zip(&loaded.calls);
    models
        .map(|(imported, calls)| ScheduledModel {
            model: imported.graph.model.clone(),
            batch: imported.graph.batch,
            calls: calls.iter().map(|call| call.symbol.clone()).collect(),
        })
        .collect()
}

/// Refuses a schedule of other models, or one that does not keep the order of the calls.
fn check(
    path: &Path,
    schedule: &GraphSchedule,
    models: &[ScheduledModel],
    inputs: &[Vec<Vec<usize>>],
) -> anyhow::Result<()> {
    let next = "write one for these models: oppredict schedule";
    let names = |models: &[ScheduledModel]| {
        let of = |m: &ScheduledModel| {
            format!("{} (batch {}, {} calls)", m.model, m.batch, m.calls.len())
        };
        models.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    if schedule.models != models {
        return Err(Misuse(format!(
            "{}: the schedule is of {}, but the run is of {}{}; {next}",
            path.display(),
            names(&schedule.models),
            names(models),
            match names(&schedule.models) == names(models) {
                true => " with other operators",
                false => "",
            }
        ))
        .into());
    }
    let problem = schedule.check(inputs).err();
    match problem {
        Some(problem) => Err(Misuse(format!("{}: {problem}; {next}", path.display())).into()),
        None => Ok(()),
    }
}

/// Every call after the other on all threads, model after model.
fn sequential(calls: &[usize], threads: u32) -> Vec<Stage> {
    let all = calls.iter().enumerate();
    let calls = all.flat_map(|(model, calls)| (0..*calls).map(move |call| CallRef(model, call)));
    vec![Stage {
        lanes: vec![Lane {
            threads,
            calls: calls.collect(),
        }],
    }]
}

/// Each model on threads of its own: equal shares, the first models one more where they do not divide.
fn partitioned(calls: &[usize], threads: u32) -> anyhow::Result<Vec<Stage>> {
    let models = calls.len() as u32;
    if models < 2 || models > threads {
        return Err(Misuse(format!(
            "--executor partitioned gives each model threads of its own: name 2 to {threads} models (--with MODEL); there {} {models}",
            if models == 1 { "is" } else { "are" }
        ))
        .into());
    }
    let (share, rest) = (threads / models, threads % models);
    let lanes = calls.iter().enumerate().map(|(model, calls)| Lane {
        threads: share + u32::from((model as u32) < rest),
        calls: (0..*calls).map(|call| CallRef(model, call)).collect(),
    });
    Ok(vec![Stage {
        lanes: lanes.collect(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_share_threads_and_one_alone_is_refused() {
        let threads = |calls: &[usize], threads| {
            let stages = partitioned(calls, threads).map_err(|error| error.to_string())?;
            Ok::<_, String>(
                stages[0]
                    .lanes
                    .iter()
                    .map(|lane| lane.threads)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(threads(&[3, 1], 2), Ok(vec![1, 1]));
        assert_eq!(threads(&[3, 1], 5), Ok(vec![3, 2]));
        assert!(threads(&[3], 2).unwrap_err().contains("there is 1"));
        assert!(threads(&[1, 1, 1], 2).is_err());
    }

    #[test]
    fn a_schedule_of_another_model_is_refused() {
        let model = |name: &str, calls: &[&str]| ScheduledModel {
            model: name.to_owned(),
            batch: 1,
            calls: calls.iter().map(|call| (*call).to_owned()).collect(),
        };
        let schedule = GraphSchedule {
            format: 1,
            models: vec![model("mlp", &["dense"])],
            threads: 2,
            executor: Executor::Sequential,
            stages: sequential(&[1], 2),
            expected: None,
        };
        let path = Path::new("s.json");
        let check = |models: &[ScheduledModel]| check(path, &schedule, models, &[vec![vec![]]]);
        assert!(check(&[model("mlp", &["dense"])]).is_ok());
        let other = check(&[model("lenet", &["conv", "dense"])])
            .unwrap_err()
            .to_string();
        assert!(
            other.contains("is of mlp (batch 1, 1 calls), but the run is of lenet"),
            "{other}"
        );
        let kernels = check(&[model("mlp", &["dense_add"])])
            .unwrap_err()
            .to_string();
        assert!(kernels.contains("with other operators"), "{kernels}");
    }
}
