//! Loading the next tiles of a product while this one is multiplied.

use tvm_bridge::schedule::Loop;
use tvm_bridge::{Block, Result, Schedule};

use super::limits::SYNCHRONOUS_STAGES;

const STAGE: &str = "software_pipeline_stage";
const ORDER: &str = "software_pipeline_order";
const ASYNCHRONOUS: &str = "software_pipeline_async_stages";

/// Memory scope of the tiles. More than two stages need more shared memory than a kernel has without opting in.
pub(super) fn scope(stages: i64) -> &'static str {
    match is_asynchronous(stages) {
        true => "shared.dyn",
        false => "shared",
    }
}

/// Whether tiles are copied without passing through registers.
pub(super) fn is_asynchronous(stages: i64) -> bool {
    stages > SYNCHRONOUS_STAGES
}

/// Makes the iterations of `l`, the copies of two tiles and their products, a pipeline of this many stages.
pub(super) fn pipeline(s: &Schedule, l: &Loop, copies: &[Block], stages: i64) -> Result<()> {
    match stages {
        ..=1 => Ok(()),
        SYNCHRONOUS_STAGES => through_registers(s, l, copies),
        _ => asynchronous(s, l, stages),
    }
}

/// Loads the tiles of the next iteration into registers while this one's are multiplied, then stores them beside these.
fn through_registers(s: &Schedule, l: &Loop, copies: &[Block]) -> Result<()> {
    for copy in copies {
        s.annotate_block(copy, "tirx.manifest_shared_memory_local_stage", 1)?;
        s.annotate_block(copy, "double_buffer_scope", 0)?;
    }
    // Statements of the loop: load and store of one operand, of the other, and the products.
    s.annotate_loop_with_list(l, STAGE, &[0, 0, 0, 0, 1])?;
    s.annotate_loop_with_list(l, ORDER, &[0, 3, 1, 4, 2])
}

/// Keeps the tiles of all iterations but one on their way.
fn asynchronous(s: &Schedule, l: &Loop, stages: i64) -> Result<()> {
    // Statements of the loop: the copies of both operands, and the products.
    s.annotate_loop_with_list(l, STAGE, &[0, 0, stages - 1])?;
    s.annotate_loop_with_list(l, ORDER, &[0, 1, 2])?;
    s.annotate_loop_with_list(l, ASYNCHRONOUS, &[0])
}
