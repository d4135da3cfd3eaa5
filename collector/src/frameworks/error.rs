//! Errors of a comparison of frameworks.

use opmodels::Source;

/// The reason why frameworks cannot be compared on a model.
#[derive(Debug, thiserror::Error)]
pub enum FrameworksError {
    /// There is no second framework to compare with.
    #[error("--framework: give two frameworks at least, as in --framework tvm,onnxruntime")]
    TooFew,
    /// One is named twice.
    #[error("--framework: {0} is named twice")]
    Twice(&'static str),
    /// libtorch has no model of this source.
    #[error(
        "--framework torch: libtorch runs models of PyTorch, and a model of source {0} is none; take it from --modelsource torch \
         or transformers, or leave torch out"
    )]
    NotOfPyTorch(Source),
    /// The model cannot become an ONNX file.
    #[error(
        "--framework onnxruntime: ONNX Runtime runs ONNX files, and a model of source {0} cannot be made into one; leave \
         onnxruntime out"
    )]
    NoOnnx(Source),
}
