//! The factors of the templates, by their names in sweeps.

use crate::schedule::{Factor, FactorInfo};

/// Results of a block of threads along an axis.
pub(super) const BLOCK_TILE: &str = "block-tile";
/// Results of a thread along an axis.
pub(super) const THREAD_TILE: &str = "thread-tile";
/// Results of a warp along an axis, on tensor cores.
pub(super) const WARP_TILE: &str = "warp-tile";
/// Steps of the sum in shared memory at once.
pub(super) const REDUCTION_TILE: &str = "reduction-tile";
/// Elements loaded or stored at once.
pub(super) const VECTOR_WIDTH: &str = "vector-width";
/// Steps unrolled.
pub(super) const UNROLL: &str = "unroll";
/// Tiles on their way at once.
pub(super) const STAGES: &str = "stages";
/// Blocks of threads that share each sum.
pub(super) const REDUCTION_SPLIT: &str = "reduction-split";
/// Threads of a block.
pub(super) const BLOCK_SIZE: &str = "block-size";
/// Results of a block whose threads share each sum.
pub(super) const RESULTS: &str = "results";

/// All factors, in the order in which they are listed.
pub(crate) const FACTORS: &[FactorInfo] = &[
    info(BLOCK_TILE, "results of a block of threads along an axis"),
    info(THREAD_TILE, "results of a thread along an axis"),
    info(
        WARP_TILE,
        "results of a warp along an axis, on tensor cores",
    ),
    info(REDUCTION_TILE, "steps of the sum in shared memory at once"),
    info(VECTOR_WIDTH, "elements loaded or stored at once"),
    info(UNROLL, "largest loop unrolled, in steps"),
    info(
        STAGES,
        "tiles in memory at once: 1 loads, then computes; from 3 on copies are asynchronous",
    ),
    info(REDUCTION_SPLIT, "blocks of threads that share each sum"),
    info(BLOCK_SIZE, "threads of a block"),
    info(RESULTS, "results of a block whose threads share each sum"),
];

const fn info(name: &'static str, about: &'static str) -> FactorInfo {
    FactorInfo {
        factor: Factor::named(name),
        about,
    }
}
