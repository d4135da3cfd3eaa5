//! How composite operators come apart, source by source: `opcollect list patterns`.
//!
//! Nothing here knows the steps of a composite: each form is imported, and its steps are read from the import.

use std::path::Path;

use opinstall::Home;
use opmodels::graph::Graph;
use opmodels::patterns::{Pattern, Steps};
use opmodels::{ImportError, Importer};
use opreport::Progress;

/// One form of a composite operator, imported.
#[derive(Debug)]
pub struct Expanded {
    /// The form.
    pub pattern: Pattern,
    /// The steps, or the extra that its source lacks here.
    pub outcome: Result<Expansion, String>,
}

/// The steps that a form becomes.
#[derive(Debug)]
pub struct Expansion {
    /// Up to the Relax operators.
    pub steps: Steps,
    /// The fused operators and their blocks.
    pub graph: Graph,
}

impl Expansion {
    /// Names of the fused operators.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        self.graph.operators.iter().map(|o| o.symbol.as_str())
    }

    /// Names of all TensorIR blocks in program order.
    pub fn blocks(&self) -> impl Iterator<Item = &str> {
        let operators = self.graph.operators.iter();
        operators.flat_map(|o| o.blocks.iter().map(|block| block.name.as_str()))
    }
}

/// Imports every form; the cache makes that fast from the second time on.
///
/// # Errors
/// Fails if the list of forms cannot be read, or a form cannot be imported for another reason than a missing extra.
pub fn expand(
    home: &Home,
    python: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<Vec<Expanded>, ImportError> {
    let importer = Importer::new(home, python)?;
    let patterns = Pattern::load(&home.patterns())?;
    progress.begin("import", patterns.len() as u64);
    let expanded = patterns
        .into_iter()
        .map(|pattern| {
            let label = format!("{}, {}", pattern.composite, pattern.form);
            progress.working(&label);
            let outcome = match importer.import(&pattern.request(), &mut |_| {}) {
                Ok(imported) => Ok(Expansion {
                    steps: Steps::read(&imported.folder)?,
                    graph: imported.graph,
                }),
                Err(ImportError::MissingExtra { .. }) => Err(pattern
                    .source
                    .extra()
                    .map_or_else(String::new, |e| format!("needs scripts/setup --with {e}"))),
                Err(error) => return Err(error),
            };
            progress.point(
                &label,
                if outcome.is_ok() {
                    "imported"
                } else {
                    "left out"
                },
            );
            Ok(Expanded { pattern, outcome })
        })
        .collect();
    progress.end();
    expanded
}
