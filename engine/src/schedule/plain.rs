//! The program that outputs are checked against: an operator in plain loops, apart from every template.
//!
//! It is what TVM's operator library wrote, with two changes that leave each element's sum in its order. The innermost
//! spatial loop of a reduction goes inside the reduction, where LLVM can vectorise it. Outer loops may run in parallel.
//! As the library has them, the loops take ten times as long, and most of a short run was spent on its checks.

use tvm_bridge::inspect::IterKind;
use tvm_bridge::schedule::{Block, Loop};
use tvm_bridge::{PrimFunc, Result, Schedule};

/// The threads that run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Only the caller's thread, for example when several kernels are built at once.
    OnThisThread,
    /// The threads of TVM's pool.
    InParallel,
}

/// The function in plain loops; blocks that do not fit stay as they are.
///
/// # Errors
/// Fails if TVM cannot start a schedule of the function at all.
pub fn plain_loops(function: &PrimFunc, run: Run) -> Result<Schedule> {
    let s = Schedule::new(function, 0)?;
    for block in s.blocks()? {
        // A primitive that is refused changes nothing.
        let _ = reorder(&s, &block, run);
    }
    Ok(s)
}

fn reorder(s: &Schedule, block: &Block, run: Run) -> Result<()> {
    let info = s.info(block)?;
    let loops = s.loops(block)?;
    if info.iters.len() != loops.len() || info.iters.iter().any(|i| i.kind == IterKind::Other) {
        return Ok(());
    }
    let of = |kind| -> Vec<&Loop> {
        let pairs = loops.iter().zip(&info.iters);
        pairs
            .filter(|(_, i)| i.kind == kind)
            .map(|(l, _)| l)
            .collect()
    };
    let (mut outer, reduction) = (of(IterKind::Spatial), of(IterKind::Reduction));
    let innermost = if reduction.is_empty() {
        None
    } else {
        outer.pop()
    };
    if let Some(innermost) = innermost {
        let order: Vec<&Loop> = reduction.iter().copied().chain([innermost]).collect();
        s.reorder(&order)?;
    }
    if run == Run::InParallel && !outer.is_empty() {
        let fused = s.fuse(&outer)?;
        s.parallel(&fused)?;
    }
    if let (Some(_), Some(first)) = (innermost, reduction.first()) {
        s.decompose_reduction(block, first)?;
    }
    Ok(())
}
