//! Bringing an operator's blocks into the form that templates expect.
//!
//! Producers are written into their consumers, and the element-wise tail is collapsed into one block. What remains is
//! distinguished: paddings, the reduction that does the work, and the tail after it.

use tvm_bridge::{Block, Result, Schedule};

pub(super) use crate::schedule::Part;

/// The blocks left after inlining.
#[derive(Debug)]
pub(super) struct Parts {
    /// Copies into a padded buffer, which stay stages of their own.
    pub paddings: Vec<Part>,
    /// Reductions in program order.
    pub reductions: Vec<Part>,
    /// The spatial block that writes the operator's output, if a reduction does not do so itself.
    pub tail: Option<Part>,
}

/// Inlines what can be inlined and sorts the rest.
pub(super) fn prepare(s: &Schedule) -> Result<Parts> {
    let mut parts = Parts {
        paddings: Vec::new(),
        reductions: Vec::new(),
        tail: None,
    };
    for block in s.blocks()? {
        let info = s.info(&block)?;
        if info.is_reduction() {
            parts.reductions.push(Part { block, info });
        } else if s.consumers(&block)?.is_empty() {
            // The last output wins: an operator with several writes them in program order.
            parts.tail = Some(Part { block, info });
        } else if is_padding(s, &block)? {
            parts.paddings.push(Part { block, info });
        } else {
            s.compute_inline(&block)?;
        }
    }
    // Inlining changed what the remaining blocks read.
    for part in parts.reductions.iter_mut().chain(&mut parts.tail) {
        part.info = s.info(&part.block)?;
    }
    Ok(parts)
}

/// Whether a spatial block is a padding that can be partitioned into filling and copying.
pub(super) fn is_padding(s: &Schedule, block: &Block) -> Result<bool> {
    match s.loops(block)?.first() {
        Some(outermost) => s.can_decompose_padding(block, outermost),
        None => Ok(false),
    }
}
