//! What a GPU allows a kernel, as far as templates ask.

use serde_json::Value;

/// Most threads of a block, on every GPU that TVM's CUDA code runs on.
pub(super) const MAX_THREADS: i64 = 1024;

/// What default knobs are chosen for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits;

impl Limits {
    /// For the GPUs that a target's dictionary is for.
    pub fn of(_dictionary: &Value) -> Limits {
        Limits
    }
}
