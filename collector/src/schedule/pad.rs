//! Paddings: a fill and a copy, both vectorised and parallel, in place of a loop full of conditions.

use tvm_bridge::{Block, Result, Schedule};

use super::lanes::vector_length;
use super::prepare::Part;
use super::{VectorUnit, unfit};

/// Parts a padding into two vectorised nests.
pub(super) fn schedule(s: &Schedule, padding: &Part, unit: VectorUnit) -> Result<()> {
    let loops = s.loops(&padding.block)?;
    let outermost = loops
        .first()
        .ok_or_else(|| unfit("a padding without loops"))?;
    let fill = s.decompose_padding(&padding.block, outermost)?;
    copy_nest(s, &fill, unit)?;
    copy_nest(s, &padding.block, unit)
}

/// Parallel over all but the innermost loop, which becomes vectors.
fn copy_nest(s: &Schedule, block: &Block, unit: VectorUnit) -> Result<()> {
    let mut loops = s.loops(block)?;
    let Some(innermost) = loops.pop() else {
        return Ok(());
    };
    let length = vector_length(s.extent(&innermost)?, unit.lanes());
    let inner = s.split(&innermost, &[None, Some(length)])?;
    s.vectorize(&inner[1])?;
    // Rows stay loops of their own: fused into one, the index arithmetic would cost more than the copy.
    let channels = loops.len().saturating_sub(1).max(1).min(loops.len());
    if channels > 0 {
        let outer = s.fuse(&loops[..channels].iter().collect::<Vec<_>>())?;
        s.parallel(&outer)?;
    }
    Ok(())
}
