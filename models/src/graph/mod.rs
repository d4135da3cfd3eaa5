//! The operator graph of an import: what `graph.json` holds.
//!
//! Owns the types, reading them, and sums over them. Format 1: shapes in elements, sizes in bytes. `flops` are those of
//! one call of the operator's anchor (2 per multiply-add, 1 per other arithmetic operation), and `count` its calls in
//! the model.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use operator::{
    Access, Argument, ArgumentRole, Attributes, Axis, AxisKind, Block, BlockRole, Operator,
    OperatorKind, Pattern,
};

pub mod layers;
mod operator;

/// The only format of graph.json that this crate reads.
pub const FORMAT: u32 = 1;

/// One imported model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Format of the file.
    pub format: u32,
    /// Source of the model: local, onnx or simple.
    pub source: String,
    /// The model's name as the registry, the file or the specification gives it.
    pub model: String,
    /// Versions of the software that made the import.
    pub versions: BTreeMap<String, String>,
    /// Samples at once.
    pub batch: u64,
    /// Name of the Relax function.
    pub entry: String,
    /// Parameters of the Relax function in order: true inputs and weights.
    pub inputs: Vec<Input>,
    /// Outputs in order.
    pub outputs: Vec<Output>,
    /// Expected outputs, where the model came with some.
    pub reference: Option<Reference>,
    /// The reference of the import's outputs.
    #[serde(default)]
    pub check: Check,
    /// Every distinct fused operator, in the order of its first call.
    pub operators: Vec<Operator>,
    /// Every call in order.
    pub calls: Vec<Call>,
}

/// The comparison of an import's outputs with those of the model's own framework, on seeded inputs. An import with
/// other outputs is refused, so none of these failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Check {
    /// The framework that computes the same, and its version.
    pub reference: Option<String>,
    /// Why there was no reference.
    pub reason: Option<String>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reference, &self.reason) {
            (Some(reference), _) => write!(f, "checked against {reference}"),
            (None, Some(reason)) => write!(f, "not checked: {reason}"),
            (None, None) => write!(f, "not checked"),
        }
    }
}

/// A call of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The operator's symbol.
    pub symbol: String,
    /// Name of the largest weight that it reads.
    pub weight: Option<String>,
    /// Numbers of the earlier calls whose results it reads, ascending.
    #[serde(default)]
    pub inputs: Vec<usize>,
}

/// A parameter of the Relax function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Name in the model.
    pub name: String,
    /// Shape as the function takes it (packed, for packed weights).
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: String,
    /// Whether the user feeds it or the model owns it.
    pub role: InputRole,
    /// Seeded data to use where there are no values.
    pub fill: Fill,
    /// How a packed weight derives from the model's own tensor.
    pub layout: Option<Layout>,
    /// Where its values lie in params.bin.
    pub data: Option<ByteRange>,
}

/// The origin of a parameter of the Relax function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// Fed with each inference.
    Input,
    /// A weight.
    Param,
}

/// How seeded data looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fill {
    /// Normal distribution around zero.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform distribution on `[low, high)`.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Integers in `[low, high)`.
    Int {
        /// Lower bound.
        low: i64,
        /// Upper bound, excluded.
        high: i64,
    },
    /// One value everywhere.
    Const {
        /// The value.
        value: f64,
    },
}

/// How a weight was transposed and packed: first `transpose`, then runs of `block` along `block_axis` moved innermost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Shape in the model.
    pub original_shape: Vec<u64>,
    /// Order of the axes, where they were permuted.
    pub transpose: Option<Vec<u64>>,
    /// The axis that was split.
    pub block_axis: Option<u64>,
    /// The length of a run.
    pub block: Option<u64>,
}

/// A stretch of params.bin or refs.bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte; a multiple of 64.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// An output of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Name in the model.
    pub name: String,
    /// Shape.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: String,
}

/// Inputs to feed and outputs to expect, in refs.bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// One entry for each true input.
    pub inputs: Vec<ReferenceInput>,
    /// One entry for each output.
    pub outputs: Vec<ReferenceOutput>,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// The file that they come from.
    pub origin: String,
}

/// The data of one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceInput {
    /// Name of the input; shape and type are those of the graph's input.
    pub name: String,
    /// Range of bytes of the values.
    #[serde(flatten)]
    pub place: ByteRange,
}

/// An expected output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceOutput {
    /// Position among the graph's outputs.
    pub index: u64,
    /// Range of bytes of the values.
    #[serde(flatten)]
    pub place: ByteRange,
    /// Shape.
    pub shape: Vec<u64>,
    /// Element type.
    pub dtype: String,
}

/// Sums over a graph: each operator times its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Operator calls.
    pub calls: u64,
    /// Floating-point operations of the anchors.
    pub flops: u64,
    /// Floating-point operations of the fused rest.
    pub flops_epilogue: u64,
    /// Compulsory reads.
    pub bytes_read: u64,
    /// Compulsory writes.
    pub bytes_written: u64,
    /// Elements of all weights as the model has them, without the padding of packed layouts.
    pub weight_elements: u64,
}

impl Graph {
    /// Reads graph.json.
    ///
    /// # Errors
    /// Fails with a sentence about the file and its fault; the caller decides whether to import again.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let graph: Self =
            serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if graph.format != FORMAT {
            return Err(format!(
                "{}: format {} is not {FORMAT}",
                path.display(),
                graph.format
            ));
        }
        Ok(graph)
    }

    /// The operator of a tensor function.
    #[must_use]
    pub fn operator(&self, symbol: &str) -> Option<&Operator> {
        self.operators.iter().find(|o| o.symbol == symbol)
    }

    /// Sums over all operators.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for operator in &self.operators {
            sum.calls += operator.count;
            sum.flops += operator.count * operator.flops;
            sum.flops_epilogue += operator.count * operator.flops_epilogue;
            sum.bytes_read += operator.count * operator.bytes_read;
            sum.bytes_written += operator.count * operator.bytes_written;
        }
        let elements = |w: &Input| -> u64 {
            w.layout
                .as_ref()
                .map_or(&w.shape, |l| &l.original_shape)
                .iter()
                .product()
        };
        sum.weight_elements = self.weights().map(elements).sum();
        sum
    }

    /// The parameters that a user feeds.
    pub fn fed(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|i| i.role == InputRole::Input)
    }

    /// The parameters that the model owns.
    pub fn weights(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|i| i.role == InputRole::Param)
    }
}

/// A small graph.json for tests elsewhere in the crate.
#[cfg(test)]
pub(crate) const fn tests_sample() -> &'static str {
    tests::SAMPLE
}

#[cfg(test)]
mod tests;
