//! The factors of the templates, by their names in sweeps.

pub(super) use crate::schedule::ALGORITHM;
use crate::schedule::{Factor, FactorInfo};

/// Values of a spatial axis in the register tile.
pub(super) const TILE: &str = "tile";
/// Register tiles of a spatial axis in a cache tile.
pub(super) const CACHE_TILE: &str = "cache-tile";
/// Values of a reduction axis in its inner loop.
pub(super) const REDUCTION_TILE: &str = "reduction-tile";
/// Lanes of a vector.
pub(super) const VECTOR_LENGTH: &str = "vector-length";
/// Vectors side by side in the register tile.
pub(super) const VECTOR_BLOCKS: &str = "vector-blocks";
/// Order of the outer spatial loops.
pub(super) const LOOP_ORDER: &str = "loop-order";
/// How spatial and reduction levels alternate.
pub(super) const LEVEL_ORDER: &str = "level-order";
/// Outer loops fused into the parallel one.
pub(super) const FUSE: &str = "fuse";
/// Extent of the parallel loop (0: that of the fused loops).
pub(super) const PARALLEL_EXTENT: &str = "parallel-extent";
/// Number of steps that are unrolled.
pub(super) const UNROLL: &str = "unroll";
/// Where the epilogue is computed.
pub(super) const COMPUTE_AT: &str = "compute-at";
/// Where a padding is filled.
pub(super) const PADDING: &str = "padding";
/// Where sums are kept while they grow.
pub(super) const CACHE_WRITE: &str = "cache-write";

/// All factors, in the order in which they are listed.
pub(crate) const FACTORS: &[FactorInfo] = &[
    info(TILE, "values of a spatial axis in the register tile"),
    info(
        CACHE_TILE,
        "register tiles of a spatial axis in a cache tile",
    ),
    info(
        REDUCTION_TILE,
        "values of a reduction axis in its inner loop",
    ),
    info(VECTOR_LENGTH, "lanes of a vector"),
    info(VECTOR_BLOCKS, "vectors side by side in the register tile"),
    info(LOOP_ORDER, "order of the outer spatial loops"),
    info(LEVEL_ORDER, "how spatial and reduction levels alternate"),
    info(FUSE, "outer loops fused into the parallel one"),
    info(
        PARALLEL_EXTENT,
        "extent of the parallel loop (0: that of the fused loops)",
    ),
    info(UNROLL, "steps unrolled"),
    info(COMPUTE_AT, "where the epilogue is computed"),
    info(PADDING, "where a padding is filled"),
    info(CACHE_WRITE, "where sums are kept while they grow"),
    info(
        ALGORITHM,
        "how a convolution is computed (vector-blocks beside it)",
    ),
];

const fn info(name: &'static str, about: &'static str) -> FactorInfo {
    FactorInfo {
        factor: Factor::named(name),
        about,
    }
}
