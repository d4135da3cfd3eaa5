//! What a GPU surely refuses of a schedule that MetaSchedule drew, told from its loops alone.
//!
//! MetaSchedule's last postprocessor lowers a schedule to see what it takes of a block, after others have rewritten it:
//! most of what a refused sample costs. Two limits can be told before. Threads are the loops bound to them; tiles in shared
//! memory are copied by the blocks that its rule marks, each in one loop over the tile's elements. What passes here can
//! still be refused there.

use serde_json::Value;

use crate::call::{Obj, elements, field, value};
use crate::error::Result;
use crate::inspect::{annotation, constant, string};
use crate::ir::type_key;
use crate::schedule::Schedule;

/// What a block of threads may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockLimits {
    threads: i64,
    shared_bytes: i64,
}

/// What is known at a place of the program.
#[derive(Clone, Copy)]
struct Place {
    /// Threads along the axis that MetaSchedule binds.
    threads: i64,
    /// Extent of the loop directly around.
    innermost: i64,
}

/// The mark of a block that copies a tile into shared memory.
const COPY: &str = "meta_schedule.cooperative_fetch";
/// The marks of a block that bound the threads around it.
const FEWEST: &str = "meta_schedule.thread_extent_low_inclusive";
pub(crate) const MOST_THREADS: &str = "meta_schedule.thread_extent_high_inclusive";

impl BlockLimits {
    /// Those of a target's dictionary; none where it names none.
    pub fn of(target: &Value) -> Option<BlockLimits> {
        Some(BlockLimits {
            threads: target["max_threads_per_block"].as_i64()?,
            shared_bytes: target["max_shared_memory_per_block"].as_i64()?,
        })
    }

    /// Whether a schedule exceeds a limit for certain; its postprocessors have not run.
    ///
    /// # Errors
    /// TVM's.
    pub fn refuse(self, schedule: &Schedule) -> Result<bool> {
        let body = field(&schedule.function()?.root_block()?, "body")?;
        let kernels = match type_key(&body) {
            Some("tirx.SeqStmt") => elements(&field(&body, "seq")?)?,
            _ => vec![body],
        };
        let outside = Place {
            threads: 1,
            innermost: 1,
        };
        for kernel in kernels {
            let mut shared_bytes = 0;
            if self.walk(&kernel, outside, &mut shared_bytes)? || shared_bytes > self.shared_bytes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds up the shared memory of a statement; whether its threads are too many or too few.
    fn walk(self, statement: &Obj, at: Place, shared_bytes: &mut i64) -> Result<bool> {
        match type_key(statement) {
            Some("tirx.SeqStmt") => {
                for part in elements(&field(statement, "seq")?)? {
                    if self.walk(&part, at, shared_bytes)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Some("tirx.For") => {
                let extent = constant(&field(statement, "extent")?).unwrap_or(1);
                let binding = field(statement, "thread_binding")?;
                let axis = field(&binding, "thread_tag").and_then(|tag| string(&tag));
                let bound = axis.is_ok_and(|axis| axis == "threadIdx.x");
                let inside = Place {
                    threads: if bound {
                        at.threads * extent
                    } else {
                        at.threads
                    },
                    innermost: extent,
                };
                if inside.threads > self.threads {
                    return Ok(true);
                }
                self.walk(&field(statement, "body")?, inside, shared_bytes)
            }
            Some("s_tir.SBlockRealize") => {
                let block = field(statement, "block")?;
                let annotations = field(&block, "annotations")?;
                if annotation(&annotations, COPY)?.is_some() {
                    *shared_bytes += at.innermost * element_bytes(&block)?;
                }
                let fewest = annotation(&annotations, FEWEST)?;
                let most = annotation(&annotations, MOST_THREADS)?;
                let outside = fewest.is_some_and(|fewest| at.threads < fewest)
                    || most.is_some_and(|most| at.threads > most);
                Ok(outside || self.walk(&field(&block, "body")?, at, shared_bytes)?)
            }
            _ => Ok(false),
        }
    }
}

/// Bytes of an element of what a block writes; none are counted where it cannot be told.
fn element_bytes(block: &Obj) -> Result<i64> {
    let writes = elements(&field(block, "writes")?)?;
    let Some(written) = writes.first() else {
        return Ok(0);
    };
    let buffer = field(&field(written, "source")?, "ty")?;
    let dtype = field(&field(&buffer, "dtype")?, "dtype")?;
    let dtype: tvm_ffi::DLDataType = value("PrimType.dtype", dtype)?;
    Ok(i64::from(dtype.bits) / 8)
}
