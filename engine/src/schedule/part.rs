//! A block of a schedule with its description.

use tvm_bridge::{Block, BlockInfo, Result, Schedule};

/// A block with its description.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub block: Block,
    pub info: BlockInfo,
}

impl Part {
    /// The block as it is now.
    pub fn of(s: &Schedule, block: Block) -> Result<Part> {
        let info = s.info(&block)?;
        Ok(Part { block, info })
    }
}
