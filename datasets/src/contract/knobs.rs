//! A schedule's template and knobs, as the column `schedule_knobs` holds them for the collector's own schedules:
//! `{"template": "contraction", …}`. Rows of other tools have knobs of their own tool there.
//!
//! The version of the format is that of the rows (`schema_version`). A knob that older rows lack has the value that was the
//! only one at that time.

use serde::{Deserialize, Serialize};

/// The knobs of a reduction by dot products of bytes: 16 output channels in the lanes of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DotKnobs {
    /// Vectors of channels in the register tile.
    pub vectors: i64,
    /// Values of another axis in it.
    pub rows: i64,
}

/// The knobs of a convolution by another algorithm than the direct one: its products are of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvolutionKnobs {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Columns of a product (outputs, or tiles of them) in the register tile; output channels, where vectors are of pixels.
    pub columns: i64,
    /// Vectors of output channels, or of pixels, in it.
    pub vector_blocks: i64,
}

/// The knobs of a register-tiled reduction.
///
/// Every spatial axis runs on three levels: outer loops, loops over a cache tile, and the register tile, which is
/// unrolled and vectorised. A reduction axis runs on two. Extents not named are 1 (tiles) or the whole axis
/// (reductions).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractionKnobs {
    /// Name of the axis whose values are the lanes of vectors. `None` if nothing is contiguous.
    pub vector_axis: Option<String>,
    /// Values of that axis in one vector.
    pub vector_length: i64,
    /// Vectors of that axis in the register tile.
    pub vector_blocks: i64,
    /// Values in the register tile along the other spatial axes, by axis name.
    pub tile: Vec<(String, i64)>,
    /// Register tiles in a cache tile, by axis name.
    #[serde(default)]
    pub cache_tile: Vec<(String, i64)>,
    /// Values of a reduction axis in its inner loop, by axis name.
    #[serde(default)]
    pub reduction_tile: Vec<(String, i64)>,
    /// Spatial axes from the outermost loop to the innermost.
    pub loop_order: Vec<String>,
    /// How the levels of spatial and reduction loops alternate.
    #[serde(default)]
    pub level_order: LevelOrder,
    /// Number of outer loops fused into the parallel one.
    pub fused_outer: usize,
    /// Number of chunks of the parallel loop. `None` for one chunk an iteration of the fused loops.
    #[serde(default)]
    pub parallel_extent: Option<i64>,
    /// Steps of the innermost reduction loops that are unrolled (0: none).
    #[serde(default)]
    pub unroll: i64,
    /// Where the element-wise tail, or the copy out of the accumulators, is computed.
    #[serde(default)]
    pub epilogue: Epilogue,
    /// Where a padding of the operand is filled.
    #[serde(default)]
    pub padding: Padding,
    /// Where sums are kept while they grow.
    #[serde(default)]
    pub cache_write: CacheWrite,
}

impl ContractionKnobs {
    /// Values of an axis in the register tile.
    pub fn tile_of(&self, axis: &str) -> i64 {
        if self.vector_axis.as_deref() == Some(axis) {
            return self.vector_blocks * self.vector_length;
        }
        named(&self.tile, axis).unwrap_or(1)
    }

    /// Register tiles of an axis in a cache tile.
    pub fn cache_tile_of(&self, axis: &str) -> i64 {
        named(&self.cache_tile, axis).unwrap_or(1)
    }

    /// Values of a reduction axis of `extent` in its inner loop.
    pub fn reduction_tile_of(&self, axis: &str, extent: i64) -> i64 {
        named(&self.reduction_tile, axis).unwrap_or(extent)
    }
}

fn named(values: &[(String, i64)], name: &str) -> Option<i64> {
    values.iter().find(|(n, _)| n == name).map(|v| v.1)
}

/// A knob with a few named settings.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All settings.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its name in sweeps and in the dataset.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// How the levels of loops alternate, outermost first; `S` for spatial loops, `R` for reduction loops.
    LevelOrder {
        /// Outer, cache tile, reduction, register tile (`SSRRS`): a tile's sums are finished before the next begins.
        #[default]
        TilesOutside = "tiles_outside",
        /// Outer, outer reduction, cache tile, inner reduction, register tile (`SRSRS`): a block of the reduction is
        /// used for all tiles of a cache tile.
        ReductionBetween = "reduction_between",
    }
}

words! {
    /// Where the tail is computed.
    Epilogue {
        /// The tail is computed on each finished register tile (or cache tile, where the reduction is between the levels).
        #[default]
        Tile = "tile",
        /// The tail is computed on each piece of the parallel loop.
        Outer = "outer",
        /// The tail has loops of its own, after all sums.
        Root = "root",
    }
}

words! {
    /// Where a padding is filled.
    Padding {
        /// The padding has loops of its own before the operator.
        #[default]
        Root = "root",
        /// Piece by piece, inside the parallel loop.
        Near = "near",
        /// Nowhere: the operand is read under a condition.
        Inline = "inline",
    }
}

words! {
    /// Where sums are kept while they grow.
    CacheWrite {
        /// Sums are in a buffer of the tile's size, for LLVM to put into registers.
        #[default]
        Local = "local",
        /// The sums are kept in the output itself.
        None = "none",
    }
}

words! {
    /// How a convolution is computed.
    Algorithm {
        /// Window by window.
        #[default]
        Direct = "direct",
        /// Winograd's F(2×2, 3×3): tiles of 2×2 outputs, 2.25 times fewer multiplications.
        Winograd2 = "winograd2",
        /// Winograd's F(4×4, 3×3): tiles of 4×4 outputs, 4 times fewer multiplications.
        Winograd4 = "winograd4",
        /// One product of matrices, the windows copied beside each other before.
        Im2col = "im2col",
        /// Pixel by pixel (1×1 windows), vectors along the pixels of all rows instead of the output channels.
        Pixels = "pixels",
    }
}

/// The knobs of an operator that works row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsKnobs {
    /// Maximum lanes of a vectorised loop; each loop uses the largest number of them that divides it.
    pub vector_length: i64,
    /// Number of chunks of the parallel loop. `None` for one chunk a row.
    #[serde(default)]
    pub parallel_extent: Option<i64>,
}

/// The knobs of a reduction of a whole tensor to one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialKnobs {
    /// Results that are computed side by side in vector registers; divides the tensor's elements.
    pub vector_length: i64,
    /// Pieces of the tensor that are reduced in parallel.
    pub parallel_extent: i64,
}

/// The knobs of an operator without a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpatialKnobs {
    /// Lanes of the vectorised loop (1: not vectorised).
    pub vector_length: i64,
    /// Vectors that one step of the innermost loop computes (1: not unrolled).
    #[serde(default = "one")]
    pub unroll: i64,
    /// Number of chunks of the parallel loop. `None` for one chunk a step.
    #[serde(default)]
    pub parallel_extent: Option<i64>,
}

fn one() -> i64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back<K: Serialize + serde::de::DeserializeOwned>(text: &str) {
        let knobs: K = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&knobs).unwrap(), text);
    }

    #[test]
    fn knobs_of_older_rows_are_read_and_today_s_read_back() {
        let old = r#"{"template":"contraction","vector_axis":"oc","vector_length":16,"vector_blocks":2,"tile":[["xx",8]],"loop_order":["n","oc","xx"],"fused_outer":2}"#;
        let knobs: ContractionKnobs = serde_json::from_str(old).unwrap();
        assert_eq!((knobs.epilogue, knobs.unroll), (Epilogue::Tile, 0));
        let today = serde_json::to_string(&knobs).unwrap();
        assert_eq!(
            serde_json::from_str::<ContractionKnobs>(&today).unwrap(),
            knobs
        );
        read_back::<RowsKnobs>(r#"{"vector_length":16,"parallel_extent":null}"#);
        read_back::<PartialKnobs>(r#"{"vector_length":64,"parallel_extent":4}"#);
        read_back::<SpatialKnobs>(r#"{"vector_length":16,"unroll":1,"parallel_extent":4}"#);
    }
}
