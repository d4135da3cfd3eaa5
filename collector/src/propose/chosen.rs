//! The candidates of a sweep whose points were chosen one by one: which operators of the model they are, and whether
//! they were chosen for this machine.

use std::collections::{BTreeMap, HashSet};

use anyhow::bail;
use opengine::device::Conditions;
use opengine::schedule::ScheduleSpec;
use opmodels::Graph;

use super::Drawing;
use super::turns::in_turns;
use crate::plan::{Plan, conditions};
use crate::sweep::{ChosenPoint, Drawn, Sweep};

/// The chosen candidates among the operators of one import. An operator is identified by its computation; of several
/// with the same, the first is measured.
///
/// # Errors
/// Fails if the plan lacks the threads or the cache state of a point.
pub(super) fn draw(plan: &Plan, sweep: &Sweep, graph: &Graph) -> anyhow::Result<Drawing> {
    let offered = conditions(plan);
    // A chosen point does not name conditions of a single kind of device, so it gets all those of the plan.
    let matching = |wanted: &Conditions| -> Vec<Conditions> {
        let is_wanted = |at: &&Conditions| (at.threads, at.cache) == (wanted.threads, wanted.cache);
        offered.iter().filter(is_wanted).cloned().collect()
    };
    let mut by_workload: BTreeMap<&str, Vec<&ChosenPoint>> = BTreeMap::new();
    for point in &sweep.points {
        if let Some(missing) = point.conditions().find(|at| matching(at).is_empty()) {
            bail!(
                "sweep {}: a point of {} is to run on {} threads with caches {}, which other settings of this run leave out; give neither --threads nor --cache",
                sweep.name,
                point.operator,
                missing.threads,
                missing.cache
            );
        }
        by_workload.entry(&point.workload).or_default().push(point);
    }
    let mut conditions: BTreeMap<(usize, String), Vec<Conditions>> = BTreeMap::new();
    let mut drawn = Vec::new();
    for (place, operator) in graph.operators.iter().enumerate() {
        let Some(points) = by_workload.remove(operator.workload_hash().as_str()) else {
            continue;
        };
        let mut schedule_specs: Vec<ScheduleSpec> = Vec::new();
        for point in points {
            let all = conditions
                .entry((place, point.schedule_spec.key()))
                .or_default();
            if all.is_empty() {
                schedule_specs.push(point.schedule_spec.clone());
            }
            for at in point.conditions().flat_map(|at| matching(&at)) {
                if !all.contains(&at) {
                    all.push(at);
                }
            }
        }
        drawn.push((
            place,
            Drawn {
                schedule_specs,
                combinations: None,
                unoffered: Vec::new(),
                dimensions: 0,
            },
        ));
    }
    Ok(in_turns(drawn, plan.shard, |place, schedule_spec| {
        conditions
            .get(&(place, schedule_spec.key()))
            .cloned()
            .unwrap_or_default()
    }))
}

/// Refuses points that were chosen for another machine by measurements there.
///
/// # Errors
/// Fails if this is another machine.
pub fn check_machine(plan: &Plan, env_hash: &str) -> anyhow::Result<()> {
    let Some(sweep) = &plan.sweep else {
        return Ok(());
    };
    if let Some(machine) = sweep.machine.as_ref().filter(|m| *m != env_hash) {
        bail!(
            "sweep {}: its points were chosen for the machine {machine} by what was measured there, and this is {env_hash}; measure them there, or remove the line `machine` from the file to measure them here all the same",
            sweep.name
        );
    }
    Ok(())
}

/// Refuses points of operators that no import has.
///
/// # Errors
/// Fails if there is one.
pub fn check_found<'g>(plan: &Plan, graphs: impl Iterator<Item = &'g Graph>) -> anyhow::Result<()> {
    let Some(sweep) = &plan.sweep else {
        return Ok(());
    };
    if sweep.points.is_empty() {
        return Ok(());
    }
    let known: HashSet<String> = graphs
        .flat_map(|g| g.operators.iter().map(|o| o.workload_hash()))
        .collect();
    match sweep.points.iter().find(|p| !known.contains(&p.workload)) {
        None => Ok(()),
        Some(point) => bail!(
            "sweep {}: {} has no operator that computes {} (workload {}); the points were chosen for another model, other shapes, or another version of the importer: choose them anew with `oppredict suggest`",
            sweep.name,
            plan.model.model,
            point.operator,
            point.workload
        ),
    }
}
