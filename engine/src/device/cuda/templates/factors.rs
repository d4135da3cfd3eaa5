//! The factors of the templates, by their names in sweeps.

use crate::schedule::FactorInfo;

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
    FactorInfo::named(BLOCK_TILE, "results of a block of threads along an axis"),
    FactorInfo::named(THREAD_TILE, "results of a thread along an axis"),
    FactorInfo::named(
        WARP_TILE,
        "results of a warp along an axis, on tensor cores",
    ),
    FactorInfo::named(REDUCTION_TILE, "steps of the sum in shared memory at once"),
    FactorInfo::named(VECTOR_WIDTH, "elements loaded or stored at once"),
    FactorInfo::named(UNROLL, "largest loop unrolled, in steps"),
    FactorInfo::named(
        STAGES,
        "tiles in memory at once: 1 loads, then computes; from 3 on copies are asynchronous",
    ),
    FactorInfo::named(REDUCTION_SPLIT, "blocks of threads that share each sum"),
    FactorInfo::named(BLOCK_SIZE, "threads of a block"),
    FactorInfo::named(RESULTS, "results of a block whose threads share each sum"),
];
