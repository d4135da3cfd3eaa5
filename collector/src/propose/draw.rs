//! The points of a plan for one import: the operators that take part, and the schedules drawn for each.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use opdata::contract::Environment;
use opengine::device::{Conditions, DeviceRef};
use opengine::runner::WorkerPool;
use opengine::schedule::{Choice, Factor, FactorValue, ScheduleSpec, Space};
use opmodels::{Graph, Imported};
use opreport::units;

use super::turns::in_turns;
use super::{Proposer, chosen, tuning};
use crate::plan::{self, Plan};
use crate::sweep::{Drawn, SpaceKind, Sweep, Values, most_schedule_specs, schedule_specs};

/// Maximum number of kernels of a plan: they are drawn before the first is built, and some 200,000 keep two cores busy
/// for days.
const MOST_KERNELS: u64 = 200_000;

/// The points of one import.
pub struct Drawing {
    /// Proposes the candidates of this run's shard.
    pub proposer: Box<dyn Proposer>,
    /// The draws for each operator that takes part, with its index in the graph.
    pub operators: Vec<(usize, Drawn)>,
    /// Candidates of all shards together.
    pub all_shards: u64,
}

/// Draws the candidates of a plan for one of its `imports` imports.
///
/// # Errors
/// Fails if the sweep leaves nothing to measure, asks for settings that no operator has, or contradicts itself.
pub fn draw(
    plan: &Plan,
    imported: &Imported,
    imports: usize,
    environment: &Environment,
    runner: &mut WorkerPool,
) -> anyhow::Result<Drawing> {
    if let Some(policy) = &plan.tuning {
        return tuning::draw(plan, policy, imported, environment, runner);
    }
    let graph = &imported.graph;
    let Some(sweep) = &plan.sweep else {
        let all = (0..graph.operators.len()).map(|operator| (operator, default_alone()));
        return Ok(in_turns(all.collect(), plan.shard, everywhere(plan)));
    };
    if sweep.space == SpaceKind::Points {
        return chosen::draw(plan, sweep, graph);
    }
    let taking_part = operators(sweep, graph)?;
    let schedules = within_cap(plan, sweep, taking_part.len() * imports)?;
    let spaces: Vec<Option<Space>> = match sweep.space {
        SpaceKind::Template => {
            let symbols: Vec<String> = taking_part
                .iter()
                .map(|&o| graph.operators[o].symbol.clone())
                .collect();
            let spaces = runner
                .first
                .spaces(&symbols)
                .map_err(|f| anyhow!(f.reason))?;
            check_settings(plan.target.device, sweep, &spaces)?;
            spaces.into_iter().map(Some).collect()
        }
        _ => vec![None; taking_part.len()],
    };
    let spaces: Vec<Space> = spaces
        .into_iter()
        .map(|space| space.unwrap_or_else(|| Space::fixed(Choice::unscheduled())))
        .collect();
    check_number(sweep, &spaces, schedules, imports)?;
    let drawn = taking_part
        .into_iter()
        .zip(spaces)
        .map(|(operator, space)| {
            let workload = graph.operators[operator].workload_hash();
            let seed = operator_seed(plan.seed, &workload);
            let device = plan.target.device;
            let drawn = schedule_specs(device, sweep, &space, schedules, seed);
            (operator, drawn)
        })
        .collect();
    Ok(in_turns(drawn, plan.shard, everywhere(plan)))
}

/// Every candidate is measured under all conditions of the plan.
fn everywhere(plan: &Plan) -> impl Fn(usize, &ScheduleSpec) -> Vec<Conditions> {
    let conditions: Vec<Conditions> = plan::conditions(plan);
    move |_, _| conditions.clone()
}

pub(super) fn default_alone() -> Drawn {
    Drawn {
        schedule_specs: vec![ScheduleSpec::Default],
        combinations: None,
        unoffered: Vec::new(),
        dimensions: 0,
    }
}

/// A seed of the operator's own, so that its schedules do not depend on the rest of the model.
pub(super) fn operator_seed(seed: u64, workload: &str) -> u64 {
    let hash = opdata::stable_hash(&[("seed", &seed.to_string()), ("workload", workload)]);
    u64::from_str_radix(&hash, 16).unwrap_or(seed)
}

/// The operators that the sweep names, by kind or by function.
fn operators(sweep: &Sweep, graph: &Graph) -> anyhow::Result<Vec<usize>> {
    let names = |o: usize| [graph.operators[o].kind.name(), &graph.operators[o].symbol];
    let all = 0..graph.operators.len();
    for wanted in &sweep.operators {
        if !all.clone().any(|o| names(o).contains(&wanted.as_str())) {
            let kinds: BTreeSet<&str> = graph.operators.iter().map(|o| o.kind.name()).collect();
            bail!(
                "sweep {}: the space is empty: {} has no operator of the kind or function {wanted}; it has {} (`opcollect list ops` shows the functions)",
                sweep.name,
                graph.model,
                kinds.into_iter().collect::<Vec<_>>().join(", ")
            );
        }
    }
    let is_wanted = |name: &str| sweep.operators.iter().any(|w| w == name);
    Ok(all
        .filter(|&o| sweep.operators.is_empty() || names(o).into_iter().any(is_wanted))
        .collect())
}

/// Schedules of an operator, beside the default one, that the sweep's cap on points allows.
fn within_cap(plan: &Plan, sweep: &Sweep, operators: usize) -> anyhow::Result<usize> {
    let wanted = sweep.schedules as usize;
    let Some(most) = sweep.max_points else {
        return Ok(wanted);
    };
    let each = (operators * plan::conditions(plan).len()) as u64;
    let kernels = most / each.max(1);
    if kernels == 0 {
        bail!(
            "sweep {}: max-points = {most} is fewer than the {each} points of the default schedules alone; raise it, or name fewer operators, threads or batch sizes",
            sweep.name
        );
    }
    Ok(wanted.min(kernels as usize - 1))
}

/// Refuses more kernels than can be drawn in reasonable time and memory.
fn check_number(
    sweep: &Sweep,
    spaces: &[Space],
    schedules: usize,
    imports: usize,
) -> anyhow::Result<()> {
    let of_operator = |space| 1.0 + most_schedule_specs(sweep, space, schedules);
    let kernels = imports as f64 * spaces.iter().map(of_operator).sum::<f64>();
    if kernels > MOST_KERNELS as f64 {
        bail!(
            "sweep {}: schedules = {} makes up to {kernels:.0} kernels of {}, and a run has {MOST_KERNELS} at most; lower `schedules`, set `max-points`, name fewer `operators`, or measure in several runs with other seeds",
            sweep.name,
            sweep.schedules,
            units::plural((spaces.len() * imports) as u64, "operator")
        );
    }
    Ok(())
}

/// Whether every factor and value that the sweep names is offered by some operator.
fn check_settings(device: DeviceRef, sweep: &Sweep, spaces: &[Space]) -> anyhow::Result<()> {
    let offered = |factor: &Factor| -> BTreeSet<&FactorValue> {
        let dimensions = spaces.iter().flat_map(|s| &s.dimensions);
        dimensions
            .filter(|d| d.factor == *factor)
            .flat_map(|d| &d.values)
            .collect()
    };
    let mut any = false;
    // In the order in which the device lists its factors.
    let factors = || device.factors().iter().map(|info| &info.factor);
    let listed = factors().filter_map(|factor| match sweep.vary.get(factor)? {
        Values::All => Some((factor, Vec::new())),
        Values::Listed(settings) => Some((factor, settings.iter().collect())),
    });
    let fixed = factors().filter_map(|factor| Some((factor, vec![sweep.fix.get(factor)?])));
    for (factor, settings) in listed.chain(fixed) {
        let offered = offered(factor);
        any |= !offered.is_empty();
        if let Some(setting) = settings.into_iter().find(|s| !offered.contains(s)) {
            let known: Vec<String> = offered.iter().map(ToString::to_string).collect();
            bail!(
                "sweep {}: {} = {setting} is impossible for every operator here; {}",
                sweep.name,
                factor.name(),
                if known.is_empty() {
                    "none of them has this factor".to_owned()
                } else {
                    format!("possible are {}", known.join(", "))
                }
            );
        }
    }
    if !any && sweep.schedules > 0 {
        bail!(
            "sweep {}: the space is empty: no operator here has one of its factors ({})",
            sweep.name,
            factors()
                .filter(|factor| sweep.vary.contains_key(factor))
                .map(Factor::name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(())
}
