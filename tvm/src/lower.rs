//! From a scheduled TensorIR module to one that a code generator takes, for CPU targets.
//!
//! The passes are those of TVM's own pipeline for scheduled TensorIR (`tvm/s_tir/pipeline.py` of the wheel, 0.27), in
//! its order. Passes that can only change GPU code are listed but not run: a test checks that leaving them out gives
//! the same program.

use crate::call::{Obj, boolean, int, text};
use crate::error::Result;
use crate::ir::IrModule;
use crate::pass::{make, run};
use crate::target::Target;

/// Whether compiled functions check the shapes and types of their arguments at every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asserts {
    /// They do.
    Kept,
    /// They do not: a call costs less, and a wrong argument is undefined behaviour. Callers check arguments once.
    Dropped,
}

/// Which passes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipeline {
    /// What CPU code needs.
    Cpu,
    /// TVM's whole list, to compare with.
    #[cfg(test)]
    Full,
}

/// The argument of a pass's constructor.
#[derive(Clone, Copy)]
enum Argument {
    None,
    Bool(bool),
    Int(i64),
    Text(&'static str),
    Target,
}

/// What a pass can change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Any,
    Gpu,
}

use Argument::{Bool, Int, Text};
use Changes::{Any, Gpu};

const PASSES: &[(&str, Argument, Changes)] = &[
    ("tirx.transform.BindTarget", Argument::Target, Any),
    ("s_tir.transform.CanonicalizeLoop", Argument::None, Any),
    (
        "s_tir.transform.LowerCrossThreadReduction",
        Argument::None,
        Gpu,
    ),
    ("s_tir.transform.LowerInitBlock", Argument::None, Any),
    (
        "s_tir.transform.PlanAndUpdateBufferAllocationLocation",
        Argument::None,
        Any,
    ),
    ("s_tir.transform.ConvertBlocksToOpaque", Argument::None, Any),
    ("s_tir.transform.LiftThreadBinding", Argument::None, Gpu),
    (
        "s_tir.transform.ManifestSharedMemoryLocalStage",
        Argument::None,
        Gpu,
    ),
    ("s_tir.transform.CompactBufferAllocation", Bool(true), Any),
    ("s_tir.transform.LowerAutoCopy", Argument::None, Gpu),
    ("s_tir.transform.UnifyThreadBinding", Argument::None, Gpu),
    ("s_tir.transform.LowerMatchBuffer", Argument::None, Any),
    ("s_tir.transform.StmtSimplify", Argument::None, Any),
    ("s_tir.transform.InjectPermutedLayout", Argument::None, Gpu),
    ("s_tir.transform.AnnotateIrregularLoop", Argument::None, Any),
    (
        "s_tir.transform.InjectSoftwarePipeline",
        Argument::None,
        Gpu,
    ),
    (
        "s_tir.transform.TransformMmaBufferLayout",
        Argument::None,
        Gpu,
    ),
    ("s_tir.transform.LowerOpaqueBlock", Argument::None, Any),
    ("tirx.transform.FlattenBuffer", Argument::None, Any),
    ("tirx.transform.BF16ComputeLegalize", Argument::None, Any),
    ("tirx.transform.NarrowDataType", Int(32), Any),
    ("s_tir.transform.LoopPartition", Argument::None, Any),
    ("tirx.transform.VectorizeLoop", Bool(true), Any),
    ("s_tir.transform.InjectVirtualThread", Argument::None, Gpu),
    ("s_tir.transform.InjectDoubleBuffer", Argument::None, Gpu),
    ("tirx.transform.StorageRewrite", Argument::None, Any),
    ("s_tir.transform.HoistIfThenElse", Argument::None, Any),
    ("tirx.transform.UnrollLoop", Argument::None, Any),
    (
        "s_tir.transform.RenormalizeSplitPattern",
        Argument::None,
        Any,
    ),
    ("tirx.transform.StmtSimplify", Argument::None, Any),
    ("tirx.transform.RemoveNoOp", Argument::None, Any),
    ("s_tir.transform.RewriteUnsafeSelect", Argument::None, Any),
    ("tirx.transform.CommonSubexprElim", Argument::None, Any),
    ("tirx.transform.FP8ComputeLegalize", Text("float32"), Any),
    ("s_tir.transform.VerifyVTCMLimit", Argument::Target, Gpu),
    ("s_tir.transform.LowerVtcmAlloc", Argument::None, Gpu),
    ("tirx.transform.VerifyMemory", Argument::None, Any),
    ("tirx.transform.AnnotateEntryFunc", Argument::None, Any),
    ("s_tir.transform.ThreadSync", Text("shared"), Gpu),
    ("s_tir.transform.ThreadSync", Text("shared.dyn"), Gpu),
    ("s_tir.transform.ThreadSync", Text("warp"), Gpu),
    ("s_tir.transform.InferFragment", Argument::None, Gpu),
    ("s_tir.transform.LowerThreadAllreduce", Argument::None, Gpu),
    (
        "s_tir.transform.MergeSharedMemoryAllocations",
        Argument::None,
        Gpu,
    ),
    ("tirx.transform.SplitHostDevice", Argument::None, Gpu),
    ("tirx.transform.MakePackedAPI", Argument::None, Any),
    ("tirx.transform.FP8StorageLegalize", Argument::None, Any),
    ("tirx.transform.BF16StorageLegalize", Argument::None, Any),
    ("tirx.transform.LowerTVMBuiltin", Argument::None, Any),
    ("tirx.transform.LowerIntrin", Argument::None, Any),
];

/// Lowers `module` for `target`.
pub(crate) fn lower(
    module: &IrModule,
    target: &Target,
    asserts: Asserts,
    pipeline: Pipeline,
) -> Result<IrModule> {
    let mut handle = module.handle.clone();
    for &(name, argument, changes) in PASSES {
        if changes == Gpu && pipeline == Pipeline::Cpu {
            continue;
        }
        let pass = match argument {
            Argument::None => make(name, &[]),
            Bool(b) => make(name, &[&boolean(b)]),
            Int(i) => make(name, &[&int(i)]),
            Text(s) => make(name, &[&text(s)]),
            Argument::Target => make(name, &[&target.handle]),
        };
        handle = apply(pass, &handle)?;
    }
    if asserts == Asserts::Dropped {
        handle = apply(make("tirx.transform.SkipAssert", &[]), &handle)?;
    }
    Ok(IrModule { handle })
}

fn apply(pass: Result<Obj>, module: &Obj) -> Result<Obj> {
    run(&pass?, module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrimFunc, Schedule};

    #[test]
    fn leaving_out_what_only_gpus_need_changes_nothing() {
        let target = Target::llvm("x86-64-v3", 2).unwrap();
        for name in ["conv2d_relu", "vector_add"] {
            let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let plain = PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
            let schedule = Schedule::new(&plain, 1).unwrap();
            let block = schedule.block(if name == "vector_add" {
                "T_add"
            } else {
                "relu"
            });
            if let Ok(block) = block {
                let loops = schedule.loops(&block).unwrap();
                schedule.vectorize(&loops[loops.len() - 1]).unwrap();
            }
            let module = schedule.module().unwrap();
            let lowered = |p| {
                crate::ir::script(&lower(&module, &target, Asserts::Kept, p).unwrap().handle)
                    .unwrap()
            };
            assert_eq!(lowered(Pipeline::Cpu), lowered(Pipeline::Full), "{name}");
        }
    }
}
