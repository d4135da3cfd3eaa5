//! Schedules of other workloads for operators that the store does not know: before any trial, the best schedule of the nearest
//! workload of the same kind.
//!
//! Near is what has similar shapes. A schedule is taken if its knobs are a point of the operator's own space. Whether it is
//! faster than the default one is measured inside the model, and only then it stays.

use anyhow::anyhow;
use opengine::runner::Runner;
use opmodels::Graph;
use serde_json::Value;

use super::Applied;
use crate::plan::Plan;
use crate::propose::Grid;

/// A schedule of another workload stays if it takes at most this share of the default one's time: less is noise.
const FASTER: f64 = 0.97;

/// Gives operators without a schedule that of the nearest workload.
///
/// # Errors
/// The store cannot be read, or the operators' spaces cannot be described.
pub(super) fn fill(
    plan: &Plan,
    graph: &Graph,
    target: &Value,
    machine: &str,
    runner: &mut dyn Runner,
    operators: &mut [Applied],
) -> anyhow::Result<()> {
    let missing: Vec<usize> = (0..operators.len())
        .filter(|&o| operators[o].entry.is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut store = super::store(plan)?;
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let symbols: Vec<String> = missing
        .iter()
        .map(|&o| graph.operators[o].symbol.clone())
        .collect();
    let spaces = runner.spaces(&symbols).map_err(|f| anyhow!(f.reason))?;
    for (&o, space) in missing.iter().zip(spaces) {
        let operator = &graph.operators[o];
        let grid = Grid::new(plan.target.device, space);
        let kind = operator.kind.name();
        let near = store.nearest(kind, &operator.shapes(), target, machine)?;
        let near = near
            .into_iter()
            .filter(|entry| entry.key.threads == threads);
        let fits = |entry: &crate::store::Entry| grid.point_of(&entry.choice).is_some();
        if let Some(entry) = near.into_iter().find(fits) {
            operators[o].entry = Some(entry);
            operators[o].is_nearest = true;
        }
    }
    Ok(())
}

/// The same operators with schedules of their own workloads alone.
pub(super) fn without(operators: &[Applied]) -> Vec<Applied> {
    let mut exact = operators.to_vec();
    for operator in exact.iter_mut().filter(|operator| operator.is_nearest) {
        operator.entry = None;
        operator.is_nearest = false;
    }
    exact
}

/// Takes schedules of other workloads back where they are not faster inside the model than `before`, without them.
pub(super) fn keep_faster(operators: &mut [Applied], before: &[Applied]) {
    for (operator, before) in operators.iter_mut().zip(before) {
        let faster = operator
            .in_model_ns
            .zip(before.in_model_ns)
            .is_some_and(|(after, before)| after <= before * FASTER);
        if operator.is_nearest && !faster {
            operator.entry = None;
            operator.is_nearest = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_of_another_workload_stays_only_where_it_is_faster() {
        let operator = |in_model_ns, is_nearest| Applied {
            name: "dense".to_owned(),
            workload: "w".to_owned(),
            count: 1,
            flops: 1,
            in_model_ns: Some(in_model_ns),
            entry: Some(crate::store::testing::entry("w", 1, 5.0)),
            is_nearest,
        };
        let mut after = [
            operator(50.0, true),
            operator(99.0, true),
            operator(120.0, false),
        ];
        let before = [100.0, 100.0, 100.0].map(|ns| operator(ns, false));
        keep_faster(&mut after, &before);
        let kept = after.map(|operator| (operator.entry.is_some(), operator.is_nearest));
        assert_eq!(kept, [(true, true), (false, false), (true, false)]);
    }
}
