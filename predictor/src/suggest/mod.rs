//! Chooses the next measurements: the points that should reduce the error of predictions most for the time they take.
//!
//! | module | for |
//! | --- | --- |
//! | [`candidates`] | what there is to choose from |
//! | [`uncertainty`] | the uncertainty of candidates given the measured points, and its reduction by measuring one |
//! | [`cost`] | the cost of measuring, learned from the existing rows |
//! | [`mod@choose`] | the choice within a budget |
//! | [`plan`] | the plan that the collector takes |

pub mod candidates;
pub mod choose;
pub mod cost;
pub mod error;
pub mod plan;
pub mod similarity;
pub mod uncertainty;

use std::collections::{BTreeMap, HashMap, HashSet};

use candidates::{Candidates, Job, Objective};
use choose::{Limits, Pool, choose};
use cost::CostModel;
use opdata::Row;
use serde::Serialize;

pub use error::SuggestError;
use oplearn::data::{Dataset, RowSet};
use oplearn::features::machine::MachineFacts;
use oplearn::features::{Point, point_of};
use oplearn::models::Regressor;
use oplearn::models::ensemble::Ensemble;

/// Number of cores of a machine that does not record it.
const CORES: u32 = 1;

/// A suggestion.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// Positions of the chosen candidates, most useful first.
    #[serde(skip)]
    pub order: Vec<usize>,
    /// Number of points chosen.
    pub chosen: usize,
    /// Number of candidates, without those left out.
    pub candidates: usize,
    /// Time to spend, ns.
    pub budget_ns: f64,
    /// Estimated time to measure them, ns.
    pub cost_ns: f64,
    /// Root mean square error (log2) to expect over the candidates afterwards, relative to that now.
    pub error_ratio: f64,
    /// The same after spending as much time on random candidates.
    pub random_error_ratio: f64,
    /// The chosen points by kind of operator.
    pub kinds: BTreeMap<String, KindShare>,
    /// Candidates that were left out, by the reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// The chosen points of one kind of operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct KindShare {
    /// Candidates.
    pub candidates: usize,
    /// Chosen ones.
    pub chosen: usize,
    /// Measured points that there are.
    pub measured: usize,
}

/// Inputs of a suggestion.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The rows there are.
    pub rows: &'a RowSet,
    /// Their samples.
    pub dataset: &'a Dataset,
    /// An ensemble trained on them.
    pub ensemble: &'a Ensemble,
    /// The machine to measure on.
    pub machine: &'a MachineFacts,
    /// The candidates.
    pub candidates: &'a Candidates,
    /// Limits of the choice.
    pub limits: Limits,
    /// Seed of the choice.
    pub seed: u64,
}

/// Chooses candidates.
///
/// # Errors
/// Fails if no candidate is left, the budget is too small for any, or XGBoost's library fails.
pub fn suggest(request: &Request<'_>) -> Result<Suggestion, SuggestError> {
    let Request {
        dataset,
        candidates,
        limits,
        ..
    } = *request;
    let mut left_out = BTreeMap::new();
    let open = open(request.rows, candidates, &mut left_out);
    if open.is_empty() {
        return Err(SuggestError::NothingLeft {
            candidates: candidates.points.len(),
            left_out: left_out
                .iter()
                .map(|(why, n)| format!("{n} {why}"))
                .collect(),
        });
    }
    let points: Vec<Point> = open
        .iter()
        .map(|&place| point_of(&candidates.points[place].row, request.machine))
        .collect();
    let pool = pool(request, &open, points.iter().collect())?;
    let too_small = |cheapest| SuggestError::BudgetTooSmall {
        budget: duration(limits.budget_ns),
        cheapest: duration(cheapest),
    };
    let cheapest = pool
        .costs
        .iter()
        .map(|c| c.build_ns + c.measure_ns)
        .fold(f64::INFINITY, f64::min);
    if cheapest > limits.budget_ns {
        return Err(too_small(cheapest));
    }
    let measured: Vec<&Point> = dataset.samples.iter().map(|s| &s.point).collect();
    let choice = choose(request.ensemble, &measured, &pool, limits, request.seed)?;
    if choice.order.is_empty() {
        return Err(too_small(cheapest));
    }
    let order: Vec<usize> = choice.order.iter().map(|&place| open[place]).collect();
    Ok(Suggestion {
        chosen: order.len(),
        kinds: shares(dataset, candidates, &open, &order),
        order,
        candidates: open.len(),
        budget_ns: limits.budget_ns,
        cost_ns: choice.cost_ns,
        error_ratio: choice.error_ratio,
        random_error_ratio: choice.random_error_ratio,
        left_out,
    })
}

/// The candidates not measured yet, with their costs and weights in the objective.
fn pool<'p>(
    request: &Request<'_>,
    open: &[usize],
    points: Vec<&'p Point>,
) -> Result<Pool<'p>, SuggestError> {
    let candidates = request.candidates;
    let predicted = request.ensemble.predict(&points)?;
    let times_ns: Vec<f64> = predicted.iter().map(|t| t.exp2()).collect();
    let cores = request.machine.cores.unwrap_or(CORES);
    let costs = CostModel::learn(&request.rows.rows, cores);
    let mut kernels: HashMap<(&str, &str), usize> = HashMap::new();
    let candidate = |place: &usize| &candidates.points[*place];
    Ok(Pool {
        costs: open
            .iter()
            .zip(&times_ns)
            .map(|(place, time_ns)| {
                let candidate = candidate(place);
                let job: &Job = &candidates.jobs[candidate.job];
                costs.of(&candidate.row.op_kind, *time_ns, job.timing)
            })
            .collect(),
        kernels: open
            .iter()
            .map(|place| {
                let next = kernels.len();
                *kernels.entry(kernel(&candidate(place).row)).or_insert(next)
            })
            .collect(),
        weights: weights(candidates, open, &times_ns),
        points,
    })
}

/// The chosen points by kind of operator.
fn shares(
    dataset: &Dataset,
    candidates: &Candidates,
    open: &[usize],
    order: &[usize],
) -> BTreeMap<String, KindShare> {
    let kind = |place: &usize| candidates.points[*place].row.op_kind.clone();
    let mut kinds: BTreeMap<String, KindShare> = BTreeMap::new();
    for place in open {
        kinds.entry(kind(place)).or_default().candidates += 1;
    }
    for place in order {
        kinds.entry(kind(place)).or_default().chosen += 1;
    }
    for sample in &dataset.samples {
        if let Some(share) = kinds.get_mut(&sample.kind) {
            share.measured += 1;
        }
    }
    kinds
}

/// A time in words, to three digits or so.
pub fn duration(ns: f64) -> String {
    let rounded = if ns < 1e9 {
        std::time::Duration::from_millis((ns / 1e6).ceil() as u64)
    } else {
        std::time::Duration::from_secs((ns / 1e9).round() as u64)
    };
    humantime::format_duration(rounded).to_string()
}

/// Workload and schedule of a row, as far as they are known before a kernel is built.
fn kernel(row: &Row) -> (&str, &str) {
    let schedule = match row.schedule_space.as_deref() {
        Some("default") | None => "default",
        Some(_) => row
            .schedule_knobs
            .as_ref()
            .map_or("", opdata::JsonText::as_str),
    };
    (row.workload_hash.as_deref().unwrap_or_default(), schedule)
}

/// Distinguishes a point from others of the same machine.
type Key<'a> = ((&'a str, &'a str), Option<u64>, Option<opdata::CacheState>);

fn key(row: &Row) -> Key<'_> {
    (kernel(row), row.threads, row.cache_state)
}

/// Candidates that can be chosen; the others are counted by the reason.
fn open(
    rows: &RowSet,
    candidates: &Candidates,
    left_out: &mut BTreeMap<&'static str, usize>,
) -> Vec<usize> {
    let (mut measured, mut failed) = (HashSet::new(), HashSet::new());
    for row in &rows.rows {
        match row.status {
            status if status.has_time() => measured.insert(key(row)),
            _ => failed.insert(key(row)),
        };
    }
    let mut seen = HashSet::new();
    let mut open = Vec::new();
    for (place, candidate) in candidates.points.iter().enumerate() {
        let row = &candidate.row;
        let key = key(row);
        let reason = if row.workload_hash.is_none() || kernel(row).1.is_empty() {
            Some(
                "whose schedule is not known before they are built (only default schedules and the space template are)",
            )
        } else if measured.contains(&key) {
            Some("measured already")
        } else if failed.contains(&key) {
            Some("tried before, without a time")
        } else if seen.insert(key) {
            None
        } else {
            Some("listed twice")
        };
        match reason {
            Some(reason) => *left_out.entry(reason).or_default() += 1,
            None => open.push(place),
        }
    }
    open
}

/// The weight of each candidate in the objective: 1, or by the share of its model's time. The points
/// of every run of the collector weigh one on average.
fn weights(candidates: &Candidates, open: &[usize], times_ns: &[f64]) -> Vec<f64> {
    let plain: Vec<f64> = open
        .iter()
        .zip(times_ns)
        .map(|(&place, time_ns)| {
            let candidate = &candidates.points[place];
            match candidates.jobs[candidate.job].objective {
                Objective::Points => 1.0,
                Objective::Models => candidate.row.op_count.unwrap_or(1) as f64 * time_ns,
            }
        })
        .collect();
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (place, value) in open.iter().zip(&plain) {
        let (sum, count) = sums.entry(candidates.points[*place].job).or_default();
        *sum += value;
        *count += 1.0;
    }
    open.iter()
        .zip(plain)
        .map(|(place, value)| {
            let (sum, count) = sums[&candidates.points[*place].job];
            value * count / sum
        })
        .collect()
}
