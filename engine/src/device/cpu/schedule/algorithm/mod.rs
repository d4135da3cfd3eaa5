//! Other algorithms for convolutions: fewer multiplications ([`winograd`]), one product of matrices ([`im2col`]), or pixels
//! in the place of output channels ([`pixels`]).
//!
//! [`pixels`] is a schedule of the operator's own program. The others replace the program before it is scheduled
//! ([`rewritten`]); its parameters and its element-wise tail stay. The stages of an algorithm are written as the loops
//! that run. So [`scheduled`] has only to schedule the copy in front of them and the tail after them. The weights are
//! taken as the direct convolution has them, packed for vectors of output channels. So an algorithm's work on them is
//! part of its time.

mod im2col;
mod pixels;
mod product;
mod winograd;

use opdata::contract::knobs::{Algorithm, ConvolutionKnobs};
use opmodels::tile::{PixelTile, VectorUnit, greatest_divisor};
use serde::{Deserialize, Serialize};
use tvm_bridge::inspect::{Access, IterKind};
use tvm_bridge::nest::{Buffer, Index, LoopKind, Stmt};
use tvm_bridge::{BlockInfo, DType, PrimFunc, Result, Schedule};

use super::prepare::Part;
use super::spatial;
use crate::schedule::unfit;

/// Name of the block that copies the image into the form that the algorithm reads: the one that schedules transform.
const COPY: &str = "image";
/// Prefix of the names of the other stages' blocks.
const STAGE: &str = "stage_";

/// A convolution in two dimensions without groups, its weights packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Convolution {
    /// Name of its block.
    block: String,
    batch: i64,
    channels: i64,
    /// Output channels in a vector, and number of such vectors.
    lanes: i64,
    vectors: i64,
    /// Heights and widths: of the input, the output, the window, its stride and its dilation.
    image: [i64; 2],
    output: [i64; 2],
    window: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    /// Places of the image and the weights among the block's reads.
    reads: [usize; 2],
}

impl Convolution {
    /// The convolution that a block is, if it is one that the algorithms know.
    pub fn of(info: &BlockInfo) -> Option<Convolution> {
        let kinds: Vec<IterKind> = info.iters.iter().map(|i| i.kind).collect();
        let (spatial, reduction) = kinds.split_at_checked(4)?;
        let all = |part: &[IterKind], kind| part.iter().all(|k| *k == kind);
        if kinds.len() != 7
            || !all(spatial, IterKind::Spatial)
            || !all(reduction, IterKind::Reduction)
        {
            return None;
        }
        let [written] = &info.writes[..] else {
            return None;
        };
        let plain = |access: &Access, dimension: usize, iter: usize| {
            access.indices.get(dimension).and_then(|i| i.plain()) == Some(iter)
        };
        if !(0..4).all(|i| plain(written, i, i)) || info.reads.len() != 2 {
            return None;
        }
        let image = info.reads.iter().position(|r| r.indices.len() == 4)?;
        let weights = info.reads.iter().position(|r| r.indices.len() == 5)?;
        let (of_image, of_weights) = (&info.reads[image], &info.reads[weights]);
        let is_f32 = |access: &Access| access.dtype == Some(DType::Float32);
        if ![written, of_image, of_weights].into_iter().all(is_f32)
            || !plain(of_image, 0, 0)
            || !plain(of_image, 1, 4)
            || !(1..4).all(|i| plain(of_weights, i, i + 3))
        {
            return None;
        }
        let lanes = of_weights.shape[4];
        let packed = of_weights.indices[0].quotient == Some((1, lanes))
            && of_weights.indices[4].terms == [(1, None)];
        if !packed || lanes < 2 || info.iters[1].extent % lanes != 0 {
            return None;
        }
        // `y × stride + ky × dilation`.
        let steps = |dimension: usize| -> Option<(i64, i64)> {
            let terms = &of_image.indices[dimension].terms;
            let factor = |iter| terms.iter().find(|t| t.0 == iter).and_then(|t| t.1);
            (terms.len() == 2).then_some(())?;
            Some((factor(dimension)?, factor(dimension + 3)?))
        };
        let ((stride_y, dilation_y), (stride_x, dilation_x)) = (steps(2)?, steps(3)?);
        let extent = |iter: usize| info.iters[iter].extent;
        Some(Convolution {
            block: info.name.clone(),
            batch: extent(0),
            channels: extent(4),
            lanes,
            vectors: extent(1) / lanes,
            image: [of_image.shape[2], of_image.shape[3]],
            output: [extent(2), extent(3)],
            window: [extent(5), extent(6)],
            stride: [stride_y, stride_x],
            dilation: [dilation_y, dilation_x],
            reads: [image, weights],
        })
    }

    /// The algorithms that can compute it, the direct one first.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let by_tiles = self.window == [3, 3] && self.stride == [1, 1] && self.dilation == [1, 1];
        let is_wide = self.window != [1, 1];
        let fits = |algorithm: &Algorithm| match algorithm {
            Algorithm::Direct => true,
            Algorithm::Winograd2 | Algorithm::Winograd4 => by_tiles,
            Algorithm::Im2col => is_wide,
            Algorithm::Pixels => self.is_pointwise(),
        };
        Algorithm::ALL.iter().copied().filter(fits).collect()
    }

    /// Whether each output reads one pixel of the image, and the pixels fill whole vectors.
    fn is_pointwise(&self) -> bool {
        /// Half a vector of AVX-512 reaches half of the peak; fewer lanes are not worth it.
        const FEWEST_LANES: i64 = 8;
        self.window == [1, 1]
            && self.stride == [1, 1]
            && self.image == self.output
            && self.pixels() % FEWEST_LANES == 0
    }

    /// Pixels of an output image.
    fn pixels(&self) -> i64 {
        self.output.iter().product()
    }

    /// The knobs of an algorithm with this many vectors of output channels side by side.
    pub fn knobs(&self, algorithm: Algorithm, blocks: i64, unit: VectorUnit) -> ConvolutionKnobs {
        if algorithm == Algorithm::Pixels {
            let (outputs, pixels) = (self.vectors * self.lanes, self.pixels());
            return pixel_knobs(PixelTile::with_blocks(blocks, outputs, pixels, unit));
        }
        let columns = match winograd::outputs(algorithm) {
            Some(outputs) => winograd::Tiles::of(self, outputs).count(),
            None => self.batch * self.output[0] * self.output[1],
        };
        let vector_blocks = greatest_divisor(self.vectors, blocks);
        ConvolutionKnobs {
            algorithm,
            columns: product::width(columns, vector_blocks * self.lanes, unit),
            vector_blocks,
        }
    }
}

/// The default schedule of a convolution of 1×1 windows over whole vectors of pixels. They fill the registers whatever
/// the number of channels, and the sums are stored in the output's order.
///
/// # Errors
/// Fails if the operator is not such a convolution.
pub(super) fn suggested(s: &Schedule, unit: VectorUnit) -> Result<ConvolutionKnobs> {
    pixels::schedule(s, unit, |of| {
        let outputs = of.vectors * of.lanes;
        let tile = PixelTile::suggested(of.channels, outputs, of.pixels(), unit);
        tile.map(pixel_knobs)
            .ok_or_else(|| unfit("vectors of pixels that are not whole"))
    })
}

fn pixel_knobs(tile: PixelTile) -> ConvolutionKnobs {
    ConvolutionKnobs {
        algorithm: Algorithm::Pixels,
        columns: tile.columns,
        vector_blocks: tile.vector_blocks,
    }
}

/// The convolution of an operator, if it has one that the algorithms know.
///
/// # Errors
/// Fails if TVM does.
pub(super) fn convolution(function: &PrimFunc) -> Result<Option<Convolution>> {
    let s = Schedule::new(function, 0)?;
    for block in s.blocks()? {
        let info = s.info(&block)?;
        if info.is_reduction() {
            return Ok(Convolution::of(&info));
        }
    }
    Ok(None)
}

/// The operator's program with another algorithm in place of its convolution, if the algorithm is not a schedule of it.
///
/// # Errors
/// Fails if the operator has no convolution that the algorithm computes, or the knobs do not fit it.
pub(super) fn rewritten(
    function: &PrimFunc,
    unit: VectorUnit,
    knobs: &ConvolutionKnobs,
) -> Result<Option<PrimFunc>> {
    if knobs.algorithm == Algorithm::Pixels {
        return Ok(None);
    }
    let of = convolution(function)?.ok_or_else(|| unfit("no convolution with packed weights"))?;
    if knobs.algorithm == Algorithm::Direct || !of.algorithms().contains(&knobs.algorithm) {
        return Err(unfit("an algorithm for another window or stride"));
    }
    if knobs.columns < 1 || knobs.vector_blocks < 1 || of.vectors % knobs.vector_blocks != 0 {
        return Err(unfit("a tile that does not divide the channels"));
    }
    let found = function.computation(&of.block)?;
    let read = |place: usize| found.reads.get(place).ok_or_else(|| unfit("an operand"));
    let buffers = Operands {
        image: read(of.reads[0])?,
        weights: read(of.reads[1])?,
        output: &found.written,
    };
    let stages = match winograd::outputs(knobs.algorithm) {
        Some(outputs) => winograd::stages(&of, outputs, unit, knobs, &buffers)?,
        None => im2col::stages(&of, knobs, &buffers)?,
    };
    let made = function.with_stages(&of.block, &stages.statements, &stages.between)?;
    Ok(Some(made))
}

/// Schedules the blocks that are not written out as statements: the copy of the image with its padding, and the tail.
///
/// # Errors
/// Fails if there are other blocks around the convolution.
pub(super) fn scheduled(s: &Schedule, unit: VectorUnit, knobs: &ConvolutionKnobs) -> Result<()> {
    if knobs.algorithm == Algorithm::Pixels {
        return pixels::schedule(s, unit, |_| Ok(*knobs)).map(drop);
    }
    let mut before_copy = true;
    for block in s.blocks()? {
        let info = s.info(&block)?;
        if info.name == COPY {
            before_copy = false;
            let mut loops = s.loops(&block)?;
            // Rows stay loops, which LLVM vectorises.
            loops.pop();
            s.parallel(&s.fuse(&loops.iter().collect::<Vec<_>>())?)?;
        } else if info.name.starts_with(STAGE) {
        } else if before_copy || !s.consumers(&block)?.is_empty() {
            s.compute_inline(&block)?;
        } else {
            let info = s.info(&block)?;
            spatial::nest(s, &Part { block, info }, unit)?;
        }
    }
    Ok(())
}

/// The buffers that a convolution reads and writes.
struct Operands<'a> {
    image: &'a Buffer,
    weights: &'a Buffer,
    output: &'a Buffer,
}

/// An algorithm's stages, and the buffers between them.
struct Stages {
    statements: Vec<Stmt>,
    between: Vec<Buffer>,
}

fn constant(value: i64) -> Result<Index> {
    Index::constant(value)
}

/// A loop over constants.
fn each(kind: LoopKind, extent: i64, body: impl FnOnce(&Index) -> Result<Stmt>) -> Result<Stmt> {
    Stmt::repeat("i", kind, &constant(extent)?, body)
}

/// Buffers of one vector each, which LLVM can hold in registers.
fn vectors(name: &str, count: i64, lanes: i64) -> Result<Vec<Buffer>> {
    (0..count)
        .map(|place| Buffer::new(&format!("{name}_{place}"), &[lanes]))
        .collect()
}

/// Statement by statement over the lanes of a vector.
fn vector(lanes: i64, body: impl FnOnce(&Index) -> Result<Stmt>) -> Result<Stmt> {
    Stmt::repeat("lane", LoopKind::Vectorized, &constant(lanes)?, body)
}
