//! Settings from five layers: command line over environment over TOML file over sweep over default.
//!
//! Owns the table of settings ([`SETTINGS`]), the merge, and the origin of each value ([`Origin`]). One key serves as
//! flag `--key`, as variable `OPCOLLECT_KEY` and as TOML key. Every layer is reduced to text, so one parser (in `plan`)
//! reads a value from any layer. Its error can then name the layer to mend. This module does not know the meaning of
//! the values.

mod file;
mod layers;
mod table;
mod toml_value;

pub use file::ConfigFile;
pub use layers::{Layers, Origin, Settings, SweepLayer, Value};
pub use table::{Arity, SETTINGS, Setting, TRACKER_VARIABLES, env_name};
pub(crate) use toml_value::Given;

use std::path::PathBuf;

use opreport::nearest::did_you_mean;
use thiserror::Error;

/// Faults of a configuration file or the environment, found before any value is read.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file named by `--config` cannot be read.
    #[error("cannot read the configuration file {}: {source}; give the path of a readable TOML file to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A key that is not a setting.
    #[error("{}:{line}: unknown key `{key}`{}; `opcollect --print-config` lists all keys", path.display(), hint(nearest))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The setting whose name is nearest, if any is near.
        nearest: Option<&'static str>,
    },
    /// A value whose TOML type cannot stand for the setting (a table, a date, a nested list).
    #[error("{}:{line}: `{key}` is {found}, but must be {expected}", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The value found.
        found: &'static str,
        /// The expected kinds of value.
        expected: &'static str,
    },
    /// An `OPCOLLECT_…` variable that is not a setting.
    #[error(
        "unknown environment variable {name}{}; unset it, or see `opcollect --print-config` for all names",
        hint(nearest)
    )]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable whose name is nearest, if any is near.
        nearest: Option<String>,
    },
    /// A variable whose value is not UTF-8.
    #[error("environment variable {name} is not valid UTF-8; set it again in plain text")]
    NotText {
        /// The variable.
        name: String,
    },
}

/// The hint of an error that knows a name close to the wrong one.
fn hint(nearest: &Option<impl std::fmt::Display>) -> String {
    let quoted: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    did_you_mean(&quoted)
}
