//! TOML values as the texts that the command line would have: one conversion for settings files, sweeps and nightly jobs.

use toml::de::DeValue;
use toml::{Spanned, Value};

use super::table::{Arity, Setting};

/// A TOML value, as far as a setting can use it.
///
/// Settings files keep numbers as they are spelt (`DeValue`); sweeps and nightly configurations are read by serde (`Value`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    /// A string.
    String(String),
    /// A number, as text.
    Number(String),
    /// `true` or `false`.
    Switch(bool),
    /// A list.
    List(Vec<Given>),
    /// A date.
    Date,
    /// A table.
    Table,
}

/// A value of a TOML type that the setting cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongType {
    /// The value found.
    pub found: &'static str,
    /// The expected kinds of value.
    pub expected: &'static str,
}

impl std::fmt::Display for WrongType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "is {}, but must be {}", self.found, self.expected)
    }
}

impl Given {
    /// The text of a string or a number.
    pub(crate) fn scalar(&self) -> Result<String, WrongType> {
        self.as_scalar()
            .ok_or_else(|| self.wrong("a string or a number"))
    }

    /// The texts of a setting: one, or for lists any number.
    pub(crate) fn texts(&self, setting: &Setting) -> Result<Vec<String>, WrongType> {
        const LIST: &str = "a string, a number, or a list of them";
        let one = |text: Option<String>| text.map(|text| vec![text]);
        match (setting.arity, self) {
            (Arity::Switch, Given::Switch(on)) => Ok(vec![on.to_string()]),
            (Arity::Switch, other) => Err(other.wrong("true or false")),
            (Arity::One, value) => {
                one(value.as_scalar()).ok_or_else(|| value.wrong("one string or number"))
            }
            (Arity::List, Given::List(items)) => {
                let texts: Option<Vec<String>> = items.iter().map(Given::as_scalar).collect();
                texts.ok_or(WrongType {
                    found: "a list with other things than strings and numbers",
                    expected: LIST,
                })
            }
            (Arity::List, value) => one(value.as_scalar()).ok_or_else(|| value.wrong(LIST)),
        }
    }

    fn as_scalar(&self) -> Option<String> {
        match self {
            Given::String(text) | Given::Number(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn wrong(&self, expected: &'static str) -> WrongType {
        let found = match self {
            Given::String(_) => "a string",
            Given::Number(_) => "a number",
            Given::Switch(_) => "true or false",
            Given::List(_) => "a list",
            Given::Date => "a date",
            Given::Table => "a table",
        };
        WrongType { found, expected }
    }
}

impl From<&Value> for Given {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Given::String(text.clone()),
            Value::Integer(number) => Given::Number(number.to_string()),
            Value::Float(number) => Given::Number(number.to_string()),
            Value::Boolean(on) => Given::Switch(*on),
            Value::Array(items) => Given::List(items.iter().map(Given::from).collect()),
            Value::Datetime(_) => Given::Date,
            Value::Table(_) => Given::Table,
        }
    }
}

impl From<&DeValue<'_>> for Given {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Given::String(text.to_string()),
            DeValue::Integer(number) => Given::Number(number.to_string()),
            DeValue::Float(number) => Given::Number(number.to_string()),
            DeValue::Boolean(on) => Given::Switch(*on),
            DeValue::Array(items) => {
                let items = items.iter().map(Spanned::get_ref);
                Given::List(items.map(Given::from).collect())
            }
            DeValue::Datetime(_) => Given::Date,
            DeValue::Table(_) => Given::Table,
        }
    }
}
