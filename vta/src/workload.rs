//! The computation: a packed convolution. A dense layer is a 1×1 convolution whose rows are the image's rows.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::profile::Hardware;

/// Maximum number of elements of a tensor. Larger ones do not fit the memory of a board.
const MAX_ELEMENTS: u64 = 1 << 29;

/// A convolution without groups or dilation, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Workload {
    /// Images.
    pub batch: u64,
    /// Channels of the input.
    pub in_channels: u64,
    /// Height of the input.
    pub height: u64,
    /// Width of the input.
    pub width: u64,
    /// Channels of the output.
    pub out_channels: u64,
    /// Height and width of the kernel.
    pub kernel: [u64; 2],
    /// Vertical and horizontal stride.
    pub stride: [u64; 2],
    /// Rows above and below, columns left and right, that are zero.
    pub padding: [u64; 2],
}

impl Workload {
    /// A dense layer: `rows` vectors of `inputs` elements, `outputs` each.
    pub fn dense(rows: u64, inputs: u64, outputs: u64) -> Workload {
        Workload {
            batch: 1,
            in_channels: inputs,
            height: rows,
            width: 1,
            out_channels: outputs,
            kernel: [1, 1],
            stride: [1, 1],
            padding: [0, 0],
        }
    }

    /// Height and width of the output.
    pub fn output(&self) -> [u64; 2] {
        let size = |extent: u64, axis: usize| {
            let padded = extent + 2 * self.padding[axis];
            (padded.saturating_sub(self.kernel[axis])) / self.stride[axis].max(1) + 1
        };
        [size(self.height, 0), size(self.width, 1)]
    }

    /// The extents in blocks of the hardware; what does not fill a block is padded with zeros.
    ///
    /// # Errors
    /// Fails if an extent is 0, the kernel is larger than the padded image, or a tensor is too large for a board.
    pub fn packed(&self, hardware: &Hardware) -> Result<Packed, Invalid> {
        let extents = [
            self.batch,
            self.in_channels,
            self.height,
            self.width,
            self.out_channels,
            self.kernel[0],
            self.kernel[1],
            self.stride[0],
            self.stride[1],
        ];
        if extents.contains(&0) || extents.iter().chain(&self.padding).any(|&e| e > 1 << 20) {
            return Err(Invalid::Workload("an extent is 0 or more than 1048576"));
        }
        let fits = |extent: u64, axis: usize| extent + 2 * self.padding[axis] >= self.kernel[axis];
        if !fits(self.height, 0) || !fits(self.width, 1) {
            return Err(Invalid::Workload(
                "the kernel is larger than the padded image",
            ));
        }
        let [out_height, out_width] = self.output();
        let packed = Packed {
            batch: self.batch.div_ceil(hardware.batch),
            ci: self.in_channels.div_ceil(hardware.block),
            height: self.height,
            width: self.width,
            co: self.out_channels.div_ceil(hardware.block),
            out_height,
            out_width,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
        };
        let within =
            |elements: [u64; 5]| elements.into_iter().fold(1, u64::saturating_mul) <= MAX_ELEMENTS;
        let (batch, block) = (hardware.batch, hardware.block);
        let tensors = [
            [
                packed.batch * batch,
                packed.ci * block,
                packed.height,
                packed.width,
                1,
            ],
            [
                packed.batch * batch,
                packed.co * block,
                out_height,
                out_width,
                1,
            ],
            [
                packed.co * block,
                packed.ci * block,
                self.kernel[0],
                self.kernel[1],
                1,
            ],
        ];
        match tensors.into_iter().all(within) {
            true => Ok(packed),
            false => Err(Invalid::Workload(
                "a tensor has more than 536870912 elements",
            )),
        }
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "conv2d {}x{}x{}x{}, {} filters of {}x{}, stride {}x{}, padding {}x{}",
            self.batch,
            self.in_channels,
            self.height,
            self.width,
            self.out_channels,
            self.kernel[0],
            self.kernel[1],
            self.stride[0],
            self.stride[1],
            self.padding[0],
            self.padding[1]
        )
    }
}

/// A workload in blocks: data `[batch][ci][height][width]`, weights `[co][ci][kernel]`, output
/// `[batch][co][out_height][out_width]`, each element a block of the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Blocks of images.
    pub batch: u64,
    /// Blocks of input channels.
    pub ci: u64,
    /// Height of the input.
    pub height: u64,
    /// Width of the input.
    pub width: u64,
    /// Blocks of output channels.
    pub co: u64,
    /// Height of the output.
    pub out_height: u64,
    /// Width of the output.
    pub out_width: u64,
    /// Height and width of the kernel.
    pub kernel: [u64; 2],
    /// Vertical and horizontal stride.
    pub stride: [u64; 2],
    /// Padding of each side, vertical and horizontal.
    pub padding: [u64; 2],
}

impl Packed {
    /// Blocks of the input, the weights and the output.
    pub fn elements(&self) -> [u64; 3] {
        [
            self.batch * self.ci * self.height * self.width,
            self.co * self.ci * self.kernel[0] * self.kernel[1],
            self.batch * self.co * self.out_height * self.out_width,
        ]
    }
}
