//! An operator's computation, as the extents that its features are computed from.
//!
//! Read from the columns of a row that hold for every source: kind, shapes, window, loop nest, arithmetic, traffic.

pub(super) mod reuse;
pub(super) mod windows;

use opdata::{Dims, Loop, LoopKind, Row, Shapes};

/// Classes of operators that behave alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Convolution over all channels.
    Conv,
    /// Depthwise or grouped convolution.
    Depthwise,
    /// Dense layer, matrix product.
    Dense,
    /// Batch of matrix products.
    BatchMatmul,
    /// Pooling.
    Pool,
    /// Reductions over rows.
    Rows,
    /// Element-wise arithmetic.
    Elementwise,
    /// Copies, transposes, slices.
    Movement,
    /// Anything else.
    Other,
}

impl Class {
    /// The class of an operator's kind.
    pub fn of_kind(kind: &str) -> Self {
        match kind {
            "conv1d" | "conv2d" | "conv3d" | "conv_transpose" | "qconv2d" => Self::Conv,
            "depthwise_conv2d" | "group_conv2d" => Self::Depthwise,
            "dense" | "matmul" | "qdense" => Self::Dense,
            "batch_matmul" => Self::BatchMatmul,
            "max_pool" | "avg_pool" | "global_avg_pool" => Self::Pool,
            "softmax" | "layer_norm" | "batch_norm" | "reduce" | "lrn" => Self::Rows,
            "elementwise" | "broadcast" | "cast" | "quantize" | "dequantize" | "requantize" => {
                Self::Elementwise
            }
            "transpose" | "concat" | "pad" | "slice" | "gather" | "resize" | "reshape" => {
                Self::Movement
            }
            _ => Self::Other,
        }
    }

    /// The class of a row's operator that reduces over `depth` values: quantised convolutions are of one kind, however
    /// many groups they have.
    fn of_row(row: &Row, depth: f64) -> Self {
        let window = row.kernel.as_ref().map(|k| k.0.iter().product::<u64>());
        let ungrouped = row
            .in_channels
            .zip(window)
            .map(|(channels, window)| channels as f64 * window as f64);
        match Self::of_kind(&row.op_kind) {
            Self::Conv if row.op_kind == "qconv2d" && ungrouped.is_some_and(|all| depth < all) => {
                Self::Depthwise
            }
            class => class,
        }
    }
}

/// Extents of an operator; 1 where an axis does not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// Class of its kind.
    pub class: Class,
    /// Batch.
    pub batch: f64,
    /// Output pixels, or rows of a product.
    pub rows: f64,
    /// Output channels, or columns.
    pub columns: f64,
    /// Length of the reduction.
    pub depth: f64,
    /// Output height.
    pub out_height: f64,
    /// Output width.
    pub out_width: f64,
    /// Input height.
    pub in_height: f64,
    /// Input width.
    pub in_width: f64,
    /// Input channels.
    pub in_channels: f64,
    /// Window height.
    pub kernel_height: f64,
    /// Window width.
    pub kernel_width: f64,
    /// Elements of the window.
    pub window: f64,
    /// Stride along the width.
    pub stride: f64,
    /// Innermost extent of the output.
    pub last: f64,
    /// Arithmetic of the main computation, flop; missing if unknown.
    pub flops: Option<f64>,
    /// Arithmetic of the fused rest, flop.
    pub flops_epilogue: f64,
    /// Exponentials, square roots and the like for each element of the output.
    pub transcendentals: f64,
    /// Elements of the operator's own result: fused arithmetic may spread it over a larger output.
    pub own_elements: f64,
    /// Tensors that it reads beside weights.
    pub inputs: f64,
    /// Whether its window runs over a padding.
    pub is_padded: bool,
    /// Bytes of the inputs.
    pub input_bytes: f64,
    /// Bytes of the weights.
    pub weight_bytes: f64,
    /// Bytes of the outputs.
    pub output_bytes: f64,
    /// Bytes of an element.
    pub element_bytes: f64,
}

fn elements(shapes: Option<&Shapes>) -> f64 {
    shapes.map_or(0.0, |s| {
        s.0.iter()
            .map(|d| d.0.iter().map(|&n| n as f64).product::<f64>())
            .sum()
    })
}

fn last(dims: Option<&Dims>) -> Option<f64> {
    dims?.0.last().map(|&n| n as f64)
}

/// Number of functions in the name of a fused operator that a processor has no instruction for.
fn transcendentals(name: &str) -> f64 {
    const NAMES: [&str; 12] = [
        "sigmoid", "tanh", "exp", "erf", "gelu", "softmax", "log", "power", "swish", "silu",
        "mish", "softplus",
    ];
    name.split('_').filter(|word| NAMES.contains(word)).count() as f64
}

/// Bytes of an element of the first type named.
pub(in crate::features) fn element_bytes(dtypes: Option<&str>) -> f64 {
    let first = dtypes.unwrap_or("float32").split(';').next().unwrap_or("");
    let digits = first.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse::<f64>().map_or(4.0, |bits| bits / 8.0)
}

/// The extents of an operator's result before its fused tail: those of the output, or of its loops if it has a window.
/// The tail may be larger than the operator: a gate of 1×1 pixels that scales a whole image.
fn own_result(windowed: bool, output: &[f64], nest: &[Loop]) -> Vec<f64> {
    let loops: Vec<f64> = nest
        .iter()
        .filter(|l| l.kind == LoopKind::Spatial)
        .map(|l| l.extent as f64)
        .collect();
    if windowed && loops.len() == output.len() {
        loops
    } else {
        output.to_vec()
    }
}

/// Compulsory traffic of an operator and the size of an element, bytes.
struct Traffic {
    input: f64,
    weight: f64,
    output: f64,
    element: f64,
}

impl Traffic {
    /// The traffic of a row whose output has this many elements.
    fn of_row(row: &Row, output_elements: f64) -> Self {
        let element = element_bytes(row.dtypes.as_deref());
        let output = row
            .bytes_written
            .map_or(output_elements * element, |b| b as f64);
        // It copies a part of a larger tensor and never touches the rest.
        let picks = matches!(row.op_kind.as_str(), "gather" | "slice");
        let weight = if picks {
            0.0
        } else {
            elements(row.weight_shapes.as_ref()) * element
        };
        let input = row
            .bytes_read
            .map_or(elements(row.input_shapes.as_ref()) * element, |b| {
                (b as f64 - weight).max(0.0)
            });
        Self {
            input: if picks { input.min(output) } else { input },
            weight,
            output,
            element,
        }
    }
}

/// Extents of the first output; empty if the row does not name them.
fn output_extents(row: &Row) -> Vec<f64> {
    let first = row.output_shapes.as_ref().and_then(|s| s.0.first());
    first.map_or_else(Vec::new, |d| d.0.iter().map(|&n| n as f64).collect())
}

/// Height (axis 0) or width (axis 1) of the input; 1 if it is not an image.
fn image_extent(row: &Row, axis: usize) -> f64 {
    // NCHW and its blocked forms have height and width after the channels; three-dimensional windows have them last.
    let three_dimensional = row.kernel.as_ref().is_some_and(|k| k.0.len() == 3);
    let first = if three_dimensional { 3 } else { 2 };
    let input = row.input_shapes.as_ref().and_then(|s| s.0.first());
    input
        .filter(|d| d.0.len() >= 4)
        .and_then(|d| d.0.get(first + axis))
        .map_or(1.0, |&n| n as f64)
}

/// Extent of the window, counted from its last axis (1); 1 without a window.
fn window_extent(row: &Row, from_end: usize) -> f64 {
    row.kernel
        .as_ref()
        .and_then(|d| d.0.get(d.0.len().checked_sub(from_end)?))
        .map_or(1.0, |&n| n as f64)
}

impl Operator {
    /// The computation of a row's operator.
    pub fn of_row(row: &Row) -> Self {
        let output = output_extents(row);
        let nest = row
            .loop_nest
            .as_ref()
            .map(|n| n.0.as_slice())
            .unwrap_or_default();
        let reductions = nest.iter().filter(|l| l.kind == LoopKind::Reduction);
        let depth: f64 = reductions.map(|l| l.extent as f64).product();
        let class = Class::of_row(row, depth);
        let windowed = row.kernel.is_some();
        let own = own_result(windowed, &output, nest);
        let trailing = |from_end: usize| -> f64 {
            let place = own.len().checked_sub(from_end);
            place.and_then(|p| own.get(p)).copied().unwrap_or(1.0)
        };
        let spatial: f64 = if windowed && own.len() > 2 {
            own[2..].iter().product()
        } else if own.len() > 1 {
            trailing(2)
        } else {
            1.0
        };
        let batch = match class {
            Class::BatchMatmul => own[..own.len().saturating_sub(2)].iter().product(),
            _ if windowed => own.first().copied().unwrap_or(1.0),
            _ => 1.0,
        };
        let total: f64 = output.iter().product();
        let columns = row
            .out_channels
            .map_or_else(|| trailing(1), |channels| channels as f64)
            .max(1.0);
        let rows = match class {
            Class::Dense => (total / columns).max(1.0),
            _ => spatial.max(1.0),
        };
        let traffic = Traffic::of_row(row, total);
        Self {
            class,
            batch: batch.max(1.0),
            rows,
            columns,
            depth: depth.max(1.0),
            out_height: if windowed { trailing(2) } else { 1.0 },
            out_width: if windowed { trailing(1) } else { rows },
            in_height: image_extent(row, 0),
            in_width: image_extent(row, 1),
            in_channels: row.in_channels.map_or(1.0, |n| n as f64).max(1.0),
            kernel_height: window_extent(row, 2),
            kernel_width: window_extent(row, 1),
            window: row
                .kernel
                .as_ref()
                .map_or(1.0, |k| k.0.iter().map(|&n| n as f64).product()),
            stride: last(row.stride.as_ref()).unwrap_or(1.0).max(1.0),
            last: output.last().copied().unwrap_or(1.0),
            flops: row.flops.map(|f| f as f64),
            transcendentals: transcendentals(&row.op_name),
            own_elements: own.iter().product(),
            flops_epilogue: row.flops_epilogue.map_or(0.0, |f| f as f64),
            inputs: row.input_shapes.as_ref().map_or(1, |s| s.0.len()) as f64,
            is_padded: row
                .padding
                .as_ref()
                .is_some_and(|p| p.0.iter().any(|&n| n > 0)),
            input_bytes: traffic.input,
            weight_bytes: traffic.weight,
            output_bytes: traffic.output,
            element_bytes: traffic.element,
        }
    }

    /// Results of the main computation.
    pub fn results(&self) -> f64 {
        self.batch * self.rows * self.columns
    }

    /// Compulsory traffic, bytes.
    pub fn bytes(&self) -> f64 {
        self.input_bytes + self.weight_bytes + self.output_bytes
    }

    /// Exponentials and the like of all elements.
    pub fn transcendental_calls(&self) -> f64 {
        self.transcendentals * self.own_elements
    }

    /// Choices between inputs that a concatenation makes: each of its elements is looked for in one input after the other.
    pub fn choices(&self) -> f64 {
        if self.class == Class::Movement {
            (self.inputs - 1.0).max(0.0) * self.output_bytes / self.element_bytes
        } else {
            0.0
        }
    }

    /// All arithmetic, flop; 0 if unknown.
    pub fn total_flops(&self) -> f64 {
        self.flops.unwrap_or(0.0) + self.flops_epilogue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conv_row, dense_row};

    #[test]
    fn operators_on_bytes_are_described_as_those_on_floats() {
        let quantised = |row: &Row, kind: &str| Row {
            op_kind: kind.to_owned(),
            dtypes: Some("uint8;int8;int32".to_owned()),
            ..row.clone()
        };
        let conv = conv_row([1, 16, 28, 28], [32, 3, 1], "{}");
        let mut grouped = quantised(&conv, "qconv2d");
        grouped.in_channels = Some(64);
        for (row, class) in [
            (quantised(&conv, "qconv2d"), Class::Conv),
            (grouped, Class::Depthwise),
            (
                quantised(&dense_row(1, 10, 64, "{}"), "qdense"),
                Class::Dense,
            ),
            (quantised(&conv, "requantize"), Class::Elementwise),
        ] {
            let operator = Operator::of_row(&row);
            assert_eq!(operator.class, class, "{}", row.op_kind);
            assert_eq!(operator.element_bytes, 1.0);
        }
    }
}
