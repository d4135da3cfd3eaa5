//! A JSON value kept as its text, so that a row carries structure without a column for each key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::cell::{Cell, ColumnType, Field, excerpt, expected, text_cell};

/// Text that is one valid JSON value. Two of them are equal when their text is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

impl JsonText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value as a type of the caller's choice.
    ///
    /// # Errors
    /// Fails if the JSON does not have that type's form.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<&serde_json::Value> for JsonText {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for JsonText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        check(text).map(|()| Self(text.to_owned()))
    }
}

/// Whether a text is one JSON value.
fn check(text: &str) -> Result<(), String> {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "expected JSON, found `{}`: {}",
            excerpt(text),
            fault(&error)
        )),
    }
}

/// What is wrong with one line of JSON, and at which of its columns. The line that the parser
/// names is always 1, which beside the line of a file would mislead.
pub(crate) fn fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) if error.column() > 0 => format!("{what} at column {}", error.column()),
        Some((what, _)) => what.to_owned(),
        None => text,
    }
}

impl Field for JsonText {
    const TYPE: ColumnType = ColumnType::Json;

    fn to_cell(&self) -> Cell<'_> {
        text_cell(Cow::Borrowed(&self.0))
    }

    fn from_cell(cell: Cell<'_>) -> Result<Self, String> {
        match cell {
            Cell::Text(text) => check(&text).map(|()| Self(text.into_owned())),
            other => Err(expected("text", &other)),
        }
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        // An equal text needs no second check.
        if text != self.0 {
            check(text)?;
            self.0.clear();
            self.0.push_str(text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_checked_and_kept() {
        let json: JsonText = r#"{"tile":[4, 16]}"#.parse().unwrap();
        assert_eq!(json.as_str(), r#"{"tile":[4, 16]}"#);
        let error = "{tile}".parse::<JsonText>().unwrap_err();
        assert!(
            error.starts_with("expected JSON, found `{tile}`"),
            "{error}"
        );
    }
}
