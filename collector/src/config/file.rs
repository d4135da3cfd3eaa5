//! The TOML layer: a flat file whose keys are the settings' names.
//!
//! ```toml
//! modelname = "resnet-18"
//! threads = [1, 2]
//! budget = "2s"
//!
//! [remote]                       # settings of another machine, which may stand in a table of their own
//! key = "rpi4"
//! ```

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use opdata::line_of;
use opreport::nearest::closest;

use super::ConfigError;
use super::table::SETTINGS;
use super::toml_value::Given;

/// A table whose keys are settings like those outside it.
const REMOTE: &str = "remote";

/// The values of one configuration file, each with its line.
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
    /// Reads a settings file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = opdata::read_text(path).map_err(|source| ConfigError::Unreadable {
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
        let mut given = Vec::new();
        for (key, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(remote) if key.get_ref() == REMOTE => given.extend(remote.iter()),
                _ => given.push((key, value)),
            }
        }
        for (key, value) in given {
            let line = line_of(text, key.span().start);
            let name = match key.get_ref().as_ref() {
                // The setting's name until November 2026.
                "patience" => "remeasure-budget",
                name => name,
            };
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
            let texts = Given::from(value.get_ref())
                .texts(setting)
                .map_err(|wrong| ConfigError::WrongType {
                    path: path.to_owned(),
                    line,
                    key: name.to_owned(),
                    found: wrong.found,
                    expected: wrong.expected,
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

    /// The texts of a setting and their line.
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
    fn settings_of_another_machine_may_stand_in_a_table() {
        let file =
            parse("seed = 1\n[remote]\nhost = 'tracker'\nport = 9190\nkey = 'rpi4'").unwrap();
        assert_eq!(file.get("host").unwrap(), (&["tracker".to_owned()][..], 3));
        assert_eq!(file.get("key").unwrap().0, ["rpi4"]);
        let error = parse("[remote]\nhots = 'tracker'").unwrap_err();
        assert!(
            error.starts_with("job.toml:2: unknown key `hots` (did you mean `host`?)"),
            "{error}"
        );
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
