//! Unrolling left to the compiler of the generated source.
//!
//! MetaSchedule's rules for CUDA mark loops to be unrolled explicitly (`pragma_unroll_explicit`). That makes kernels of
//! up to 900 KB. Reading and simplifying copies of one statement takes most of the compile time. The same loops under
//! `#pragma unroll` become the same instructions (`docs/cuda.md` compares) in a fraction of that time. The schedule and
//! its trace keep their mark; only what is lowered for a GPU loses it.

use crate::call::{Obj, field, text};
use crate::error::Result;
use crate::inspect::{annotation, any_statement_in, attribute, string};
use crate::ir::{IrModule, PrimFunc, type_key};
use crate::schedule::Schedule;

/// The mark of a loop: unrolled here, as statements, where it is not zero.
const EXPLICIT: &str = "pragma_unroll_explicit";
/// The attribute of a function with the name under which it is exported.
const SYMBOL: &str = "global_symbol";

/// The module with its marked loops left to the compiler. `None` if no loop is marked.
///
/// # Errors
/// Fails if TVM does.
pub(crate) fn leave_to_compiler(module: &IrModule) -> Result<Option<IrModule>> {
    module.with_changed(|function| {
        let body = field(&function.handle, "body")?;
        any_statement_in(&body, &is_marked)?
            .then(|| unmark(function))
            .transpose()
    })
}

/// Whether a statement is a marked loop.
fn is_marked(statement: &Obj) -> Result<bool> {
    if type_key(statement) != Some("tirx.For") {
        return Ok(false);
    }
    let mark = annotation(&field(statement, "annotations")?, EXPLICIT)?;
    Ok(mark.is_some_and(|mark| mark != 0))
}

fn unmark(function: &PrimFunc) -> Result<PrimFunc> {
    let schedule = Schedule::new(function, 0)?;
    for block in schedule.blocks()? {
        for l in schedule.loops(&block)? {
            let node = schedule.call("ScheduleGet", &[&l.0])?;
            if is_marked(&node)? {
                schedule.done("ScheduleUnannotate", &[&l.0, &text(EXPLICIT)])?;
                schedule.annotate_loop(&l, EXPLICIT, 0)?;
            }
        }
    }
    let unmarked = schedule.function()?;
    // A schedule exports its function under a name of its own.
    match attribute(&function.handle, SYMBOL)? {
        Some(symbol) => unmarked.with_symbol(&string(&symbol)?),
        None => unmarked.without_symbol(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compile::{Asserts, Lowered};
    use crate::inspect::any_statement;
    use crate::target::Target;

    #[test]
    fn marked_loops_reach_the_compiler_as_loops_and_the_schedule_keeps_its_mark() {
        let path = format!("{}/tests/fixtures/matmul.json", env!("CARGO_MANIFEST_DIR"));
        let function = PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
        let schedule = Schedule::new(&function, 1).unwrap();
        let block = schedule.blocks().unwrap().remove(0);
        let loops = schedule.loops(&block).unwrap();
        schedule.bind(&loops[0], "blockIdx.x").unwrap();
        schedule.bind(&loops[1], "threadIdx.x").unwrap();
        let split = schedule.split(&loops[2], &[None, Some(16)]).unwrap();
        assert!(
            leave_to_compiler(&schedule.module().unwrap())
                .unwrap()
                .is_none()
        );
        schedule
            .annotate_loop(&split[1], "pragma_auto_unroll_max_step", 64)
            .unwrap();
        schedule.annotate_loop(&split[1], EXPLICIT, 1).unwrap();
        let module = schedule.module().unwrap();
        let left = leave_to_compiler(&module).unwrap().unwrap();
        let marked = |module: &IrModule| any_statement(module, is_marked).unwrap();
        assert!(marked(&module) && !marked(&left));
        let target = json!({ "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024 });
        let host = Target::llvm("x86-64-v3", 1).unwrap();
        let target = Target::with_host(&target, &host).unwrap();
        let lowered = Lowered::new(&module, &target, Asserts::Dropped).unwrap();
        let source = lowered.device_source().unwrap().unwrap().text;
        assert!(source.contains("#pragma unroll"), "{source}");
        assert_eq!(source.matches("a_ptr[").count(), 1, "{source}");
    }
}
