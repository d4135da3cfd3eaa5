//! Schedules of other workloads for operators that the store does not know. Before any trial they take the best
//! schedule of the nearest workload of the same kind.
//!
//! Near is what has similar shapes. A schedule is tried if its knobs are a point of the operator's own space. It stays
//! if it is faster than the default one inside the model ([`crate::run::in_model`]).

use anyhow::anyhow;
use opengine::runner::WorkerPool;

use super::{Applied, Lookup};
use crate::propose::Grid;
use crate::store::Entry;

/// Adds the schedule of the nearest workload to the candidates of operators without a schedule.
///
/// # Errors
/// Fails if the store cannot be read, or the operators' spaces cannot be described.
pub(super) fn fill(
    lookup: &Lookup<'_>,
    runner: &mut WorkerPool,
    operators: &[Applied],
    others: &mut [Vec<Applied>],
) -> anyhow::Result<()> {
    let &Lookup {
        plan,
        imported,
        target,
        machine,
        ..
    } = lookup;
    let graph = &imported.graph;
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
    let spaces = runner
        .first
        .spaces(&symbols)
        .map_err(|f| anyhow!(f.reason))?;
    for (&o, space) in missing.iter().zip(spaces) {
        let operator = &graph.operators[o];
        let grid = Grid::new(plan.target.device, space);
        let kind = operator.kind.name();
        let near = store.nearest(kind, &operator.shapes(), target, machine)?;
        let near = near
            .into_iter()
            .filter(|entry| entry.key.threads == threads);
        let fits = |entry: &Entry| grid.point_of(&entry.choice).is_some();
        if let Some(entry) = near.into_iter().find(fits) {
            others[o].push(operators[o].with_nearest(entry));
        }
    }
    Ok(())
}
