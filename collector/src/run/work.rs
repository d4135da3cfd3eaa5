//! What there is to measure of one import: its candidates, in the order they are measured.
//!
//! Operators take turns, a few schedules at a time, so that a run that is stopped early has measured all of them about
//! equally far; each begins with its default schedule, which the others are judged by. The order depends on the plan
//! alone: a candidate's place is the same in every run, resumed run and shard.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use opdata::Shard;
use opengine::device::{Conditions, DeviceRef};
use opengine::runner::process::Runner;
use opengine::schedule::{Choice, Factor, FactorValue, ScheduleSpec, Space};
use opmodels::Graph;

use super::chosen;
use crate::plan::{self, Plan};
use crate::sweep::{Drawn, SpaceKind, Sweep, Values, schedule_specs};

/// Schedules of one operator that are measured one after the other.
const TURN: usize = 16;

/// An operator with a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Number in the plan's order, from 0.
    pub place: u64,
    /// Number of the operator in the graph.
    pub operator: usize,
    /// The schedule.
    pub schedule_spec: ScheduleSpec,
    /// What it is measured at.
    pub conditions: Vec<Conditions>,
}

/// The candidates of one import.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// Those of this run's shard, in order.
    pub candidates: Vec<Candidate>,
    /// What was drawn of each operator that takes part: its number in the graph first.
    pub drawn: Vec<(usize, Drawn)>,
}

impl Work {
    /// Points of all candidates.
    pub fn points(&self) -> usize {
        self.candidates.iter().map(|c| c.conditions.len()).sum()
    }
}

/// Draws the candidates of a plan for one of its `imports` imports.
///
/// # Errors
/// The sweep leaves nothing to measure, asks for settings that no operator has, or contradicts itself.
pub fn draw(
    plan: &Plan,
    graph: &Graph,
    imports: usize,
    runner: &mut dyn Runner,
) -> anyhow::Result<Work> {
    let Some(sweep) = &plan.sweep else {
        let all = (0..graph.operators.len()).map(|operator| (operator, default_alone()));
        return Ok(in_turns(all.collect(), plan.shard, everywhere(plan)));
    };
    if sweep.space == SpaceKind::Points {
        return chosen::work(plan, sweep, graph);
    }
    let taking_part = operators(sweep, graph)?;
    let schedules = within_cap(plan, sweep, taking_part.len() * imports)?;
    let spaces: Vec<Option<Space>> = match sweep.space {
        SpaceKind::Template => {
            let symbols: Vec<String> = taking_part
                .iter()
                .map(|&o| graph.operators[o].symbol.clone())
                .collect();
            let spaces = runner.spaces(&symbols).map_err(|f| anyhow!(f.reason))?;
            check_settings(plan.target.device, sweep, &spaces)?;
            spaces.into_iter().map(Some).collect()
        }
        _ => vec![None; taking_part.len()],
    };
    let drawn = taking_part
        .into_iter()
        .zip(spaces)
        .map(|(operator, space)| {
            let workload = graph.operators[operator].workload_hash();
            let space = space.unwrap_or_else(|| Space::fixed(Choice::unscheduled()));
            let seed = operator_seed(plan.seed, &workload);
            let device = plan.target.device;
            (
                operator,
                schedule_specs(device, sweep, &space, schedules, seed),
            )
        })
        .collect();
    Ok(in_turns(drawn, plan.shard, everywhere(plan)))
}

/// Every candidate is measured under all conditions of the plan.
fn everywhere(plan: &Plan) -> impl Fn(usize, &ScheduleSpec) -> Vec<Conditions> {
    let conditions: Vec<Conditions> = plan::conditions(plan).collect();
    move |_, _| conditions.clone()
}

fn default_alone() -> Drawn {
    Drawn {
        schedule_specs: vec![ScheduleSpec::Default],
        combinations: None,
        unoffered: Vec::new(),
        dimensions: 0,
    }
}

/// A seed of the operator's own, so that its schedules do not depend on what else is in the model.
fn operator_seed(seed: u64, workload: &str) -> u64 {
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
    let each = (operators * plan::conditions(plan).count()) as u64;
    let kernels = most / each.max(1);
    if kernels == 0 {
        bail!(
            "sweep {}: max-points = {most} is fewer than the {each} points of the default schedules alone; raise it, or name fewer operators, threads or batch sizes",
            sweep.name
        );
    }
    Ok(wanted.min(kernels as usize - 1))
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

/// The candidates in the order they are measured; `conditions` tells what an operator's schedule is measured at.
pub(super) fn in_turns(
    drawn: Vec<(usize, Drawn)>,
    shard: Option<Shard>,
    conditions: impl Fn(usize, &ScheduleSpec) -> Vec<Conditions>,
) -> Work {
    let longest = drawn
        .iter()
        .map(|(_, d)| d.schedule_specs.len())
        .max()
        .unwrap_or(0);
    let mut place = 0;
    let mut candidates = Vec::new();
    for turn in 0..longest.div_ceil(TURN) {
        for (operator, drawn) in &drawn {
            for schedule_spec in drawn.schedule_specs.iter().skip(turn * TURN).take(TURN) {
                if shard.is_none_or(|s| s.holds(place)) {
                    candidates.push(Candidate {
                        place,
                        operator: *operator,
                        schedule_spec: schedule_spec.clone(),
                        conditions: conditions(*operator, schedule_spec),
                    });
                }
                place += 1;
            }
        }
    }
    Work { candidates, drawn }
}

#[cfg(test)]
mod tests {
    use opdata::CacheState;

    use super::*;
    use proptest::prelude::*;

    fn drawn(schedules: usize) -> Drawn {
        let sample = |seed| ScheduleSpec::Metaschedule { seed };
        Drawn {
            schedule_specs: std::iter::once(ScheduleSpec::Default)
                .chain((0..schedules as u64).map(sample))
                .collect(),
            ..default_alone()
        }
    }

    fn at_one(_: usize, _: &ScheduleSpec) -> Vec<Conditions> {
        vec![Conditions::new(1, CacheState::Hot)]
    }

    proptest! {
        #[test]
        fn shards_part_the_candidates(sizes in proptest::collection::vec(0usize..40, 1..6), count in 1u32..5) {
            let all = || sizes.iter().enumerate().map(|(o, &n)| (o, drawn(n))).collect::<Vec<_>>();
            let whole = in_turns(all(), None, at_one).candidates;
            let places: Vec<u64> = whole.iter().map(|c| c.place).collect();
            prop_assert_eq!(places, (0..whole.len() as u64).collect::<Vec<_>>());
            let mut parts: Vec<Candidate> = (1..=count)
                .flat_map(|index| in_turns(all(), Some(Shard { index, count }), at_one).candidates)
                .collect();
            parts.sort_by_key(|c| c.place);
            prop_assert_eq!(parts, whole);
        }
    }

    #[test]
    fn operators_take_turns_and_begin_with_their_default() {
        let work = in_turns(vec![(3, drawn(40)), (5, drawn(1))], None, at_one);
        let operators: Vec<usize> = work.candidates.iter().map(|c| c.operator).collect();
        assert_eq!(operators[..16], [3; 16]);
        assert_eq!(operators[16..18], [5; 2]);
        assert_eq!(operators[18..], [3; 25]);
        assert_eq!(work.candidates[16].schedule_spec, ScheduleSpec::Default);
    }
}
