//! The TOML layer: a flat file whose keys are the settings' names.
//!
//! ```toml
//! modelname = "resnet-18"
//! threads = [1, 2]
//! budget = "2s"
//! ```

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::ConfigError;
use opreport::nearest::closest;

use super::table::{Arity, SETTINGS, Setting};

/// The values of one configuration file, each with the line it stands on.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: &'static str,
    line: usize,
    texts: Vec<String>,
}

impl ConfigFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Reads the text of a file; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut entries = Vec::new();
        for (key, value) in table.get_ref() {
            let line = line_of(text, key.span().start);
            let name = key.get_ref().as_ref();
            let setting =
                SETTINGS
                    .iter()
                    .find(|s| s.key == name)
                    .ok_or_else(|| ConfigError::UnknownKey {
                        path: path.to_owned(),
                        line,
                        key: name.to_owned(),
                        nearest: closest(name, SETTINGS.iter().map(|s| s.key)),
                    })?;
            let texts =
                texts(setting, value.get_ref()).map_err(|found| ConfigError::WrongType {
                    path: path.to_owned(),
                    line,
                    key: name.to_owned(),
                    found,
                    expected: expected(setting),
                })?;
            entries.push(Entry {
                key: setting.key,
                line,
                texts,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            entries,
        })
    }

    /// The texts of a setting and the line they stand on.
    pub(super) fn get(&self, key: &str) -> Option<(&[String], usize)> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| (entry.texts.as_slice(), entry.line))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn expected(setting: &Setting) -> &'static str {
    match setting.arity {
        Arity::One => "one string or number",
        Arity::List => "a string, a number, or a list of them",
        Arity::Switch => "true or false",
    }
}

/// The value as texts, or the name of the type that does not fit.
fn texts(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    match (setting.arity, value) {
        (Arity::Switch, DeValue::Boolean(on)) => Ok(vec![on.to_string()]),
        (Arity::Switch, other) => Err(type_name(other)),
        (Arity::List, DeValue::Array(items)) => list_texts(items),
        (_, scalar) => scalar_text(scalar).map(|text| vec![text]),
    }
}

fn list_texts(items: &DeArray<'_>) -> Result<Vec<String>, &'static str> {
    items
        .iter()
        .map(Spanned::get_ref)
        .map(|item| {
            scalar_text(item).map_err(|_| "a list with other things than strings and numbers")
        })
        .collect()
}

fn scalar_text(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        other => Err(type_name(other)),
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The line, from 1, of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("job.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn scalars_and_lists_become_text() {
        let file = parse("threads = [1, 2]\nci = 0.02\niftune = false\ninput = 'x:1x3'").unwrap();
        assert_eq!(
            file.get("threads").unwrap(),
            (&["1".into(), "2".into()][..], 1)
        );
        assert_eq!(file.get("ci").unwrap().0, ["0.02"]);
        assert_eq!(file.get("iftune").unwrap().0, ["false"]);
        assert_eq!(file.get("input").unwrap(), (&["x:1x3".to_owned()][..], 4));
        assert!(file.get("seed").is_none());
    }

    #[test]
    fn errors_name_line_and_remedy() {
        insta::assert_snapshot!(parse("seed = 1\n\nthread = 2").unwrap_err(),
            @"job.toml:3: unknown key `thread` (did you mean `threads`?); `opcollect --print-config` lists all keys");
        insta::assert_snapshot!(parse("seed = [1]").unwrap_err(),
            @"job.toml:1: `seed` is a list, but must be one string or number");
        insta::assert_snapshot!(parse("iftune = 'yes'").unwrap_err(),
            @"job.toml:1: `iftune` is a string, but must be true or false");
        insta::assert_snapshot!(parse("threads = [[1]]").unwrap_err(),
            @"job.toml:1: `threads` is a list with other things than strings and numbers, but must be a string, a number, or a list of them");
        assert!(
            parse("seed 1")
                .unwrap_err()
                .starts_with("job.toml:1: not TOML:")
        );
    }
}
