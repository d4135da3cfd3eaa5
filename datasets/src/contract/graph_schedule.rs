//! A schedule of whole models: which calls of operators run at the same time, on how many threads each.
//!
//! `oppredict schedule` writes it as JSON, `opcollect run-graph` runs it. A schedule is a list of stages that run one after
//! another. A stage has lanes that run at the same time; a lane runs its calls in order on its own threads.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{first_format, load_record};
use crate::error::Result;

/// The format that this build reads and writes.
pub const GRAPH_SCHEDULE_FORMAT: u32 = 1;
/// Name of the record in messages.
const WHAT: &str = "schedule of a model";
/// How to replace a damaged file.
const FIX: &str = "write it again: oppredict schedule --out FILE";

/// How the calls of models are run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphSchedule {
    /// Format of the file.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The models, in the order that [`CallRef`] counts them.
    pub models: Vec<ScheduledModel>,
    /// Threads of the whole schedule.
    pub threads: u32,
    /// The kind of schedule.
    pub executor: Executor,
    /// The stages in order.
    pub stages: Vec<Stage>,
    /// Predicted times, if it was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// A model of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledModel {
    /// Its name.
    pub model: String,
    /// Samples at once.
    pub batch: u64,
    /// The function of each of its calls, in the order of the model.
    pub calls: Vec<String>,
}

/// How calls are spread over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// One call after another.
    Sequential,
    /// Stages whose lanes run at the same time.
    Staged,
    /// Each model on threads of its own.
    Partitioned,
}

impl Executor {
    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Executor::Sequential => "sequential",
            Executor::Staged => "staged",
            Executor::Partitioned => "partitioned",
        }
    }
}

/// Lanes that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The lanes; the first has the first processors.
    pub lanes: Vec<Lane>,
}

/// Calls that run one after another on threads of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Threads of each call.
    pub threads: u32,
    /// The calls in order.
    pub calls: Vec<CallRef>,
}

/// A call of a model: number of the model, number of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallRef(pub usize, pub usize);

/// Predicted times of one run of all models, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// One call after another on all threads.
    pub sequential_ns: f64,
    /// Latency with this schedule.
    pub scheduled_ns: f64,
}

impl GraphSchedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if it is not a schedule of this format.
    pub fn load(path: &Path) -> Result<GraphSchedule> {
        load_record(path, WHAT, GRAPH_SCHEDULE_FORMAT, FIX)
    }

    /// Writes the schedule, replacing the file as a whole.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        crate::write_atomically(path, &json)
    }

    /// Whether every call runs once, after all calls whose results it reads; `inputs` are the numbers of those calls, by model
    /// and call.
    ///
    /// # Errors
    /// Fails at the first fault, described in one line.
    pub fn check(&self, inputs: &[Vec<Vec<usize>>]) -> std::result::Result<(), String> {
        check_stages(&self.stages, self.threads, inputs)
    }
}

/// Checks stages on a number of threads as [`GraphSchedule::check`] does.
///
/// # Errors
/// Fails at the first fault, described in one line.
pub fn check_stages(
    stages: &[Stage],
    threads: u32,
    inputs: &[Vec<Vec<usize>>],
) -> std::result::Result<(), String> {
    let mut done: Vec<Vec<bool>> = inputs
        .iter()
        .map(|calls| vec![false; calls.len()])
        .collect();
    for (number, stage) in stages.iter().enumerate() {
        let at = format!("stage {number}");
        let used: u32 = stage.lanes.iter().map(|lane| lane.threads).sum();
        if used > threads || stage.lanes.iter().any(|lane| lane.threads == 0) {
            let lanes: Vec<String> = stage.lanes.iter().map(|l| l.threads.to_string()).collect();
            return Err(format!(
                "{at} has lanes of {} threads, and the schedule has {threads}",
                lanes.join("+")
            ));
        }
        let before = done.clone();
        for lane in &stage.lanes {
            let mut within = before.clone();
            for &CallRef(model, call) in &lane.calls {
                let known = inputs.get(model).and_then(|calls| calls.get(call));
                let Some(reads) = known else {
                    return Err(format!(
                        "{at} names call {call} of model {model}, which does not exist"
                    ));
                };
                if let Some(missing) = reads.iter().find(|&&read| !within[model][read]) {
                    return Err(format!(
                        "{at} runs call {call} of model {model} before the result of call {missing} is there"
                    ));
                }
                if done[model][call] {
                    return Err(format!(
                        "{at} runs call {call} of model {model} a second time"
                    ));
                }
                done[model][call] = true;
                within[model][call] = true;
            }
        }
    }
    for (model, calls) in done.iter().enumerate() {
        if let Some(call) = calls.iter().position(|done| !done) {
            return Err(format!("no stage runs call {call} of model {model}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(threads: u32, calls: &[usize]) -> Lane {
        Lane {
            threads,
            calls: calls.iter().map(|&call| CallRef(0, call)).collect(),
        }
    }

    #[test]
    fn a_schedule_runs_every_call_once_after_its_inputs() {
        // A diamond: 1 and 2 read 0, 3 reads both.
        let inputs = [vec![vec![], vec![0], vec![0], vec![1, 2]]];
        let stages = |middle: Vec<Lane>, last: &[usize]| {
            let of = |lanes| Stage { lanes };
            [of(vec![lane(2, &[0])]), of(middle), of(vec![lane(2, last)])]
        };
        let check = |stages: &[Stage]| check_stages(stages, 2, &inputs);
        let parallel = || vec![lane(1, &[1]), lane(1, &[2])];
        assert_eq!(check(&stages(parallel(), &[3])), Ok(()));
        assert_eq!(check(&stages(vec![lane(1, &[1, 2])], &[3])), Ok(()));
        let problems = [
            (
                stages(vec![lane(1, &[1]), lane(1, &[2, 3])], &[]),
                "before the result of call 1",
            ),
            (stages(parallel(), &[]), "no stage runs call 3"),
            (stages(parallel(), &[3, 3]), "a second time"),
            (
                stages(parallel(), &[3, 9]),
                "call 9 of model 0, which does not exist",
            ),
            (
                stages(vec![lane(2, &[1]), lane(1, &[2])], &[3]),
                "lanes of 2+1 threads",
            ),
        ];
        for (stages, problem) in problems {
            let error = check(&stages).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
