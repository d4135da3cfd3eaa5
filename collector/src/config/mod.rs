//! Settings from five layers: command line over environment over TOML file over sweep over default.
//!
//! Owns the table of settings ([`SETTINGS`]), the merge, and where each value came from
//! ([`Origin`]). One key serves as flag `--key`, as variable `OPCOLLECT_KEY` and as TOML key. Every
//! layer is reduced to text, so one parser (in `plan`) reads a value whatever its layer. Its error
//! can then say which layer to mend. It knows nothing of what the values mean.

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

/// What can be wrong with a configuration file or the environment, before any value is read.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file named by `--config` cannot be read.
    #[error("cannot read the configuration file {}: {source}; give the path of a readable TOML file to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A key that is no setting.
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
        /// What stands there.
        found: &'static str,
        /// What may stand there.
        expected: &'static str,
    },
    /// An `OPCOLLECT_…` variable that is no setting.
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
