//! Writes the schedules of a model as a MetaSchedule database.
//!
//! Stock TVM looks an operator's function up as the importer wrote it, and replays the trace on it. One record that it
//! cannot replay makes it refuse the whole database. So an operator whose fastest schedule cannot be replayed has the
//! fastest one that can.

use std::path::Path;

use anyhow::Context as _;
use opmodels::Graph;
use tvm_bridge::database::Writer;
use tvm_bridge::{IrModule, Target, Trace};

use super::Applied;
use crate::store::{Entry, Store};

/// The operators of a database whose schedule is not the model's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Operators with a slower schedule, because stock TVM cannot replay the fastest.
    pub slower: Vec<String>,
    /// Operators that were left out, because stock TVM can replay no schedule that the store has of them.
    pub left_out: Vec<String>,
}

/// Writes the database into a new folder, complete or not at all. Operators without a schedule of their own workload are
/// not in it.
///
/// # Errors
/// Fails if the folder cannot be written, if the store cannot be read, or if a trace is not one of its operator.
pub(super) fn write(
    folder: &Path,
    (graph, module): (&Graph, &IrModule),
    target: &serde_json::Value,
    operators: &[Applied],
    store: &mut Store,
) -> anyhow::Result<Exported> {
    let cannot = || format!("cannot write {}", folder.display());
    let beside = std::path::absolute(folder)?;
    let beside = beside.parent().context("a folder with a parent")?;
    let fresh = tempfile::tempdir_in(beside).with_context(cannot)?;
    let mut exported = Exported::default();
    let writer = Writer::new(fresh.path(), &Target::new(target)?)?;
    for (operator, applied) in graph.operators.iter().zip(operators) {
        let own = applied.entry.as_ref().filter(|_| !applied.is_nearest);
        let Some(fastest) = own else { continue };
        let function = module.prim_func(&operator.symbol)?;
        if function.unscheduled()?.is_some() {
            // TVM looks for the function as it came, and the traces are of its plain loops.
            exported.left_out.push(operator.symbol.clone());
            continue;
        }
        let script = function.script()?;
        let others = alternatives(store, fastest)?;
        let mut known = std::iter::once(fastest).chain(&others);
        let replayed = known.find_map(|entry| Some((entry, replayable(entry, &script)?)));
        let Some((entry, trace)) = replayed else {
            exported.left_out.push(operator.symbol.clone());
            continue;
        };
        if entry.program_hash != fastest.program_hash {
            exported.slower.push(operator.symbol.clone());
        }
        let added = writer.add(&function, &trace, entry.time_ns);
        added.with_context(|| format!("the schedule of {}", operator.symbol))?;
    }
    std::fs::rename(fresh.keep(), folder).with_context(cannot)?;
    Ok(exported)
}

/// What the store has of an entry's workload on its machine: first in the same state of the caches, the fastest first.
fn alternatives(store: &mut Store, of: &Entry) -> anyhow::Result<Vec<Entry>> {
    let key = &of.key;
    let threads = Some(key.threads);
    let mut known = store.best(
        &key.workload,
        &key.target,
        &key.machine,
        threads,
        usize::MAX,
    )?;
    known.sort_by_key(|entry| entry.key.cache != key.cache);
    Ok(known)
}

/// The trace of an entry, if stock TVM can replay it on the operator's function, whose TVMScript is given.
fn replayable(entry: &Entry, script: &str) -> Option<Trace> {
    let trace = entry.trace.as_ref()?;
    let can = !entry.choice.rewrites_program() && !needs_own_reducers(script, trace);
    can.then(|| Trace(trace.clone()))
}

/// Whether a trace factors a reduction that begins at infinity, as the importer writes maxima. TVM knows such reducers
/// only if this program has registered them.
fn needs_own_reducers(script: &str, trace: &serde_json::Value) -> bool {
    let mut instructions = trace[0].as_array().into_iter().flatten();
    let factors = instructions.any(|instruction| instruction[0] == "RFactor");
    factors && (script.contains("\"-inf\"") || script.contains("\"inf\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operator_ir;
    use crate::store::testing::{by, entry};

    #[test]
    fn an_operator_has_the_fastest_schedule_that_stock_tvm_can_replay() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conv2d_wide");
        let graph = std::fs::read_to_string(fixture.join("graph.json")).unwrap();
        let mut graph: Graph = serde_json::from_str(&graph).unwrap();
        graph.operators.truncate(1);
        let symbol = graph.operators[0].symbol.clone();
        let module = operator_ir::module(&fixture).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let written = |known: &[Entry]| {
            let path = folder.path().join(known.len().to_string());
            let mut store = Store::open(&path.with_extension("sqlite")).unwrap();
            store.add(known).unwrap();
            let applied = Applied {
                entry: Some(known[0].clone()),
                ..super::super::tests::operator()
            };
            let target = json!({"kind": "llvm"});
            let exported =
                write(&path, (&graph, &module), &target, &[applied], &mut store).unwrap();
            let file = path.join("database_tuning_record.json");
            let records = std::fs::read_to_string(file).unwrap_or_default();
            (exported, records.lines().count())
        };
        let fastest = by("winograd4", entry("w", 1, 5.0));
        let [direct, slow] = [entry("w", 2, 7.0), entry("w", 3, 9.0)];
        let none = Exported::default();
        assert_eq!(written(&[direct.clone(), slow.clone()]), (none.clone(), 1));
        let slower = Exported {
            slower: vec![symbol.clone()],
            ..none.clone()
        };
        assert_eq!(written(&[fastest.clone(), slow, direct]), (slower, 1));
        let left_out = Exported {
            left_out: vec![symbol],
            ..none
        };
        assert_eq!(written(&[fastest]), (left_out, 0));
    }

    #[test]
    fn reductions_that_stock_tvm_does_not_know_are_not_replayed() {
        let trace = json!([[["RFactor", [], [], []]], []]);
        assert!(needs_own_reducers("T.float32(\"-inf\")", &trace));
        assert!(!needs_own_reducers("T.float32(0)", &trace));
        assert!(!needs_own_reducers("T.float32(\"-inf\")", &json!([[], []])));
    }
}
