//! The merge of the layers: for every setting the topmost layer that has a value wins, and the
//! value keeps its [`Origin`]. The layers come in as plain data, so tests need no process state.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use opreport::nearest::closest;
use serde::Serialize;

use super::table::{Arity, ENV_PREFIX, SETTINGS, TRACKER_VARIABLES, env_name};
use super::{ConfigError, ConfigFile};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum Origin {
    /// A flag.
    CommandLine,
    /// A variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A line of the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The sweep of this name.
    Sweep {
        /// The sweep.
        name: String,
    },
    /// The built-in default.
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Sweep { name } => write!(f, "sweep {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting's value as text, and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Value {
    /// The setting.
    pub key: &'static str,
    /// The texts: none for an unset setting, one for most, several for lists.
    pub texts: Vec<String>,
    /// Their origin.
    pub origin: Origin,
}

impl Value {
    /// The value on one line, `-` for none.
    pub fn text(&self) -> String {
        if self.texts.is_empty() {
            "-".to_owned()
        } else {
            self.texts.join(",")
        }
    }

    /// Whether a layer above the default gave it.
    pub fn is_given(&self) -> bool {
        self.origin != Origin::Default
    }
}

/// The layers above the defaults, topmost first.
#[derive(Debug, Default)]
pub struct Layers {
    /// Texts of the flags that were given, by setting.
    pub command_line: BTreeMap<&'static str, Vec<String>>,
    /// The environment; variables that are no settings of ours may be among them.
    pub environment: Vec<(OsString, OsString)>,
    /// The configuration file, if one was named.
    pub file: Option<ConfigFile>,
    /// The settings of the sweep, if there is one.
    pub sweep: Option<SweepLayer>,
}

/// The settings that a sweep brings.
#[derive(Debug, Clone)]
pub struct SweepLayer {
    /// The sweep.
    pub name: String,
    /// Texts by setting.
    pub texts: BTreeMap<&'static str, Vec<String>>,
}

/// Variables with our prefix that other parts of the program read; no settings, but no mistakes.
const OTHER_VARIABLES: &[&str] = &["OPCOLLECT_HOME", "OPCOLLECT_CONFIG"];

impl Layers {
    /// Merges the layers over the defaults.
    pub fn merge(&self) -> Result<Settings, ConfigError> {
        let environment = self.variables()?;
        let values = SETTINGS
            .iter()
            .map(|setting| {
                let key = setting.key;
                let (texts, origin) = if let Some(texts) = self.command_line.get(key) {
                    (texts.clone(), Origin::CommandLine)
                } else if let Some((variable, text)) = environment.get(key) {
                    let variable = variable.clone();
                    (vec![text.clone()], Origin::Environment { variable })
                } else if let Some((file, (texts, line))) =
                    self.file.as_ref().and_then(|f| f.get(key).map(|v| (f, v)))
                {
                    let path = file.path().to_owned();
                    (texts.to_vec(), Origin::File { path, line })
                } else if let Some((sweep, texts)) = self
                    .sweep
                    .as_ref()
                    .and_then(|s| s.texts.get(key).map(|t| (s, t)))
                {
                    let name = sweep.name.clone();
                    (texts.clone(), Origin::Sweep { name })
                } else {
                    (
                        setting.default.map(str::to_owned).into_iter().collect(),
                        Origin::Default,
                    )
                };
                // Lists come as "1,2" from one flag or variable as well as in several pieces.
                let texts = if setting.arity == Arity::List {
                    split_list(&texts)
                } else {
                    texts
                };
                Value { key, texts, origin }
            })
            .collect();
        Ok(Settings { values })
    }

    /// Our variables by setting. An empty variable counts as unset, as shells can hardly unset
    /// one for a single command.
    fn variables(&self) -> Result<BTreeMap<&'static str, (String, String)>, ConfigError> {
        let names: Vec<(String, &'static str)> =
            SETTINGS.iter().map(|s| (env_name(s.key), s.key)).collect();
        let mut found = BTreeMap::new();
        for (variable, key) in TRACKER_VARIABLES {
            let set = self.environment.iter().find(|(name, _)| name == variable);
            if let Some(value) = set
                .and_then(|(_, value)| value.to_str())
                .filter(|v| !v.is_empty())
            {
                found.insert(key, (variable.to_owned(), value.to_owned()));
            }
        }
        for (name, value) in &self.environment {
            let Some(name) = name.to_str().filter(|n| n.starts_with(ENV_PREFIX)) else {
                continue;
            };
            if OTHER_VARIABLES.contains(&name) || value.is_empty() {
                continue;
            }
            let Some((_, key)) = names.iter().find(|(candidate, _)| candidate == name) else {
                return Err(ConfigError::UnknownVariable {
                    name: name.to_owned(),
                    nearest: closest(name, names.iter().map(|(n, _)| n.as_str()))
                        .map(str::to_owned),
                });
            };
            let value = value.to_str().ok_or_else(|| ConfigError::NotText {
                name: name.to_owned(),
            })?;
            found.insert(*key, (name.to_owned(), value.to_owned()));
        }
        Ok(found)
    }
}

/// Splits list texts at commas. Empty pieces stay, for the value's parser to complain about.
fn split_list(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .flat_map(|text| text.split(','))
        .map(|piece| piece.trim().to_owned())
        .collect()
}

/// All settings with their values and origins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    values: Vec<Value>,
}

impl Settings {
    /// The value of a setting of [`SETTINGS`]; an unset one for any other key.
    pub fn get(&self, key: &'static str) -> Value {
        self.values
            .iter()
            .find(|value| value.key == key)
            .cloned()
            .unwrap_or(Value {
                key,
                texts: Vec::new(),
                origin: Origin::Default,
            })
    }

    /// All values, in the table's order.
    pub fn values(&self) -> &[Value] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn layers(flags: &[(&'static str, &str)], env: &[(&str, &str)], file: &str) -> Layers {
        Layers {
            command_line: flags
                .iter()
                .map(|(key, text)| (*key, vec![(*text).to_owned()]))
                .collect(),
            environment: env.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            file: Some(ConfigFile::parse(Path::new("job.toml"), file).unwrap()),
            sweep: Some(SweepLayer {
                name: "quick".to_owned(),
                texts: BTreeMap::from([
                    ("seed", vec!["9".to_owned()]),
                    ("budget", vec!["60ms".to_owned()]),
                ]),
            }),
        }
    }

    #[test]
    fn the_topmost_layer_wins() {
        let settings = layers(
            &[("threads", "4")],
            &[
                ("OPCOLLECT_THREADS", "3"),
                ("OPCOLLECT_SEED", "3"),
                ("HOME", "/"),
            ],
            "threads = 2\nseed = 2\nbatchsize = 2",
        )
        .merge()
        .unwrap();
        let threads = settings.get("threads");
        assert_eq!(
            (threads.text().as_str(), threads.origin),
            ("4", Origin::CommandLine)
        );
        let seed = settings.get("seed");
        assert_eq!(
            (seed.text(), seed.origin.to_string()),
            ("3".into(), "environment OPCOLLECT_SEED".into())
        );
        let batch = settings.get("batchsize");
        assert_eq!(
            (batch.text(), batch.origin.to_string()),
            ("2".into(), "job.toml:3".into())
        );
        let target = settings.get("target");
        assert_eq!((target.text().as_str(), target.is_given()), ("llvm", false));
        assert_eq!(settings.get("modelname").text(), "-");
        let budget = settings.get("budget");
        assert_eq!(
            (budget.text().as_str(), budget.origin.to_string().as_str()),
            ("60ms", "sweep quick"),
            "a sweep goes before the default and behind all else"
        );
    }

    #[test]
    fn lists_split_at_commas_and_blank_variables_are_unset() {
        let settings = layers(&[("threads", "1, 2")], &[("OPCOLLECT_CACHE", "")], "")
            .merge()
            .unwrap();
        assert_eq!(settings.get("threads").texts, ["1", "2"]);
        assert_eq!(settings.get("cache").origin, Origin::Default);
    }

    #[test]
    fn mistyped_variables_are_reported() {
        let error = layers(&[], &[("OPCOLLECT_THREAD", "2")], "")
            .merge()
            .unwrap_err();
        insta::assert_snapshot!(error, @"unknown environment variable OPCOLLECT_THREAD (did you mean `OPCOLLECT_THREADS`?); unset it, or see `opcollect --print-config` for all names");
    }
}
