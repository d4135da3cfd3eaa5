//! Reads one setting at a time. An error names the setting, its layer, the reason and the remedy.

use opreport::nearest::{closest, did_you_mean};

use super::{PlanError, parse};
use crate::config::{Settings, Value};

pub(super) fn duration(settings: &Settings, key: &'static str) -> Result<u64, PlanError> {
    required(
        settings,
        key,
        parse::duration_ns,
        "give a duration such as 500ms or 2s",
    )
}

pub(super) fn number(
    settings: &Settings,
    key: &'static str,
    low: u64,
    high: u64,
) -> Result<u64, PlanError> {
    required(
        settings,
        key,
        |text| parse::count(text, low, high),
        "give a whole number",
    )
}

/// The one value of a setting, if it has any; an error if it has several or an empty one.
pub(super) fn single(
    settings: &Settings,
    key: &'static str,
) -> Result<Option<(Value, String)>, PlanError> {
    let value = settings.get(key);
    match value.texts.as_slice() {
        [] => Ok(None),
        [text] if text.trim().is_empty() => Err(bad(
            &value,
            "\"\"",
            "empty",
            "give a value, or leave it out",
        )),
        [text] => Ok(Some((value.clone(), text.clone()))),
        _ => Err(bad(
            &value,
            &value.text(),
            "given more than once",
            "give it once",
        )),
    }
}

/// A setting that is on or off.
pub(super) fn switch(settings: &Settings, key: &'static str) -> Result<bool, PlanError> {
    required(
        settings,
        key,
        |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("neither true nor false".to_owned()),
        },
        "give true or false",
    )
}

/// The value of a setting that may be left out.
pub(super) fn optional<T>(
    settings: &Settings,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
    next: &str,
) -> Result<Option<T>, PlanError> {
    match single(settings, key)? {
        None => Ok(None),
        Some(_) => required(settings, key, read, next).map(Some),
    }
}

/// The value of a setting that has a default.
pub(super) fn required<T>(
    settings: &Settings,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
    next: &str,
) -> Result<T, PlanError> {
    let (value, text) = single(settings, key)?.ok_or_else(|| PlanError::Missing {
        key,
        next: next.to_owned(),
    })?;
    read(&text).map_err(|problem| bad(&value, &text, &problem, next))
}

/// The values of a list, each once, in order.
pub(super) fn unique<T: PartialEq>(
    settings: &Settings,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
    next: &str,
) -> Result<Vec<T>, PlanError> {
    let value = settings.get(key);
    let mut values = Vec::new();
    for text in &value.texts {
        let one = read(text).map_err(|problem| bad(&value, text, &problem, next))?;
        if !values.contains(&one) {
            values.push(one);
        }
    }
    Ok(values)
}

/// Reads a list that must not be empty; a TOML file's may be empty.
pub(super) fn at_least_one<T: PartialEq>(
    settings: &Settings,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
    next: &str,
) -> Result<Vec<T>, PlanError> {
    let values = unique(settings, key, read, next)?;
    if values.is_empty() {
        return Err(bad(&settings.get(key), "[]", "an empty list", next));
    }
    Ok(values)
}

pub(super) fn bad(value: &Value, text: &str, problem: &str, next: &str) -> PlanError {
    PlanError::BadValue {
        key: value.key,
        value: text.to_owned(),
        origin: value.origin.clone(),
        problem: problem.to_owned(),
        next: next.to_owned(),
    }
}

pub(super) fn not_available(value: &Value, text: &str, problem: &str, next: &str) -> PlanError {
    PlanError::NotAvailable {
        key: value.key,
        value: text.to_owned(),
        origin: value.origin.clone(),
        problem: problem.to_owned(),
        next: next.to_owned(),
    }
}

pub(super) fn hint<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(closest(name, names).as_slice())
}
