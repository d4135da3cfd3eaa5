//! The problem of a placement: a job for each call of each model; its costs from measured rows, else predicted ones.

use std::collections::{BTreeMap, BTreeSet};

use opdata::{DeviceKind, Row};
use oplearn::features::machine::MachineFacts;
use opmodels::Graph;
use opmodels::graph::{Argument, ArgumentRole, Operator};
use serde::Serialize;

use super::devices::Devices;
use super::problem::{Job, Problem};
use crate::error::{Error, Result};
use crate::model::Trained;
use crate::query::answer::Detail;
use crate::query::network::row;

/// Names of operators that are listed in a message.
const LISTED: usize = 5;

/// Shortest measured times: by workload, kind of device and threads.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    times_ns: BTreeMap<(String, DeviceKind, u64), f64>,
}

impl Measured {
    /// The times of rows. If a kind of device has several machines, the named one counts.
    ///
    /// # Errors
    /// Fails if rows of one kind of device are of several machines, and none is named.
    pub fn of_rows(rows: &[Row], machine: Option<&str>) -> Result<Measured> {
        let timed = || rows.iter().filter(|row| row.status.has_time());
        let mut machines: BTreeMap<DeviceKind, BTreeSet<&str>> = BTreeMap::new();
        for row in timed() {
            let name = row.env_hash.as_deref().unwrap_or("unknown");
            machines.entry(row.device_kind).or_default().insert(name);
        }
        let wanted = |row: &Row| {
            let several = machines[&row.device_kind].len() > 1;
            !several || row.env_hash.as_deref() == machine
        };
        let undecided = machines.iter().find(|(_, names)| {
            names.len() > 1 && !machine.is_some_and(|machine| names.contains(machine))
        });
        if let Some((kind, names)) = undecided {
            let names: Vec<&str> = names.iter().copied().collect();
            return Err(Error::Query(format!(
                "the rows of {kind} are of several machines; choose one with --machine: {}",
                names.join(", ")
            )));
        }
        let mut times_ns = BTreeMap::new();
        for row in timed().filter(|row| wanted(row)) {
            if let (Some(workload), Some(ns)) = (&row.workload_hash, row.time_median_ns) {
                let threads = threads(row.device_kind, row.threads.unwrap_or(1));
                let own = times_ns.entry((workload.clone(), row.device_kind, threads));
                let least: &mut f64 = own.or_insert(ns);
                *least = least.min(ns);
            }
        }
        Ok(Measured { times_ns })
    }

    /// The shortest time of a workload on a kind of device, ns.
    pub fn time_ns(&self, workload: &str, kind: DeviceKind, wanted: u64) -> Option<f64> {
        let key = (workload.to_owned(), kind, threads(kind, wanted));
        self.times_ns.get(&key).copied()
    }
}

/// The number of threads, or 1 on devices whose threads are not counted.
fn threads(kind: DeviceKind, threads: u64) -> u64 {
    if kind == DeviceKind::CPU { threads } else { 1 }
}

/// Predicts the times that were not measured.
pub struct Predictor<'a> {
    /// The trained model.
    pub trained: &'a Trained,
    /// The machine that it predicts for.
    pub machine: &'a MachineFacts,
}

/// Sources of a problem's costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sources {
    /// Costs of calls that were measured or simulated.
    pub measured: usize,
    /// Costs of calls that were predicted.
    pub predicted: usize,
    /// Operators without a cost, by device: they are not placed there.
    pub missing: BTreeMap<String, Vec<String>>,
}

/// Makes the problem.
///
/// # Errors
/// Fails if an operator has no cost on any device, or the predictor fails.
pub fn problem(
    graphs: &[Graph],
    devices: Devices,
    measured: &Measured,
    predictor: Option<&Predictor<'_>>,
    energy_weight: f64,
) -> Result<(Problem, Sources)> {
    let mut sources = Sources::default();
    let mut jobs = Vec::new();
    let mut homeless = Vec::new();
    for (model, graph) in graphs.iter().enumerate() {
        let mut costs: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
        for operator in &graph.operators {
            let workload = operator.workload_hash();
            let mut own = Vec::new();
            for device in &devices.devices {
                let known = measured.time_ns(&workload, device.kind, device.threads);
                let cost = match (known, predictor) {
                    (None, Some(predictor))
                        if predictor.trained.facts.device_kind == device.kind =>
                    {
                        sources.predicted += operator.count as usize;
                        Some(predicted(predictor, operator, graph, device.threads)?)
                    }
                    (known, _) => {
                        sources.measured += known.map_or(0, |_| operator.count as usize);
                        known
                    }
                };
                if cost.is_none() {
                    let missing = sources.missing.entry(device.name.clone()).or_default();
                    missing.push(format!("{}/{}", graph.model, operator.symbol));
                }
                own.push(cost);
            }
            if own.iter().all(Option::is_none) {
                homeless.push(format!("{}/{}", graph.model, operator.symbol));
            }
            costs.insert(&operator.symbol, own);
        }
        let first = jobs.len();
        for call in &graph.calls {
            let operator = graph.operators.iter().find(|o| o.symbol == call.symbol);
            let Some(operator) = operator else { continue };
            jobs.push(Job {
                name: format!("{}/{}", graph.model, call.symbol),
                model,
                costs_ns: costs[call.symbol.as_str()].clone(),
                weight_bytes: bytes(operator, ArgumentRole::Weight),
                output_bytes: bytes(operator, ArgumentRole::Output),
                inputs: call.inputs.iter().map(|input| first + input).collect(),
            });
        }
    }
    if !homeless.is_empty() {
        return Err(Error::Query(format!(
            "no device has a cost of {}: measure them (opcollect --modelname MODEL --threads N), name the run, or predict with --model FILE.opm",
            listed(&homeless)
        )));
    }
    let problem = Problem {
        devices: devices.devices,
        jobs,
        links: devices.links,
        slowdowns: devices.slowdowns,
        energy_weight,
    };
    Ok((problem, sources))
}

/// The first names of a list, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(LISTED)].join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The predicted time of an operator inside its model, ns.
///
/// # Errors
/// Fails if the predictor fails.
pub fn predicted(
    predictor: &Predictor<'_>,
    operator: &Operator,
    graph: &Graph,
    threads: u64,
) -> Result<f64> {
    let trained = predictor.trained;
    let row = row(operator, graph, threads, trained.facts.device_kind);
    let rows = std::slice::from_ref(&row);
    let answers = trained.answer_rows(rows, predictor.machine, 0.9, Detail::Short)?;
    Ok(answers
        .first()
        .map_or(f64::INFINITY, |answer| answer.time_ns))
}

/// Bytes of an operator's arguments of a role.
fn bytes(operator: &Operator, role: ArgumentRole) -> u64 {
    operator.args_of(role).map(Argument::bytes).sum()
}
