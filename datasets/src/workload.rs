//! The computations of the common operators, from their extents: iteration space, output and arithmetic.
//!
//! The one description of a convolution, a product or a pooling for rows without an imported model: tuning logs, and
//! operators that a user describes. Names of axes are those of TVM's library, as `opcollect` writes them. Extents are
//! not checked here; callers do that.

use crate::values::{Loop, LoopKind};

use LoopKind::{Reduction, Spatial};

/// Iteration space and output of one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Axes, outermost first: name, extent, kind.
    pub loops: Vec<(&'static str, u64, LoopKind)>,
    /// Extents of the output.
    pub output: Vec<u64>,
}

/// Extents of a two-dimensional convolution, whatever the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Images at once.
    pub batch: u64,
    /// Channels of the output.
    pub out_channels: u64,
    /// Height and width of the output.
    pub output: [u64; 2],
    /// Channels that are summed for one output. `None` for a depthwise convolution.
    pub reduced_channels: Option<u64>,
    /// Height and width of the window.
    pub kernel: [u64; 2],
}

impl Workload {
    /// A two-dimensional convolution.
    pub fn conv2d(conv: Conv2d) -> Workload {
        let ([height, width], [window_height, window_width]) = (conv.output, conv.kernel);
        let mut loops = vec![
            ("nn", conv.batch, Spatial),
            ("ff", conv.out_channels, Spatial),
            ("yy", height, Spatial),
            ("xx", width, Spatial),
        ];
        loops.extend(conv.reduced_channels.map(|c| ("rc", c, Reduction)));
        loops.extend([
            ("ry", window_height, Reduction),
            ("rx", window_width, Reduction),
        ]);
        Workload {
            loops,
            output: vec![conv.batch, conv.out_channels, height, width],
        }
    }

    /// A convolution of volumes: batch, channels and extents of the output, channels that are summed, the window.
    pub fn conv3d(output: [u64; 5], reduced_channels: u64, kernel: [u64; 3]) -> Workload {
        let spatial = ["nn", "ff", "zz", "yy", "xx"].into_iter().zip(output);
        let window = ["rz", "ry", "rx"].into_iter().zip(kernel);
        let reduced = std::iter::once(("rc", reduced_channels)).chain(window);
        let spatial = spatial.map(|(name, extent)| (name, extent, Spatial));
        Workload {
            loops: spatial
                .chain(reduced.map(|(name, extent)| (name, extent, Reduction)))
                .collect(),
            output: output.to_vec(),
        }
    }

    /// A product of two matrices.
    pub fn dense(rows: u64, columns: u64, depth: u64) -> Workload {
        Workload {
            loops: vec![
                ("i", rows, Spatial),
                ("j", columns, Spatial),
                ("k", depth, Reduction),
            ],
            output: vec![rows, columns],
        }
    }

    /// Products of pairs of matrices.
    pub fn batch_matmul(batch: u64, rows: u64, columns: u64, depth: u64) -> Workload {
        let mut product = Workload::dense(rows, columns, depth);
        product.loops.insert(0, ("b", batch, Spatial));
        product.output.insert(0, batch);
        product
    }

    /// A pooling of images: batch, channels, and height and width of the output.
    pub fn pool2d(output: [u64; 4], kernel: [u64; 2]) -> Workload {
        let [batch, channels, height, width] = output;
        Workload {
            loops: vec![
                ("nn", batch, Spatial),
                ("cc", channels, Spatial),
                ("yy", height, Spatial),
                ("xx", width, Spatial),
                ("ry", kernel[0], Reduction),
                ("rx", kernel[1], Reduction),
            ],
            output: output.to_vec(),
        }
    }

    /// An operator that computes each element of its output by itself.
    pub fn elementwise(shape: &[u64]) -> Workload {
        Workload {
            loops: shape.iter().map(|&n| ("i", n, Spatial)).collect(),
            output: shape.to_vec(),
        }
    }

    /// Points of the iteration space; none beyond 64 bits.
    pub fn points(&self) -> Option<u64> {
        self.loops
            .iter()
            .try_fold(1u64, |product, (_, extent, _)| product.checked_mul(*extent))
    }

    /// Floating-point operations of one multiply-add a point; none beyond 64 bits.
    pub fn multiply_add_flops(&self) -> Option<u64> {
        self.points()?.checked_mul(2)
    }

    /// The loops as a row has them.
    pub fn loop_nest(&self) -> impl Iterator<Item = Loop> + '_ {
        self.loops
            .iter()
            .map(|(name, extent, kind)| Loop::new(name, *extent, *kind))
    }
}

/// Number of positions of a window along an axis. `None` if the window is larger than the padded axis.
pub fn window_positions(
    extent: u64,
    padding: [u64; 2],
    window: u64,
    dilation: u64,
    stride: u64,
) -> Option<u64> {
    let covered = window
        .checked_sub(1)?
        .checked_mul(dilation)?
        .checked_add(1)?;
    let room = extent.checked_add(padding[0].checked_add(padding[1])?)?;
    Some(room.checked_sub(covered)?.checked_div(stride)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_take_padding_dilation_and_stride_into_account() {
        assert_eq!(window_positions(56, [1, 1], 3, 1, 1), Some(56));
        assert_eq!(window_positions(56, [1, 1], 3, 1, 2), Some(28));
        assert_eq!(window_positions(7, [0, 0], 3, 3, 1), Some(1));
        assert_eq!(window_positions(2, [0, 0], 3, 1, 1), None);
        assert_eq!(window_positions(7, [0, 0], 3, 1, 0), None);
        assert_eq!(window_positions(u64::MAX, [1, 0], 3, 1, 1), None);
    }

    #[test]
    fn arithmetic_follows_from_the_loops() {
        let conv = Workload::conv2d(Conv2d {
            batch: 1,
            out_channels: 64,
            output: [56, 56],
            reduced_channels: Some(64),
            kernel: [3, 3],
        });
        assert_eq!(conv.multiply_add_flops(), Some(2 * 56 * 56 * 64 * 64 * 9));
        assert_eq!(conv.output, [1, 64, 56, 56]);
        assert_eq!(Workload::batch_matmul(2, 3, 4, 5).points(), Some(120));
        assert_eq!(Workload::batch_matmul(2, 3, 4, 5).output, [2, 3, 4]);
        assert_eq!(Workload::dense(1 << 32, 1 << 32, 2).points(), None);
    }
}
