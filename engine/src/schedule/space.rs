//! The template space of an operator: which factors its schedule has and the values each can take.
//!
//! A [`Space`] is plain data. It is made where the operator's TensorIR is at hand ([`super::Templates::space`]) and
//! sampled where the plan is. Values are listed axis by axis and on their own. The device decides which combinations
//! are possible and worth compiling.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::choice::Choice;
use super::factor::{Factor, FactorValue};

/// The schedule space of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// The default schedule: the value of every factor that is not varied.
    pub base: Choice,
    /// The factors with their values; each dimension contains the base's own value.
    pub dimensions: Vec<Dimension>,
    /// Sizes that the device checks combinations against (extents of loops, …), in its own form.
    pub shape: Value,
}

/// A factor. It has an axis if it is a factor of one axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    /// The factor.
    pub factor: Factor,
    /// The axis.
    pub axis: Option<String>,
    /// Its values.
    pub values: Vec<FactorValue>,
}

/// A value for each of some factors of a space.
pub type FactorSettings<'a> = [(&'a Dimension, &'a FactorValue)];

/// The schedule of a space with some settings, or why the combination is impossible or not worth compiling.
pub type Combined = Result<Choice, String>;

impl Space {
    /// A space of `base` and the dimensions that have more than one value.
    pub fn new(base: Choice, mut dimensions: Vec<Dimension>, shape: Value) -> Space {
        dimensions.retain(|d| d.values.len() > 1);
        Space {
            base,
            dimensions,
            shape,
        }
    }

    /// A space with the sizes that the device checks combinations against.
    ///
    /// # Errors
    /// Fails if the shape has no JSON form.
    pub fn with_shape(
        base: Choice,
        dimensions: Vec<Dimension>,
        shape: &impl Serialize,
    ) -> Result<Space, serde_json::Error> {
        Ok(Space::new(base, dimensions, serde_json::to_value(shape)?))
    }

    /// The sizes that the device checks combinations against, as passed to [`Space::with_shape`]. `None` for a single
    /// schedule.
    ///
    /// # Errors
    /// Fails if it is of another device, or another version of this program.
    pub fn shape<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        match &self.shape {
            Value::Null => Ok(None),
            shape => T::deserialize(shape).map(Some),
        }
    }

    /// The space of the one schedule `base`.
    pub fn fixed(base: Choice) -> Space {
        Space::new(base, Vec::new(), Value::Null)
    }

    /// Number of combinations, the impossible ones included.
    pub fn size(&self) -> f64 {
        self.dimensions
            .iter()
            .map(|d| d.values.len() as f64)
            .product()
    }
}

impl Dimension {
    /// A factor with numbers for values, `base` among them.
    pub fn numbers(factor: Factor, values: impl IntoIterator<Item = i64>, base: i64) -> Dimension {
        let mut values: Vec<i64> = values.into_iter().chain([base]).collect();
        values.sort_unstable();
        values.dedup();
        Dimension {
            factor,
            axis: None,
            values: values.into_iter().map(FactorValue::Number).collect(),
        }
    }

    /// A factor with words for values.
    pub fn words<'a>(factor: Factor, words: impl IntoIterator<Item = &'a str>) -> Dimension {
        let word = |word: &str| FactorValue::Word(word.to_owned());
        Dimension {
            factor,
            axis: None,
            values: words.into_iter().map(word).collect(),
        }
    }

    /// The dimension for one axis.
    pub fn of_axis(self, axis: &str) -> Dimension {
        Dimension {
            axis: Some(axis.to_owned()),
            ..self
        }
    }

    /// Its name: the factor, and the axis after a dot.
    pub fn name(&self) -> String {
        match &self.axis {
            Some(axis) => format!("{}.{axis}", self.factor.name()),
            None => self.factor.name().to_owned(),
        }
    }
}
