//! The factors of a schedule that a sweep can vary, and the settings they take.

use serde::{Deserialize, Serialize};

/// A factor of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Factor {
    /// Values of a spatial axis in the register tile.
    Tile,
    /// Register tiles of a spatial axis in a cache tile.
    CacheTile,
    /// Values of a reduction axis in its inner loop.
    ReductionTile,
    /// Lanes of a vector.
    VectorLength,
    /// Vectors side by side in the register tile.
    VectorBlocks,
    /// Order of the outer spatial loops.
    LoopOrder,
    /// How spatial and reduction levels alternate.
    LevelOrder,
    /// Outer loops fused into the parallel one.
    Fuse,
    /// Pieces that the parallel loop is dealt out in (0: one an iteration).
    ParallelExtent,
    /// Steps unrolled.
    Unroll,
    /// Where the epilogue is computed.
    ComputeAt,
    /// Where a padding is filled.
    Padding,
    /// Where sums are kept while they grow.
    CacheWrite,
}

impl Factor {
    /// All factors, as sweeps name them.
    pub const ALL: [(Factor, &'static str); 13] = [
        (Factor::Tile, "tile"),
        (Factor::CacheTile, "cache-tile"),
        (Factor::ReductionTile, "reduction-tile"),
        (Factor::VectorLength, "vector-length"),
        (Factor::VectorBlocks, "vector-blocks"),
        (Factor::LoopOrder, "loop-order"),
        (Factor::LevelOrder, "level-order"),
        (Factor::Fuse, "fuse"),
        (Factor::ParallelExtent, "parallel-extent"),
        (Factor::Unroll, "unroll"),
        (Factor::ComputeAt, "compute-at"),
        (Factor::Padding, "padding"),
        (Factor::CacheWrite, "cache-write"),
    ];

    /// The factor called `name`.
    pub fn named(name: &str) -> Option<Factor> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(f, _)| *f)
    }

    /// Its name in sweeps.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(f, _)| *f == self)
            .map_or("", |(_, n)| n)
    }
}

/// A value of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactorValue {
    /// An extent or a count.
    Number(i64),
    /// One of a few words.
    Word(String),
    /// Axes, outermost first.
    Order(Vec<String>),
}

impl std::fmt::Display for FactorValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FactorValue::Number(n) => write!(f, "{n}"),
            FactorValue::Word(word) => f.write_str(word),
            FactorValue::Order(axes) => f.write_str(&axes.join(",")),
        }
    }
}
