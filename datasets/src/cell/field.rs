//! The trait of a column's type: its value as a cell and back, and read from text.
//!
//! A row is read from cells by every format; from text where it is at hand, in the memory that the
//! row before had. The methods are not inlined: each of the 170 columns calls them, in several functions, and LLVM took
//! minutes for these.

use std::borrow::Cow;

use super::{Cell, ColumnType, Presence, expected, parse_cell};

/// The cells of a row in a text format.
pub(crate) trait TextCells {
    /// The text of a column, by its index in [`COLUMNS`](crate::COLUMNS): empty if missing. `None` if it is malformed.
    fn text(&mut self, column: usize) -> Option<&str>;
}

/// A type that a column of the table can have.
pub(crate) trait Field: Sized {
    /// The column's type.
    const TYPE: ColumnType;
    /// Whether the column may miss values.
    const PRESENCE: Presence = Presence::Required;

    /// The value as a cell.
    fn to_cell(&self) -> Cell<'_>;

    /// The value of a cell, or what is wrong with it.
    fn from_cell(cell: Cell<'_>) -> Result<Self, String>;

    /// Takes the value of a cell of a text format, in the memory of the value before where that
    /// can be. After an error any value is left.
    #[inline(never)]
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = Self::from_cell(parse_cell(Self::TYPE.storage(), text)?)?;
        Ok(())
    }

    /// Facts about the value without writing it out.
    fn glance(&self) -> Glance {
        Glance::There
    }
}

/// A value at a glance, for checks that need no text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Glance {
    /// Missing though every row needs it.
    Lacking,
    /// A floating-point number, which may be NaN.
    Float(f64),
    /// A value that is there, or allowed to be missing.
    There,
}

impl Field for u64 {
    const TYPE: ColumnType = ColumnType::Integer;

    #[inline(never)]
    fn to_cell(&self) -> Cell<'_> {
        Cell::Integer(*self)
    }

    #[inline(never)]
    fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
        match cell {
            Cell::Integer(value) => Ok(value),
            other => Err(expected("an unsigned integer", &other)),
        }
    }
}

impl Field for f64 {
    const TYPE: ColumnType = ColumnType::Float;

    #[inline(never)]
    fn to_cell(&self) -> Cell<'_> {
        Cell::Float(*self)
    }

    #[inline(never)]
    fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
        match cell {
            Cell::Float(value) if value.is_finite() => Ok(value),
            other => Err(expected("a finite number", &other)),
        }
    }

    fn glance(&self) -> Glance {
        Glance::Float(*self)
    }
}

impl Field for String {
    const TYPE: ColumnType = ColumnType::Text;

    #[inline(never)]
    fn to_cell(&self) -> Cell<'_> {
        text_cell(Cow::Borrowed(self))
    }

    #[inline(never)]
    fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
        match cell {
            Cell::Text(text) => Ok(text.into_owned()),
            other => Err(expected("text", &other)),
        }
    }

    #[inline(never)]
    fn read(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err(expected("text", &Cell::Missing));
        }
        self.clear();
        self.push_str(text);
        Ok(())
    }

    fn glance(&self) -> Glance {
        if self.is_empty() {
            Glance::Lacking
        } else {
            Glance::There
        }
    }
}

impl<T: Field> Field for Option<T> {
    const TYPE: ColumnType = T::TYPE;
    const PRESENCE: Presence = Presence::Optional;

    #[inline(never)]
    fn to_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Missing, T::to_cell)
    }

    #[inline(never)]
    fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
        match cell {
            Cell::Missing => Ok(None),
            cell => T::from_cell(cell).map(Some),
        }
    }

    #[inline(never)]
    fn read(&mut self, text: &str) -> Result<(), String> {
        match self {
            _ if text.is_empty() => *self = None,
            Some(value) => value.read(text)?,
            None => *self = Some(T::from_cell(parse_cell(T::TYPE.storage(), text)?)?),
        }
        Ok(())
    }

    fn glance(&self) -> Glance {
        match self.as_ref().map(T::glance) {
            Some(Glance::Float(value)) => Glance::Float(value),
            _ => Glance::There,
        }
    }
}

/// The value of a field before [`crate::Row::new`] sets it. It is missing, or a placeholder for the required columns,
/// which `new` sets.
pub(crate) trait Initial {
    /// The field's value before `Row::new` sets it.
    fn initial() -> Self;
}

impl Initial for u64 {
    fn initial() -> Self {
        0
    }
}

impl Initial for String {
    fn initial() -> Self {
        Self::new()
    }
}

impl<T> Initial for Option<T> {
    fn initial() -> Self {
        None
    }
}

/// A text cell; empty text is missing, because a CSV file cannot tell the two apart.
pub(crate) fn text_cell(text: Cow<'_, str>) -> Cell<'_> {
    if text.is_empty() {
        Cell::Missing
    } else {
        Cell::Text(text)
    }
}

/// Implements [`Field`] for a type that is text with a grammar: `Display` and `FromStr`. One that
/// can be read in the memory of the value before names the method that does.
macro_rules! text_field {
    ($ty:ty, $column_type:expr $(, $become:ident)?) => {
        impl crate::cell::Field for $ty {
            const TYPE: crate::cell::ColumnType = $column_type;

            #[inline(never)]
            fn to_cell(&self) -> crate::cell::Cell<'_> {
                crate::cell::text_cell(std::borrow::Cow::Owned(self.to_string()))
            }

            #[inline(never)]
            fn from_cell(cell: crate::cell::Cell<'_>) -> Result<Self, String> {
                match cell {
                    crate::cell::Cell::Text(text) => text.parse(),
                    other => Err(crate::cell::expected("text", &other)),
                }
            }

            $(fn read(&mut self, text: &str) -> Result<(), String> {
                if text.is_empty() {
                    let missing = crate::cell::Cell::Missing;
                    return Err(crate::cell::expected("text", &missing));
                }
                self.$become(text)
            })?
        }
    };
}
pub(crate) use text_field;
