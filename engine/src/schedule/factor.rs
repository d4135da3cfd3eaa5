//! The factors of a schedule that a sweep can vary, and the values they take.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A factor of a schedule, by its name in sweeps (kebab-case). The device decides which factors there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Factor(Cow<'static, str>);

impl Factor {
    /// The factor of this name.
    pub const fn named(name: &'static str) -> Factor {
        Factor(Cow::Borrowed(name))
    }

    /// Its name in sweeps.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Factor {
    fn from(name: &str) -> Factor {
        Factor(Cow::Owned(name.to_owned()))
    }
}

/// The factor that says which algorithm computes an operator, where a device's templates have several. It matters more
/// than any other, so tuners begin with it.
pub const ALGORITHM: &str = "algorithm";

/// A factor that a device's templates have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactorInfo {
    /// The factor.
    pub factor: Factor,
    /// Its effect, in a few words.
    pub about: &'static str,
}

impl FactorInfo {
    /// A factor by its name in sweeps.
    pub const fn named(name: &'static str, about: &'static str) -> FactorInfo {
        FactorInfo {
            factor: Factor::named(name),
            about,
        }
    }
}

/// A value of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactorValue {
    /// An extent or a count.
    Number(i64),
    /// One of a few words.
    Word(String),
    /// Axes, outermost first.
    Order(Vec<String>),
}

impl std::fmt::Display for FactorValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FactorValue::Number(n) => write!(f, "{n}"),
            FactorValue::Word(word) => f.write_str(word),
            FactorValue::Order(axes) => f.write_str(&axes.join(",")),
        }
    }
}
