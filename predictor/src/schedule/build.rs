//! The problem of a schedule: the calls of the models, with their times by number of threads.
//!
//! A time is the median inside the whole model where a run has it. Else it is that of the operator alone with the caches as
//! in the model. Both have the default schedule, which `opcollect run-graph` runs. What was not measured is predicted.

use std::collections::BTreeMap;

use opdata::contract::{CallRef, ScheduledModel};
use opdata::{CacheState, DeviceKind, Row};
use opmodels::Graph;
use serde::Serialize;

use super::problem::{Call, Problem};
use crate::error::{Error, Result};
use crate::place::build::{Measured, Predictor, listed, predicted};
use oplearn::interference::{Neighbour, Slowdowns};

/// Time that a stage of several lanes costs beside its calls, ns, rounded up. Measured by `opcollect run-graph`: mlp
/// beside itself in four stages took 1.3 to 2.3 µs a stage more than in one (two cores of a Zen 1 EPYC, 2026-11-25).
const STAGE_NS: f64 = 3_000.0;

/// Origin of the times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Times of operators at a number of threads that were measured.
    pub measured: usize,
    /// Number of times that were predicted.
    pub predicted: usize,
    /// Maximum number of threads in the training data, if a time was predicted for more.
    pub extrapolates_from_threads: Option<u64>,
}

/// Rows of calls inside a model with the default schedule.
pub fn inside_models(rows: &[Row]) -> Vec<Row> {
    let fits = |row: &&Row| {
        row.has_default_schedule()
            && row.cache_state == Some(CacheState::Model)
            && row.device_kind == DeviceKind::CPU
    };
    let inside = |row: &Row| Row {
        time_median_ns: row.in_model_time_ns.or(row.time_median_ns),
        ..row.clone()
    };
    rows.iter().filter(fits).map(inside).collect()
}

/// The same rows with the shortest time that was measured, inside the model or alone.
pub fn undisturbed(inside: &[Row]) -> Vec<Row> {
    let least = |row: &Row| Row {
        time_median_ns: match (row.time_median_ns, row.time_min_ns) {
            (Some(median), Some(least)) => Some(median.min(least)),
            (median, _) => median,
        },
        ..row.clone()
    };
    inside.iter().map(least).collect()
}

/// Makes the problem for a number of threads.
///
/// # Errors
/// Fails if an operator has no time at 1 thread or at all threads, or the predictor fails.
pub fn problem(
    graphs: &[Graph],
    threads: u32,
    measured: &Measured,
    predictor: Option<&Predictor<'_>>,
    slowdowns: &Slowdowns,
) -> Result<(Problem, Times)> {
    let counts = counts(threads);
    let mut times = Times::default();
    let mut missing = Vec::new();
    let mut neighbours = Vec::new();
    let mut calls = Vec::new();
    for (model, graph) in graphs.iter().enumerate() {
        let mut known: BTreeMap<&str, (BTreeMap<u32, f64>, usize)> = BTreeMap::new();
        for operator in &graph.operators {
            let workload = operator.workload_hash();
            let mut own = BTreeMap::new();
            for &count in &counts {
                let found = measured.time_ns(&workload, DeviceKind::CPU, count.into());
                let time = match (found, predictor) {
                    (Some(time), _) => {
                        times.measured += 1;
                        Some(time)
                    }
                    (None, Some(predictor)) => {
                        times.predicted += 1;
                        if let Some(&most) = predictor.trained.facts.threads.last()
                            && most < count.into()
                        {
                            times.extrapolates_from_threads = Some(most);
                        }
                        Some(predicted(predictor, operator, graph, count.into())?)
                    }
                    (None, None) => None,
                };
                if let Some(time) = time {
                    own.insert(count, time);
                } else if count == 1 || count == threads {
                    missing.push(format!("{}/{} at {count}", graph.model, operator.symbol));
                }
            }
            let alone_ns = own.get(&1).copied().unwrap_or_default();
            neighbours.push(Neighbour::new(operator, 1, alone_ns));
            known.insert(&operator.symbol, (own, neighbours.len() - 1));
        }
        let first = calls.len();
        for (number, call) in graph.calls.iter().enumerate() {
            let Some((times_ns, operator)) = known.get(call.symbol.as_str()) else {
                continue;
            };
            calls.push(Call {
                at: CallRef(model, number),
                inputs: call.inputs.iter().map(|input| first + input).collect(),
                times_ns: times_ns.clone(),
                operator: *operator,
            });
        }
    }
    if !missing.is_empty() {
        return Err(Error::Query(format!(
            "no time of {} threads: measure them (opcollect --modelname MODEL --threads 1,{threads}), name the run, or predict with --model FILE.opm",
            listed(&missing)
        )));
    }
    let problem = Problem {
        calls,
        threads,
        slowdowns: beside_each_other(&neighbours, slowdowns),
        stage_ns: STAGE_NS,
    };
    Ok((problem, times))
}

/// The slowdown of each operator beside each other: the search asks for them at every stage that it tries.
fn beside_each_other(neighbours: &[Neighbour], slowdowns: &Slowdowns) -> Vec<Vec<f64>> {
    let of = |own: &Neighbour| {
        let all = neighbours.iter();
        all.map(|beside| slowdowns.of(own, beside)).collect()
    };
    neighbours.iter().map(of).collect()
}

/// Numbers of threads that a group can have: 1, its doubles, and all.
fn counts(threads: u32) -> Vec<u32> {
    let doubles = std::iter::successors(Some(1), |count| Some(count * 2));
    let mut counts: Vec<u32> = doubles.take_while(|count| *count < threads).collect();
    counts.push(threads);
    counts
}

/// The models as a schedule names them.
pub fn described(graphs: &[Graph]) -> Vec<ScheduledModel> {
    let of = |graph: &Graph| ScheduledModel {
        model: graph.model.clone(),
        batch: graph.batch,
        calls: graph.calls.iter().map(|call| call.symbol.clone()).collect(),
    };
    graphs.iter().map(of).collect()
}
