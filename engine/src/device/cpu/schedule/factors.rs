//! The factors of the templates, by their names in sweeps.

pub(super) use crate::schedule::ALGORITHM;
use crate::schedule::FactorInfo;

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
    FactorInfo::named(TILE, "values of a spatial axis in the register tile"),
    FactorInfo::named(
        CACHE_TILE,
        "register tiles of a spatial axis in a cache tile",
    ),
    FactorInfo::named(
        REDUCTION_TILE,
        "values of a reduction axis in its inner loop",
    ),
    FactorInfo::named(VECTOR_LENGTH, "lanes of a vector"),
    FactorInfo::named(VECTOR_BLOCKS, "vectors side by side in the register tile"),
    FactorInfo::named(LOOP_ORDER, "order of the outer spatial loops"),
    FactorInfo::named(LEVEL_ORDER, "how spatial and reduction levels alternate"),
    FactorInfo::named(FUSE, "outer loops fused into the parallel one"),
    FactorInfo::named(
        PARALLEL_EXTENT,
        "extent of the parallel loop (0: that of the fused loops)",
    ),
    FactorInfo::named(UNROLL, "steps unrolled"),
    FactorInfo::named(COMPUTE_AT, "where the epilogue is computed"),
    FactorInfo::named(PADDING, "where a padding is filled"),
    FactorInfo::named(CACHE_WRITE, "where sums are kept while they grow"),
    FactorInfo::named(
        ALGORITHM,
        "how a convolution is computed (vector-blocks beside it)",
    ),
];
