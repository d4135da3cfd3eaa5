//! The factors of a sweep file, `[vary]` and `[fix]`. Those of the schedule stay factors; those of the run become
//! settings or other shapes to import.

use opengine::schedule::FactorValue;
use toml::{Spanned, Value};

use super::Values;
use super::error::{SweepError, SweepText};
use super::file::{SweepFile, texts};
use crate::config::SETTINGS;

/// Factors of the run rather than of the schedule, and the setting of each.
pub(super) const RUN_FACTORS: [(&str, RunFactor); 4] = [
    ("threads", RunFactor::Setting("threads")),
    ("cache", RunFactor::Setting("cache")),
    ("batch", RunFactor::Batch),
    ("input-size", RunFactor::InputSize),
];

#[derive(Clone, Copy)]
pub(super) enum RunFactor {
    Setting(&'static str),
    Batch,
    InputSize,
}

impl SweepFile {
    /// Reads an entry of `[vary]`.
    pub(super) fn vary(
        &mut self,
        toml_text: &SweepText<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        if let Some((_, factor)) = RUN_FACTORS.iter().find(|(n, _)| *n == name) {
            return self.vary_run(toml_text, name, *factor, value);
        }
        let factor = self.unchecked.factor(toml_text, key);
        let wrong = |problem: &str, next| {
            Err(toml_text.wrong(value.span().start, format!("`{name}` {problem}"), next))
        };
        let listed = value.get_ref().as_array();
        let settings = listed.map(|l| l.iter().map(setting_of).collect::<Option<Vec<_>>>());
        let values = match settings.flatten() {
            _ if is_all(value) => Values::All,
            Some(settings) if !settings.is_empty() => Values::Listed(settings),
            Some(_) => {
                return wrong(
                    "varies over no value",
                    "list values, or write \"all\" for those that each operator offers",
                );
            }
            None => {
                return wrong(
                    "is neither \"all\" nor a list of values",
                    "write \"all\", or a list such as [1, 2, 4]",
                );
            }
        };
        self.sweep.vary.insert(factor, values);
        Ok(())
    }

    /// A factor of the run: it becomes a setting, or other shapes to import.
    fn vary_run(
        &mut self,
        toml_text: &SweepText<'_>,
        name: &str,
        factor: RunFactor,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let at = value.span().start;
        if is_all(value) && name == "threads" {
            self.settings.insert("threads", vec!["1..max".to_owned()]);
            return Ok(());
        }
        let Some(listed) = value.get_ref().as_array().filter(|l| !l.is_empty()) else {
            return Err(toml_text.wrong(
                at,
                format!("`{name}` must be a list of at least one value"),
                "list its values, as in threads = [1, 2, \"max\"]",
            ));
        };
        let numbers = || {
            let positive = |v: &Value| v.as_integer().filter(|n| *n > 0).map(|n| n as u64);
            let numbers: Option<Vec<u64>> = listed.iter().map(positive).collect();
            numbers.ok_or_else(|| {
                toml_text.wrong(
                    at,
                    format!("`{name}` takes whole numbers from 1 up"),
                    "as in batch = [1, 4, 16]",
                )
            })
        };
        match factor {
            RunFactor::Setting(key) => {
                if let Some(setting) = SETTINGS.iter().find(|s| s.key == key) {
                    self.settings.insert(key, texts(toml_text, setting, value)?);
                }
            }
            RunFactor::Batch => self.sweep.batches = numbers()?,
            RunFactor::InputSize => self.sweep.input_sizes = numbers()?,
        }
        Ok(())
    }

    /// Reads an entry of `[fix]`.
    pub(super) fn fix(
        &mut self,
        toml_text: &SweepText<'_>,
        key: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), SweepError> {
        let name = key.get_ref().as_str();
        let factor = self.unchecked.factor(toml_text, key);
        if self.sweep.vary.contains_key(&factor) {
            return Err(toml_text.wrong(
                key.span().start,
                format!("`{name}` is both varied and fixed"),
                "keep it in one of [vary] and [fix]",
            ));
        }
        let setting = setting_of(value.get_ref()).ok_or_else(|| {
            toml_text.wrong(
                value.span().start,
                format!("`{name}` is not one value"),
                "fix it to a number, a word, or an order of axes",
            )
        })?;
        self.sweep.fix.insert(factor, setting);
        Ok(())
    }
}

/// Whether a factor is to take all values that each operator offers.
fn is_all(value: &Spanned<Value>) -> bool {
    value.get_ref().as_str() == Some("all")
}

fn setting_of(value: &Value) -> Option<FactorValue> {
    match value {
        Value::Integer(i) => Some(FactorValue::Number(*i)),
        Value::String(word) => Some(FactorValue::Word(word.clone())),
        Value::Array(axes) => {
            let axes: Option<Vec<String>> =
                axes.iter().map(|a| a.as_str().map(str::to_owned)).collect();
            axes.map(FactorValue::Order)
        }
        _ => None,
    }
}
