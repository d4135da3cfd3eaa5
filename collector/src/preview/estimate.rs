//! The cost of a plan, before anything is measured: points, time, disk.
//!
//! Times are guesses for the operator's size, good to a factor of two or so. The constants are means over sweeps of the
//! zoo's models on two cores of a server CPU.

use opdata::contract::costs::{AROUND_POINT_NS, BUILD_NS};
use opmodels::graph::Operator;
use serde::Serialize;

use crate::plan::{Plan, Planned};
use crate::propose::Drawing;
use crate::run::{Session, prepare};

/// Speed of a middling schedule on one core.
const FLOPS_PER_NS: f64 = 20.0;
const BYTES_PER_NS: f64 = 5.0;
/// Bytes of a row in both formats together, most of it the trace.
const ROW_BYTES: f64 = 6000.0;

/// The cost of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEstimate {
    /// Its operators, with their schedules.
    pub operators: Vec<OperatorEstimate>,
    /// Kernels to build.
    pub kernels: u64,
    /// Points to measure.
    pub points: u64,
    /// Estimated time of the plan, ns.
    pub time_ns: f64,
    /// Estimated size of the rows, bytes.
    pub disk_bytes: f64,
}

/// An operator of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorEstimate {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Samples at once.
    pub batch: u64,
    /// Schedules drawn, the default one among them.
    pub schedules: u64,
    /// Factors that vary.
    pub factors: u64,
    /// Number of combinations of their values. `None` if it cannot be computed.
    pub combinations: Option<f64>,
}

/// Imports the plan's model and draws its candidates, but measures nothing.
///
/// # Errors
/// Fails as [`run`](crate::run::run) does before the first kernel.
pub fn estimate(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<PlanEstimate> {
    let plan = &planned.plan;
    let environment = session.environment();
    // Workers that describe spaces write a log, which needs a folder although there is no run.
    let scratch = crate::run::scratch()?;
    let planned = Planned {
        plan: Plan {
            out: scratch.path().to_owned(),
            ..plan.clone()
        },
        ..planned.clone()
    };
    let imports = prepare(&planned, &environment, session)?;
    let mut all = PlanEstimate {
        operators: Vec::new(),
        kernels: 0,
        points: 0,
        time_ns: 0.0,
        disk_bytes: 0.0,
    };
    let cores = f64::from(environment.state.cores_usable.max(1));
    for import in &imports {
        add(
            &mut all,
            plan,
            &import.imported.graph,
            &import.drawing,
            cores,
        );
    }
    Ok(all)
}

fn add(
    all: &mut PlanEstimate,
    plan: &Plan,
    graph: &opmodels::Graph,
    drawing: &Drawing,
    cores: f64,
) {
    let candidates = drawing.proposer.fixed_candidates();
    let kernels = candidates.len() as u64;
    let points = drawing.proposer.points();
    all.kernels += kernels;
    all.points += points;
    all.time_ns += kernels as f64 * BUILD_NS / cores;
    all.disk_bytes += points as f64 * ROW_BYTES;
    for candidate in candidates {
        let operator = &graph.operators[candidate.operator];
        let conditions = candidate.conditions.iter();
        all.time_ns += conditions
            .map(|at| point_ns(plan, operator, at.threads))
            .sum::<f64>();
    }
    all.operators
        .extend(drawing.operators.iter().map(|(operator, drawn)| {
            let operator = &graph.operators[*operator];
            OperatorEstimate {
                name: operator.name.clone(),
                kind: operator.kind.name().to_owned(),
                batch: graph.batch,
                schedules: drawn.schedule_specs.len() as u64,
                factors: drawn.dimensions as u64,
                combinations: drawn.combinations,
            }
        }));
}

/// About how long a point of an operator takes.
fn point_ns(plan: &Plan, operator: &Operator, threads: u32) -> f64 {
    let flops = (operator.flops + operator.flops_epilogue) as f64;
    let bytes = (operator.bytes_read + operator.bytes_written) as f64;
    let run = flops / (FLOPS_PER_NS * f64::from(threads)) + bytes / BYTES_PER_NS;
    let stop = &plan.timing.stop;
    // Samples of short kernels are runs of about 50 µs.
    let samples = f64::from(stop.min_samples) * run.max(50e3);
    let sampling = samples.min(stop.budget_ns as f64);
    AROUND_POINT_NS + f64::from(plan.timing.warmup + 1) * run + sampling
}
