//! Extents (`3x3`) and lists of shapes (`1x64x56x56;64`).
//!
//! `Dims` joins extents with `x`; a tensor without axes is `scalar`. `Shapes` joins shapes with
//! `;`, one for each tensor, in the order of the operator's arguments.

use std::fmt;
use std::str::FromStr;

use crate::cell::{ColumnType, excerpt, text_field};

/// What a shape without axes is called.
const SCALAR: &str = "scalar";

/// Extents along axes, outermost first: a shape, a kernel size, strides, paddings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dims(pub Vec<u64>);

impl Dims {
    /// Replaces the extents by those of a text.
    fn become_that_of(&mut self, text: &str) -> Result<(), String> {
        self.0.clear();
        if text == SCALAR {
            return Ok(());
        }
        for extent in text.split('x') {
            self.0.push(extent.parse().map_err(|_| {
                format!(
                    "expected extents like `3x3` or `{SCALAR}`, found `{}`",
                    excerpt(text)
                )
            })?);
        }
        Ok(())
    }

    /// The number of elements; 1 for a scalar, `None` if it exceeds 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.0
            .iter()
            .try_fold(1u64, |product, &extent| product.checked_mul(extent))
    }
}

impl FromIterator<u64> for Dims {
    fn from_iter<I: IntoIterator<Item = u64>>(extents: I) -> Self {
        Self(extents.into_iter().collect())
    }
}

impl From<Vec<u64>> for Dims {
    fn from(extents: Vec<u64>) -> Self {
        Self(extents)
    }
}

impl From<&[u64]> for Dims {
    fn from(extents: &[u64]) -> Self {
        Self(extents.to_vec())
    }
}

impl<const N: usize> From<[u64; N]> for Dims {
    fn from(extents: [u64; N]) -> Self {
        Self(extents.to_vec())
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else {
            return f.write_str(SCALAR);
        };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|extent| write!(f, "x{extent}"))
    }
}

impl FromStr for Dims {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut dims = Self::default();
        dims.become_that_of(text)?;
        Ok(dims)
    }
}

/// The shapes of several tensors. An empty list is the same as a missing cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shapes(pub Vec<Dims>);

impl Shapes {
    /// Replaces the shapes by those of a text.
    fn become_that_of(&mut self, text: &str) -> Result<(), String> {
        let mut count = 0;
        for one in text.split(';') {
            if count == self.0.len() {
                self.0.push(Dims::default());
            }
            self.0[count].become_that_of(one)?;
            count += 1;
        }
        self.0.truncate(count);
        Ok(())
    }
}

impl<D: Into<Dims>> FromIterator<D> for Shapes {
    fn from_iter<I: IntoIterator<Item = D>>(shapes: I) -> Self {
        Self(shapes.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(position, dims)| {
            write!(f, "{}{dims}", if position == 0 { "" } else { ";" })
        })
    }
}

impl FromStr for Shapes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut shapes = Self::default();
        shapes.become_that_of(text)?;
        Ok(shapes)
    }
}

text_field!(Dims, ColumnType::Dims, become_that_of);
text_field!(Shapes, ColumnType::Shapes, become_that_of);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_with_x_and_semicolons() {
        let shapes: Shapes = [vec![1, 64, 56, 56], vec![], vec![64]]
            .into_iter()
            .collect();
        assert_eq!(shapes.to_string(), "1x64x56x56;scalar;64");
        assert_eq!("1x64x56x56;scalar;64".parse(), Ok(shapes));
    }

    #[test]
    fn damaged_extents_are_quoted() {
        let error = "1x-2".parse::<Dims>().unwrap_err();
        assert_eq!(
            error,
            "expected extents like `3x3` or `scalar`, found `1x-2`"
        );
        assert!("1x64;".parse::<Shapes>().is_err());
    }

    #[test]
    fn elements_do_not_overflow() {
        assert_eq!(Dims::default().elements(), Some(1));
        assert_eq!(Dims::from([u64::MAX, 2]).elements(), None);
    }
}
