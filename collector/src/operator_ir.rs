//! The intermediate representation of a model's operators, for people: `opcollect list ops … --ir`.

use std::path::Path;

use anyhow::Context;
use opengine::device::cpu;
use opengine::schedule::{Choice, default_schedule};
use opmodels::Imported;
use opreport::Misuse;
use opreport::nearest::{did_you_mean, nearest};
use tvm_bridge::target::host_cpu;
use tvm_bridge::{IrModule, Target};

/// Name of the Relax function that calls the operators.
const MAIN: &str = "main";

/// The code of one operator.
#[derive(Debug)]
pub struct OperatorIr {
    /// Its symbol in the module.
    pub symbol: String,
    /// The lines of the Relax function that call it.
    pub relax: String,
    /// Its tensor function, as TVMScript.
    pub tir: String,
    /// Its default schedule on this machine's CPU.
    pub schedule: Choice,
}

/// The module of an import, by its folder.
///
/// # Errors
/// Fails if it cannot be read, or is of another TVM.
pub(crate) fn module(import: &Path) -> anyhow::Result<IrModule> {
    let path = import.join("module.json");
    let json = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(IrModule::from_json(&json)?)
}

/// Reads the operators of an import: all of them, or those of one name (several shapes may share it).
///
/// # Errors
/// Fails if the import is of another TVM, or no operator has that name.
pub fn read(imported: &Imported, name: Option<&str>) -> anyhow::Result<Vec<OperatorIr>> {
    let module = module(&imported.folder)?;
    let main = module.function_script(MAIN)?;
    let templates = cpu::templates(&Target::llvm(&host_cpu()?, 1)?)?;
    let operators = &imported.graph.operators;
    let wanted = |operator: &&opmodels::graph::Operator| {
        name.is_none_or(|name| operator.name == name || operator.symbol == name)
    };
    let mut found = Vec::new();
    for operator in operators.iter().filter(wanted) {
        let call = format!("call_tir({}, ", operator.symbol);
        let lines: Vec<&str> = main
            .lines()
            .filter(|line| line.contains(&call))
            .map(str::trim)
            .collect();
        found.push(OperatorIr {
            symbol: operator.symbol.clone(),
            relax: lines.join("\n"),
            tir: module.function_script(&operator.symbol)?,
            schedule: default_schedule(
                &module.prim_func(&operator.symbol)?,
                templates.as_ref(),
                0,
            )?
            .choice,
        });
    }
    if found.is_empty() {
        let name = name.unwrap_or_default();
        let close = nearest(
            name,
            operators.iter().map(|operator| operator.symbol.as_str()),
        );
        let message = format!(
            "--ir {name}: the model has no such operator{}; `list ops` without --ir shows them",
            did_you_mean(&close)
        );
        return Err(Misuse(message).into());
    }
    Ok(found)
}
