//! `--input name:shape[:dtype]`: a model input whose shape (and type) is given by the user.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Element types an input may have.
pub(super) const DTYPES: &[&str] = &[
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
];

/// A named input and its shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputShape {
    /// Name of the model's input.
    pub name: String,
    /// Its shape, every extent at least 1; empty for a scalar.
    pub shape: Vec<u64>,
    /// Its element type; `None` for the model's own.
    pub dtype: Option<String>,
}

impl fmt::Display for InputShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{}:{}", self.name, shape.join("x"))?;
        match &self.dtype {
            Some(dtype) => write!(f, ":{dtype}"),
            None => Ok(()),
        }
    }
}

impl FromStr for InputShape {
    /// What is wrong, as a clause.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // ONNX names may hold colons ("input:0"), so the type and the shape are taken from the end.
        let (rest, dtype) = match text.rsplit_once(':') {
            Some((rest, last)) if DTYPES.contains(&last) => (rest, Some(last.to_owned())),
            _ => (text, None),
        };
        let (name, shape) = rest
            .rsplit_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| "it has no `name:shape`".to_owned())?;
        let shape = shape
            .split('x')
            .map(|extent| match extent.parse::<u64>() {
                Ok(0) => Err("an extent of 0 leaves nothing to compute".to_owned()),
                Ok(extent) => Ok(extent),
                Err(_) if dtype.is_none() && extent.starts_with(|c: char| c.is_alphabetic()) => {
                    Err(format!(
                        "`{extent}` is neither a shape nor one of the types {}",
                        DTYPES.join(", ")
                    ))
                }
                Err(_) => Err(format!("`{extent}` is no extent")),
            })
            .collect::<Result<Vec<u64>, String>>()?;
        let elements = shape
            .iter()
            .try_fold(1u64, |product, extent| product.checked_mul(*extent));
        if elements.is_none_or(|elements| elements > 1 << 40) {
            return Err("it has more elements than any machine holds".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            shape,
            dtype,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_names_shapes_and_types() {
        let input: InputShape = "data:1x3x224x224".parse().unwrap();
        assert_eq!(
            (input.name.as_str(), input.shape, input.dtype),
            ("data", vec![1, 3, 224, 224], None)
        );
        let input: InputShape = "ids:0:1x128:int64".parse().unwrap();
        assert_eq!(
            (
                input.name.as_str(),
                input.shape.len(),
                input.dtype.as_deref()
            ),
            ("ids:0", 2, Some("int64"))
        );
    }

    #[test]
    fn says_what_is_wrong() {
        let problem = |text: &str| text.parse::<InputShape>().unwrap_err();
        assert_eq!(problem("data"), "it has no `name:shape`");
        assert_eq!(problem(":1x2"), "it has no `name:shape`");
        assert_eq!(
            problem("data:0x3"),
            "an extent of 0 leaves nothing to compute"
        );
        assert_eq!(problem("data:1x"), "`` is no extent");
        assert_eq!(problem("data:1x-3"), "`-3` is no extent");
        assert!(problem("data:1x3:float31").starts_with("`float31` is neither a shape nor one"));
        assert!(problem("d:99999999999x99999999999").contains("more elements"));
    }

    proptest! {
        #[test]
        fn printing_and_reading_agree(
            name in "[a-z][a-z0-9_.:]{0,8}[a-z]",
            shape in prop::collection::vec(1u64..2000, 1..4),
            dtype in prop::option::of(prop::sample::select(DTYPES)),
        ) {
            let input = InputShape { name, shape, dtype: dtype.map(str::to_owned) };
            prop_assert_eq!(input.to_string().parse::<InputShape>().unwrap(), input);
        }

        #[test]
        fn never_panics(text in ".*") {
            let _ = text.parse::<InputShape>();
        }
    }
}
