//! An operator's blocks, sorted by their role in a template, and functions that inline blocks into each other.
//!
//! On a GPU a padding costs nothing but a condition where it is read. So everything that only computes what others read
//! is written into its readers. What remains are reductions and outputs.

use tvm_bridge::inspect::{BlockInfo, IterKind};
use tvm_bridge::{Block, Result, Schedule};

use crate::schedule::{Part, unfit};

/// The blocks of an operator.
#[derive(Debug)]
pub(super) struct OperatorBlocks {
    /// Reductions in program order.
    pub reductions: Vec<Part>,
    /// Blocks without a reduction that nobody reads: outputs.
    pub outputs: Vec<Part>,
    /// Blocks without a reduction that others read.
    pub between: Vec<Part>,
}

impl OperatorBlocks {
    /// The operator as it is.
    pub fn of(s: &Schedule) -> Result<OperatorBlocks> {
        let mut parts = OperatorBlocks {
            reductions: Vec::new(),
            outputs: Vec::new(),
            between: Vec::new(),
        };
        for block in s.blocks()? {
            let part = Part::of(s, block)?;
            let group = if part.info.is_reduction() {
                &mut parts.reductions
            } else if s.consumers(&part.block)?.is_empty() {
                &mut parts.outputs
            } else {
                &mut parts.between
            };
            group.push(part);
        }
        Ok(parts)
    }

    /// The operator with everything written into its readers that can be. A block that cannot stays between.
    pub fn inlined(s: &Schedule) -> Result<OperatorBlocks> {
        for part in OperatorBlocks::of(s)?.between {
            // One that is read in a way that TVM cannot substitute stays as it is.
            let _ = s.compute_inline(&part.block);
        }
        OperatorBlocks::of(s)
    }

    /// The one reduction.
    ///
    /// # Errors
    /// Fails if there is none, or if there are several.
    pub fn anchor(&self) -> Result<&Part> {
        match &self.reductions[..] {
            [anchor] => Ok(anchor),
            _ => Err(unfit("not exactly one reduction")),
        }
    }
}

/// Inlines all producers of `block` into it, back to the operator's arguments.
///
/// # Errors
/// Fails if it reads a reduction's result, or a block that others read in another order.
pub(super) fn inline_producers(s: &Schedule, block: &Block) -> Result<()> {
    for producer in s.producers(block)? {
        inline_producers(s, &producer)?;
        s.compute_inline(&producer)?;
    }
    Ok(())
}

/// Writes everything after `block` into it, so that the block computes the operator's output.
///
/// # Errors
/// Fails if a consumer reads the result in another order, if there are several outputs, or if not every thread of a
/// block has a result.
pub(super) fn inline_consumers(s: &Schedule, block: &Block) -> Result<()> {
    let own = s.info(block)?.name;
    // Whether some threads have no result, and the number of results.
    let mut guarded = s.is_guarded(block)?;
    let mut left = results(&s.info(block)?);
    loop {
        let consumers = s.consumers(block)?;
        let consumer = match &consumers[..] {
            [] => return Ok(()),
            [one] => one,
            several => {
                // Blocks that others read are inlined into them, until one block reads everything.
                let mut inlined = false;
                for consumer in several {
                    if !s.consumers(consumer)?.is_empty() {
                        s.compute_inline(consumer)?;
                        inlined = true;
                    }
                }
                if inlined {
                    continue;
                }
                return Err(unfit("several outputs read the result"));
            }
        };
        let taken = results(&s.info(consumer)?);
        if taken < left {
            if guarded {
                // TVM would replace the existing condition by the consumer's bounds.
                return Err(unfit(
                    "a part is taken of results that not all threads have",
                ));
            }
            (guarded, left) = (true, taken);
        }
        for producer in s.producers(consumer)? {
            if s.info(&producer)?.name != own {
                inline_producers(s, &producer)?;
                s.compute_inline(&producer)?;
            }
        }
        s.reverse_compute_inline(consumer)?;
    }
}

/// Number of results of a block.
fn results(info: &BlockInfo) -> i64 {
    info.of_kind(IterKind::Spatial)
        .map(|i| info.iters[i].extent)
        .product()
}

/// Whether a block without a reduction computes fewer results than the block that it reads.
pub(super) fn takes_some(block: &BlockInfo, consumer: &BlockInfo) -> bool {
    !consumer.is_reduction() && results(consumer) < results(block)
}
