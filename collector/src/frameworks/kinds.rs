//! Kinds of operators, in words that fit all frameworks.
//!
//! TVM tells a depthwise convolution from a plain one and a transpose from a slice. Libtorch and ONNX Runtime do not,
//! or draw the line elsewhere. So kinds are wide here. A fused operator has the kind of its strongest part in each
//! framework. Attention that one framework computes in one operator stays apart from the products and softmax of the
//! others.

/// The kind of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A convolution of any sort.
    Convolution,
    /// A product of matrices.
    Product,
    /// Products and softmax of attention as one operator.
    Attention,
    /// A recurrent layer as one operator.
    Recurrent,
    /// A maximum or mean of windows, or of all places.
    Pooling,
    /// A normalisation of batches, layers or groups.
    Normalisation,
    /// Softmax and its logarithm.
    Softmax,
    /// A sum, mean, maximum along axes.
    Reduction,
    /// Element by element, changes of type and of quantised steps among them.
    Elementwise,
    /// Moves data: reshape, transpose, concat, slice, gather, pad, changes of layout.
    Movement,
    /// A change of an image's size.
    Resize,
    /// Anything else.
    Other,
}

impl Kind {
    /// All kinds of operators.
    pub const ALL: [Kind; 12] = [
        Kind::Convolution,
        Kind::Product,
        Kind::Attention,
        Kind::Recurrent,
        Kind::Pooling,
        Kind::Normalisation,
        Kind::Softmax,
        Kind::Reduction,
        Kind::Elementwise,
        Kind::Movement,
        Kind::Resize,
        Kind::Other,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Convolution => "convolution",
            Kind::Product => "matrix product",
            Kind::Attention => "attention",
            Kind::Recurrent => "recurrent",
            Kind::Pooling => "pooling",
            Kind::Normalisation => "normalisation",
            Kind::Softmax => "softmax",
            Kind::Reduction => "reduction",
            Kind::Elementwise => "elementwise",
            Kind::Movement => "data movement",
            Kind::Resize => "resize",
            Kind::Other => "other",
        }
    }

    /// Words of `opcollect`'s own kinds of operators, and of [`optorch::kinds`].
    fn ours(self) -> &'static str {
        match self {
            Kind::Convolution => {
                "conv1d conv2d depthwise_conv2d group_conv2d conv3d conv_transpose qconv2d"
            }
            Kind::Product => "dense matmul batch_matmul qdense",
            Kind::Attention => "attention",
            Kind::Recurrent => "lstm gru",
            Kind::Pooling => "max_pool avg_pool global_avg_pool",
            Kind::Normalisation => "layer_norm batch_norm lrn",
            Kind::Softmax => "softmax",
            Kind::Reduction => "reduce",
            Kind::Elementwise => "elementwise cast quantize dequantize requantize dropout",
            Kind::Movement => {
                "reshape view transpose concat slice gather pad broadcast copy constant"
            }
            Kind::Resize => "resize",
            Kind::Other => "",
        }
    }

    /// Operators of ONNX and those that ONNX Runtime fuses them into; `*` matches any prefix or suffix.
    fn onnx(self) -> &'static str {
        match self {
            Kind::Convolution => "*Conv ConvTranspose ConvInteger NhwcConv*",
            Kind::Product => "*MatMul* *Gemm Einsum GemmFast*",
            Kind::Attention => "*Attention",
            Kind::Recurrent => "LSTM GRU RNN *QuantizeLSTM",
            Kind::Pooling => "*MaxPool* *AveragePool* LpPool GlobalLpPool",
            Kind::Normalisation => "*Normalization LRN",
            Kind::Softmax => "*Softmax",
            Kind::Reduction => "Reduce* ArgMax ArgMin CumSum",
            Kind::Movement => {
                "Reshape Transpose Concat Slice Split* Gather* Squeeze Unsqueeze Flatten \
                 Expand Pad Tile Identity Shape Size Reorder* *ToSpace SpaceTo* Constant* \
                 Range MemcpyToHost"
            }
            Kind::Resize => "Resize Upsample",
            Kind::Other => {
                "Scatter* TopK NonZero Unique NonMaxSuppression RoiAlign OneHot EyeLike Trilu \
                 *Sort"
            }
            Kind::Elementwise => "",
        }
    }

    /// The first kind with a word that fits.
    fn with(words: fn(Kind) -> &'static str, fits: impl Fn(&str) -> bool) -> Option<Kind> {
        let mut all = Kind::ALL.into_iter();
        all.find(|kind| words(*kind).split_whitespace().any(&fits))
    }

    /// The kind for one of `opcollect`'s or of [`optorch::kinds`].
    pub(super) fn of_ours(kind: &str) -> Kind {
        Kind::with(Kind::ours, |word| word == kind).unwrap_or(Kind::Other)
    }

    /// The kind of an operator of ONNX Runtime. One that is in no list works element by element.
    pub(super) fn of_onnx(operator: &str) -> Kind {
        let fits = |pattern: &str| optorch::kinds::fits(pattern, operator);
        Kind::with(Kind::onnx, fits).unwrap_or(Kind::Elementwise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_computation_has_one_kind_in_all_frameworks() {
        for (ours, torch, onnx, kind) in [
            (
                "depthwise_conv2d",
                "aten::conv2d",
                "Conv",
                Kind::Convolution,
            ),
            ("qconv2d", "aten::conv2d", "QLinearConv", Kind::Convolution),
            ("batch_matmul", "aten::linear", "FusedMatMul", Kind::Product),
            ("matmul", "aten::addmm", "Gemm", Kind::Product),
            ("max_pool", "aten::max_pool2d", "MaxPool", Kind::Pooling),
            (
                "layer_norm",
                "aten::layer_norm",
                "SkipLayerNormalization",
                Kind::Normalisation,
            ),
            ("softmax", "aten::softmax", "Softmax", Kind::Softmax),
            ("reduce", "aten::mean", "ReduceMean", Kind::Reduction),
            ("elementwise", "aten::gelu", "BiasGelu", Kind::Elementwise),
            ("cast", "aten::add", "Cast", Kind::Elementwise),
            ("gather", "aten::embedding", "Gather", Kind::Movement),
            ("concat", "aten::cat", "Concat", Kind::Movement),
            ("resize", "aten::upsample_nearest2d", "Resize", Kind::Resize),
        ] {
            assert_eq!(Kind::of_ours(ours), kind, "{ours}");
            let torch_kind = optorch::kinds::kind(torch);
            assert_eq!(Kind::of_ours(torch_kind), kind, "{torch}");
            assert_eq!(Kind::of_onnx(onnx), kind, "{onnx}");
        }
    }

    #[test]
    fn only_kinds_that_are_meant_to_be_are_other() {
        let names = optorch::kinds::names();
        let lost: Vec<_> = names.filter(|k| Kind::of_ours(k) == Kind::Other).collect();
        assert_eq!(lost, [""; 0]);
        assert_eq!(Kind::of_ours("other"), Kind::Other);
        assert_eq!(Kind::of_onnx("TopK"), Kind::Other);
    }
}
