//! One distinct fused operator of a graph: what it computes, over which data, at which cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Fill;
use crate::hex::hex;

/// One distinct fused operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Global symbol of the tensor function.
    pub symbol: String,
    /// Readable name: the fused operators joined.
    pub name: String,
    /// Kind of the anchor.
    pub kind: OperatorKind,
    /// TVM's fusion pattern.
    pub pattern: Pattern,
    /// Calls in the model.
    pub count: u64,
    /// Arguments in the function's order, outputs last.
    pub args: Vec<Argument>,
    /// The anchor's attributes.
    pub attrs: Attributes,
    /// Floating-point operations of the anchor, one call.
    pub flops: u64,
    /// Floating-point operations of the rest, one call.
    pub flops_epilogue: u64,
    /// Compulsory reads of one call: every argument once.
    pub bytes_read: u64,
    /// Compulsory writes of one call.
    pub bytes_written: u64,
    /// Bytes that the model reads and writes between two uses of an input of the model, the operator's own included: the mean
    /// over its calls. Inputs that an earlier operator computes count as 0. `None` without inputs.
    pub input_reuse_bytes: Option<u64>,
    /// The same between two uses of a weight. `None` without weights.
    pub weight_reuse_bytes: Option<u64>,
    /// The same between two uses of the outputs' memory, by TVM's memory plan. `None` if the operator becomes a view
    /// there.
    pub output_reuse_bytes: Option<u64>,
    /// The anchor's iteration space.
    pub loops: Vec<Axis>,
    /// Every block of the tensor function in program order.
    pub blocks: Vec<Block>,
}

/// The computation of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the variants are the ONNX and TVM names of the operations"
)]
pub enum OperatorKind {
    Conv1d,
    Conv2d,
    DepthwiseConv2d,
    GroupConv2d,
    Conv3d,
    ConvTranspose,
    Dense,
    Matmul,
    BatchMatmul,
    Qconv2d,
    Qdense,
    Quantize,
    Dequantize,
    Requantize,
    MaxPool,
    AvgPool,
    GlobalAvgPool,
    Softmax,
    LayerNorm,
    BatchNorm,
    Reduce,
    Lrn,
    Elementwise,
    Broadcast,
    Transpose,
    Concat,
    Pad,
    Slice,
    Gather,
    Resize,
    Reshape,
    Cast,
    Other,
}

impl OperatorKind {
    /// The word in graph.json.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conv1d => "conv1d",
            Self::Conv2d => "conv2d",
            Self::DepthwiseConv2d => "depthwise_conv2d",
            Self::GroupConv2d => "group_conv2d",
            Self::Conv3d => "conv3d",
            Self::ConvTranspose => "conv_transpose",
            Self::Dense => "dense",
            Self::Matmul => "matmul",
            Self::BatchMatmul => "batch_matmul",
            Self::Qconv2d => "qconv2d",
            Self::Qdense => "qdense",
            Self::Quantize => "quantize",
            Self::Dequantize => "dequantize",
            Self::Requantize => "requantize",
            Self::MaxPool => "max_pool",
            Self::AvgPool => "avg_pool",
            Self::GlobalAvgPool => "global_avg_pool",
            Self::Softmax => "softmax",
            Self::LayerNorm => "layer_norm",
            Self::BatchNorm => "batch_norm",
            Self::Reduce => "reduce",
            Self::Lrn => "lrn",
            Self::Elementwise => "elementwise",
            Self::Broadcast => "broadcast",
            Self::Transpose => "transpose",
            Self::Concat => "concat",
            Self::Pad => "pad",
            Self::Slice => "slice",
            Self::Gather => "gather",
            Self::Resize => "resize",
            Self::Reshape => "reshape",
            Self::Cast => "cast",
            Self::Other => "other",
        }
    }
}

impl std::fmt::Display for OperatorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// TVM's operator pattern, which decides about fusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variants are TVM's own names")]
pub enum Pattern {
    Elemwise,
    Broadcast,
    Injective,
    CommReduce,
    OutEwiseFusable,
    Tuple,
    Opaque,
}

impl Pattern {
    /// The word in graph.json.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elemwise => "elemwise",
            Self::Broadcast => "broadcast",
            Self::Injective => "injective",
            Self::CommReduce => "comm_reduce",
            Self::OutEwiseFusable => "out_ewise_fusable",
            Self::Tuple => "tuple",
            Self::Opaque => "opaque",
        }
    }
}

/// An argument of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Argument {
    /// Role and position, such as `input0`.
    pub name: String,
    /// Shape.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: String,
    /// Its role in the operator.
    pub role: ArgumentRole,
    /// Seeded data for measuring the operator alone.
    pub fill: Fill,
}

impl Argument {
    /// Bytes of its elements, by the digits at the end of their type; a type without digits counts as one byte.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let digits = self.dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
        let bits: u64 = digits.parse().unwrap_or(8);
        (self.shape.iter().product::<u64>() * bits).div_ceil(8)
    }
}

/// The role of an argument in its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRole {
    /// The argument is computed by another operator, or fed.
    Input,
    /// The argument is a parameter of the model in every call.
    Weight,
    /// The operator writes the argument.
    Output,
}

/// Attributes of an operator's anchor; only the applicable ones are present.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    /// Window extents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Vec<u64>>,
    /// Steps of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<Vec<u64>>,
    /// Padding: all axes before, then all axes after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Vec<u64>>,
    /// Gaps in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dilation: Option<Vec<u64>>,
    /// Groups of channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Input channels or features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_channels: Option<u64>,
    /// Output channels or features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_channels: Option<u64>,
    /// Layout of the weight, such as `OIHW16o` (packed in runs of 16) or `OIHW`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_layout: Option<String>,
    /// Whatever else applies.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// One axis of an iteration space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the block's axis.
    pub name: String,
    /// Points along it.
    pub extent: u64,
    /// Whether points are independent.
    pub kind: AxisKind,
}

/// Whether the points of an axis are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisKind {
    /// The points are independent.
    Spatial,
    /// The points are combined into one result.
    Reduction,
}

/// One block of a tensor function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Name in the tensor function.
    pub name: String,
    /// Its place around the anchor.
    pub role: BlockRole,
    /// Its axes in order.
    pub iters: Vec<Axis>,
    /// Its reads.
    pub reads: Vec<Access>,
    /// Its writes.
    pub writes: Vec<Access>,
}

/// A block's place around the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockRole {
    /// The part that takes most of the operator's time.
    Anchor,
    /// A part before the anchor (padding, for example).
    Producer,
    /// A part after the anchor (bias, activation).
    Epilogue,
}

/// An access of a block to a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Buffer name in the tensor function.
    pub buffer: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its element type.
    pub dtype: String,
    /// The block axes that each index depends on.
    pub index_iters: Vec<Vec<String>>,
}

impl Operator {
    /// Floating-point operations for each byte of compulsory traffic; None without traffic.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a ratio needs no more than 52 bits"
    )]
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.bytes_read + self.bytes_written;
        (bytes > 0).then(|| (self.flops + self.flops_epilogue) as f64 / bytes as f64)
    }

    /// Identity of the computation across models: kind, arguments, attributes and blocks, without names of buffers or
    /// symbols. 16 hexadecimal digits.
    ///
    /// # Panics
    /// Never: all parts are plain data that always serialises.
    #[must_use]
    pub fn workload_hash(&self) -> String {
        let args: Vec<_> = self
            .args
            .iter()
            .map(|a| (&a.shape, &a.dtype, a.role))
            .collect();
        let blocks: Vec<_> = self
            .blocks
            .iter()
            .map(|b| {
                let accesses = |list: &[Access]| -> Vec<(Vec<u64>, String, Vec<Vec<String>>)> {
                    list.iter()
                        .map(|a| (a.shape.clone(), a.dtype.clone(), a.index_iters.clone()))
                        .collect()
                };
                (&b.name, &b.iters, accesses(&b.reads), accesses(&b.writes))
            })
            .collect();
        let identity = serde_json::json!([self.name, self.kind, args, self.attrs, blocks]);
        hex(&Sha256::digest(identity.to_string().as_bytes()))[..16].to_owned()
    }

    /// Number of terms summed in one element of the output. Rounding differences grow with it.
    #[must_use]
    pub fn reduction_length(&self) -> u64 {
        self.loops
            .iter()
            .filter(|l| l.kind == AxisKind::Reduction)
            .map(|l| l.extent)
            .product()
    }

    /// Shapes of inputs, weights and outputs, in this order: `1x64;64x10;1x10`.
    #[must_use]
    pub fn shapes(&self) -> String {
        let roles = [
            ArgumentRole::Input,
            ArgumentRole::Weight,
            ArgumentRole::Output,
        ];
        let arguments = roles.into_iter().flat_map(|role| self.args_of(role));
        let shape = |argument: &Argument| {
            let extents = argument.shape.iter().map(ToString::to_string);
            extents.collect::<Vec<_>>().join("x")
        };
        arguments.map(shape).collect::<Vec<_>>().join(";")
    }

    /// The blocks of a role.
    pub fn blocks_of(&self, role: BlockRole) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |b| b.role == role)
    }

    /// The arguments of a role.
    pub fn args_of(&self, role: ArgumentRole) -> impl Iterator<Item = &Argument> {
        self.args.iter().filter(move |a| a.role == role)
    }
}
