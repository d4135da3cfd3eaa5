//! A request to import, as written on the command line.
//!
//! Owns the request and the syntax of input overrides, `name:1x3x224x224[:dtype]`; whether they fit a model is decided
//! in `sources` and by the importer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Architecture, Source};
use crate::composites::Composites;
use crate::error::ImportError;

/// An import to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// Source of the model.
    pub source: Source,
    /// Name, path, or operator specification, as the source wants it.
    pub model: String,
    /// Samples at once; None for the model's default.
    pub batch: Option<u64>,
    /// Time steps or tokens; None for the model's default.
    pub seqlen: Option<u64>,
    /// Shapes that the user gave.
    #[serde(default)]
    pub inputs: Vec<InputOverride>,
    /// Sizes that the user gave, for models that are built from a configuration.
    #[serde(default, skip_serializing_if = "Architecture::is_default")]
    pub architecture: Architecture,
    /// Whether neighbouring operators become one kernel.
    #[serde(default, skip_serializing_if = "Fusion::is_full")]
    pub fusion: Fusion,
    /// Sequences of operators that count as one.
    #[serde(default, skip_serializing_if = "Composites::is_empty")]
    pub composites: Composites,
}

/// The operators that share a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Operators are fused by TVM's rules: a convolution with the additions and activations after it.
    #[default]
    Full,
    /// None: each operator is a kernel of its own.
    None,
}

impl Fusion {
    /// The one of that name.
    pub fn find(name: &str) -> Option<Fusion> {
        match name {
            "full" => Some(Fusion::Full),
            "none" => Some(Fusion::None),
            _ => None,
        }
    }

    /// Whether it is the default.
    pub fn is_full(&self) -> bool {
        *self == Fusion::Full
    }
}

impl ImportRequest {
    /// A request with the model's defaults.
    #[must_use]
    pub fn new(source: Source, model: impl Into<String>) -> Self {
        Self {
            source,
            model: model.into(),
            batch: None,
            seqlen: None,
            inputs: Vec::new(),
            architecture: Architecture::default(),
            fusion: Fusion::Full,
            composites: Composites::default(),
        }
    }
}

impl ImportRequest {
    /// A model as lists of models name it: `NAME`, or `NAME:N` for a sequence length of N.
    #[must_use]
    pub fn named(source: Source, text: &str) -> Self {
        let length = text
            .rsplit_once(':')
            .and_then(|(name, length)| Some((name, length.parse().ok()?)));
        match length {
            Some((name, seqlen)) => Self {
                seqlen: Some(seqlen),
                ..Self::new(source, name)
            },
            None => Self::new(source, text),
        }
    }
}

/// The shape (and perhaps the element type) of one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputOverride {
    /// The input's name.
    pub name: String,
    /// All dimensions of the input.
    pub shape: Vec<u64>,
    /// Element type; None keeps the model's.
    pub dtype: Option<String>,
}

/// Element types that an override may name.
const DTYPES: [&str; 12] = [
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint32", "uint64", "bool",
];

impl FromStr for InputOverride {
    type Err = ImportError;

    /// Reads `name:1x3x224x224[:dtype]`. The name may itself hold colons (`serving_default:0:1x3`), so the parts are
    /// taken from the right.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: &str| ImportError::BadShape {
            message: format!(
                "input '{text}': {reason} (write name:1x3x224x224 or name:1x16:int64)"
            ),
        };
        let (rest, last) = text.rsplit_once(':').ok_or_else(|| bad("no shape"))?;
        let is_type = !last.is_empty() && last.starts_with(|c: char| c.is_ascii_alphabetic());
        let (name, shape, dtype) = if is_type {
            if !DTYPES.contains(&last) {
                return Err(bad(&format!(
                    "'{last}' is not an element type ({})",
                    DTYPES.join(", ")
                )));
            }
            let (name, shape) = rest.rsplit_once(':').ok_or_else(|| bad("no shape"))?;
            (name, shape, Some(last.to_owned()))
        } else {
            (rest, last, None)
        };
        if name.is_empty() {
            return Err(bad("no name"));
        }
        let mut dims = Vec::new();
        for part in shape.split(['x', 'X', ',']) {
            let dim: u64 = part
                .trim()
                .parse()
                .map_err(|_| bad(&format!("'{part}' is not a dimension")))?;
            if dim == 0 {
                return Err(bad("a dimension of zero"));
            }
            dims.push(dim);
        }
        Ok(Self {
            name: name.to_owned(),
            shape: dims,
            dtype,
        })
    }
}

impl fmt::Display for InputOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{}:{}", self.name, dims.join("x"))?;
        self.dtype.as_ref().map_or(Ok(()), |d| write!(f, ":{d}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_behind_a_name_is_a_sequence_length() {
        let of = |text| {
            let source = Source::find("local").unwrap();
            let named = ImportRequest::named(source, text);
            (named.model, named.seqlen)
        };
        assert_eq!(of("bert-tiny:16"), ("bert-tiny".to_owned(), Some(16)));
        assert_eq!(of("conv2d:c=64"), ("conv2d:c=64".to_owned(), None));
    }

    #[test]
    fn overrides_read_names_shapes_and_types() {
        let plain: InputOverride = "data:1x3x160x160".parse().unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.shape.as_slice(), plain.dtype),
            ("data", &[1, 3, 160, 160][..], None)
        );
        let typed: InputOverride = "input:0:4x16:int64".parse().unwrap();
        assert_eq!(
            (typed.name.as_str(), typed.dtype.as_deref()),
            ("input:0", Some("int64"))
        );
    }

    #[test]
    fn wrong_overrides_say_what_is_wrong() {
        let message = |text: &str| text.parse::<InputOverride>().unwrap_err().to_string();
        assert!(message("data").contains("no shape"));
        assert!(message("data:1x0x3").contains("dimension of zero"));
        assert!(message("data:1xax3").contains("'a' is not a dimension"));
        assert!(message("data:1x3:float99").contains("not an element type"));
        assert!(message(":1x3").contains("no name"));
        assert!(message("data:float32").contains("no shape"));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(
            name in "[a-zA-Z_/][a-zA-Z0-9_/.:]{0,12}",
            shape in prop::collection::vec(1_u64..100_000, 1..6),
            typed in prop::option::of(prop::sample::select(DTYPES.to_vec())),
        ) {
            let given = InputOverride { name, shape, dtype: typed.map(str::to_owned) };
            prop_assert_eq!(given.to_string().parse::<InputOverride>().unwrap(), given);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<InputOverride>();
        }
    }
}
