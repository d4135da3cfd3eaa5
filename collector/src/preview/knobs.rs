//! The knobs of a model's operators: what can be varied of each schedule, and how large the space is.

use anyhow::anyhow;
use opengine::schedule::Space;

use crate::plan::Planned;
use crate::run::{Session, runner, scratch};

/// An operator and its space.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorKnobs {
    /// Readable name.
    pub name: String,
    /// Function in the module.
    pub symbol: String,
    /// The schedule space.
    pub space: Space,
}

/// The spaces of a plan's operators; nothing is built.
///
/// # Errors
/// Fails if the model cannot be imported, or its operators not be described.
pub fn knobs(planned: &Planned, session: &mut Session<'_>) -> anyhow::Result<Vec<OperatorKnobs>> {
    let plan = &planned.plan;
    let python = planned.python.as_deref();
    let imported = session.importer.import(&plan.model, python, &mut |_| {})?;
    let target = plan.target.dictionary(&session.environment());
    let folder = scratch()?;
    let mut runner = runner(plan, &imported, &target, 1, session, folder.path())?;
    let operators = &imported.graph.operators;
    let symbols: Vec<String> = operators.iter().map(|o| o.symbol.clone()).collect();
    let spaces = runner
        .first
        .spaces(&symbols)
        .map_err(|failure| anyhow!(failure.reason))?;
    let described = operators.iter().zip(spaces);
    Ok(described
        .map(|(operator, space)| OperatorKnobs {
            name: operator.name.clone(),
            symbol: operator.symbol.clone(),
            space,
        })
        .collect())
}
