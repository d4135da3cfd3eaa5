//! From a scheduled TensorIR module to the input of code generators: the host's part, and the device's if there is one.
//!
//! The passes are those of TVM's own pipeline for scheduled TensorIR (`tvm/s_tir/pipeline.py` of the wheel, 0.27), in
//! its order with one exception: loops are partitioned before types are narrowed. The pass for CUDA of the option
//! `tirx.use_async_copy` always runs. The target's device decides which passes run. Passes that can only change GPU
//! code are left out for a CPU, and a test checks that this gives the same program.

use crate::bfloat16::Guard;
use crate::call::{Obj, boolean, field, int, text, value};
use crate::device::DeviceKind;
use crate::error::{Error, Result};
use crate::fragments::has_fragments;
use crate::inspect::attribute;
use crate::ir::IrModule;
use crate::pass::{Context, make, run, run_all};
use crate::stack::keep_small_buffers;
use crate::target::Target;
use crate::unroll::leave_to_compiler;

/// Whether compiled functions check the shapes and types of their arguments at every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asserts {
    /// Functions check their arguments.
    Kept,
    /// Functions do not check: a call costs less, and a wrong argument is undefined behaviour. Callers check arguments once.
    Dropped,
}

/// The passes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipeline {
    /// The passes for a CPU: loops stay loops, and there is one module.
    Cpu,
    /// Loops are bound to threads, and kernels are split from the code that starts them.
    Gpu,
}

impl Pipeline {
    fn of(device: DeviceKind) -> Pipeline {
        if device.is_host() {
            Pipeline::Cpu
        } else {
            Pipeline::Gpu
        }
    }
}

/// A lowered module.
#[derive(Debug)]
pub(crate) struct HostAndDevice {
    /// The part that is called: the whole program on a CPU, else the code that starts kernels.
    pub host: IrModule,
    /// The kernels, where they run on another device than the host.
    pub device: Option<IrModule>,
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

/// The programs that a pass can change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Any,
    Gpu,
}

/// The pass that lets buffers share memory whose lives do not overlap.
const SHARING: &str = "tirx.transform.StorageRewrite";
/// The option that leaves this to `MergeSharedMemoryAllocations`, which alone lets buffers of several types share memory.
const SHARING_LATER: &str = "tirx.merge_static_smem";

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
    // This comes before types are narrowed: narrowing renames loops with 64-bit extents, but not the names in their
    // hints.
    ("s_tir.transform.LoopPartition", Argument::None, Any),
    ("tirx.transform.NarrowDataType", Int(32), Any),
    ("tirx.transform.VectorizeLoop", Bool(true), Any),
    ("s_tir.transform.InjectVirtualThread", Argument::None, Gpu),
    ("s_tir.transform.InjectDoubleBuffer", Argument::None, Gpu),
    (SHARING, Argument::None, Any),
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
    ("s_tir.transform.InjectPTXAsyncCopy", Argument::None, Gpu),
    (
        "s_tir.transform.MergeSharedMemoryAllocations",
        Argument::None,
        Gpu,
    ),
    ("tirx.transform.SplitHostDevice", Argument::None, Gpu),
    ("tirx.transform.MakePackedAPI", Argument::None, Any),
    ("tirx.transform.FP8StorageLegalize", Argument::None, Any),
    ("tirx.transform.BF16StorageLegalize", Argument::None, Any),
];

/// Last passes over the host's part.
const HOST_PASSES: [&str; 2] = [
    "tirx.transform.LowerTVMBuiltin",
    "tirx.transform.LowerIntrin",
];
/// Last passes over the device's part.
const DEVICE_PASSES: [&str; 3] = [
    "tirx.transform.LowerWarpMemory",
    "tirx.transform.StmtSimplify",
    "tirx.transform.LowerIntrin",
];
/// `CallingConv::kDeviceKernelLaunch` of TVM: how a kernel of a device is called.
const DEVICE_KERNEL: i64 = 2;

/// Lowers `module` for `target`.
pub(crate) fn lower(module: &IrModule, target: &Target, asserts: Asserts) -> Result<HostAndDevice> {
    let device = target.device_kind();
    if device == DeviceKind::Cuda {
        // Passes ask for functions that only CUDA's code generator registers.
        crate::cuda::prepare()?;
    }
    let lowered = |module: &IrModule| lower_through(Pipeline::of(device), module, target, asserts);
    let shorter = match device {
        DeviceKind::Cuda => leave_to_compiler(module)?,
        _ => None,
    };
    // Some pass may bound the addresses of vectors in written-out loops alone.
    let parts = match shorter.and_then(|shorter| lowered(&shorter).ok()) {
        Some(parts) => parts,
        None => lowered(module)?,
    };
    if !device.is_host() && parts.device.is_none() && needs_device(module)? {
        let reason = format!("no loop is bound to threads, so nothing would run on {device}");
        return Err(Error::unexpected("lower", reason));
    }
    Ok(parts)
}

/// Whether any function is meant for the target's device. Functions for the host alone, which compute shapes, name it as
/// their target.
fn needs_device(module: &IrModule) -> Result<bool> {
    for (_, function) in module.entries()? {
        if attribute(&function, "target")?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lower_through(
    pipeline: Pipeline,
    module: &IrModule,
    target: &Target,
    asserts: Asserts,
) -> Result<HostAndDevice> {
    let mut handle = module.handle.clone();
    let _kept = Guard::for_module(module)?;
    // Results of single precision reuse the memory of operands of half precision after their last use.
    let apart = pipeline == Pipeline::Gpu && has_fragments(module, |_| true)?;
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
        let _context = (apart && name == SHARING)
            .then(|| Context::enter(&[(SHARING_LATER, true)]))
            .transpose()?;
        handle = run(&pass?, &handle)?;
        if pipeline == Pipeline::Cpu && name == SHARING {
            let shared = IrModule { handle };
            handle = keep_small_buffers(&shared)?.unwrap_or(shared).handle;
        }
    }
    let lowered = IrModule { handle };
    let (host, device) = match pipeline {
        Pipeline::Cpu => (lowered, None),
        Pipeline::Gpu => split(&lowered)?,
    };
    let mut host = run_all(&HOST_PASSES, host.handle)?;
    if asserts == Asserts::Dropped {
        host = run_all(&["tirx.transform.SkipAssert"], host)?;
    }
    let finish = |device: IrModule| run_all(&DEVICE_PASSES, device.handle);
    Ok(HostAndDevice {
        host: IrModule { handle: host },
        device: device
            .map(finish)
            .transpose()?
            .map(|handle| IrModule { handle }),
    })
}

/// The host's functions and, where there are any, the device's kernels.
fn split(module: &IrModule) -> Result<(IrModule, Option<IrModule>)> {
    let mut host = Vec::new();
    let mut device = Vec::new();
    for (name, function) in module.entries()? {
        if calling_convention(&function)? == Some(DEVICE_KERNEL) {
            device.push((name, function));
        } else {
            host.push((name, function));
        }
    }
    let kernels = (!device.is_empty()).then(|| IrModule::of_functions(&device));
    Ok((IrModule::of_functions(&host)?, kernels.transpose()?))
}

fn calling_convention(function: &Obj) -> Result<Option<i64>> {
    const KEY: &str = "calling_conv";
    let Some(found) = attribute(function, KEY)? else {
        return Ok(None);
    };
    match found.0.try_as::<i64>() {
        Some(plain) => Ok(Some(plain)),
        None => value(KEY, field(&found, "value")?).map(Some),
    }
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
                let parts = lower_through(p, &module, &target, Asserts::Kept).unwrap();
                assert!(parts.device.is_none(), "{name} has no kernel of a device");
                crate::ir::script(&parts.host.handle).unwrap()
            };
            assert_eq!(lowered(Pipeline::Cpu), lowered(Pipeline::Gpu), "{name}");
        }
    }

    #[test]
    fn a_parted_loop_of_64_bit_extents_has_vectors_without_a_condition() {
        let path = format!(
            "{}/tests/fixtures/vector_add.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let plain = PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
        let schedule = Schedule::new(&plain, 1).unwrap();
        let block = schedule.block("T_add").unwrap();
        // 64 elements: two vectors of 24, and 16 elements one by one.
        let split = schedule
            .split(&schedule.loops(&block).unwrap()[0], &[None, Some(24)])
            .unwrap();
        schedule.part_loop(&split[0]).unwrap();
        schedule.vectorize(&split[1]).unwrap();
        let target = Target::llvm("x86-64-v3", 2).unwrap();
        let parts = lower(&schedule.module().unwrap(), &target, Asserts::Dropped).unwrap();
        let script = crate::ir::script(&parts.host.handle).unwrap();
        assert!(script.contains(", 1, 24)]"), "no vector of 24: {script}");
    }
}
