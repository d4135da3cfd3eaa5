//! Sizes of a model that is built from a configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ImportError, Result};
use crate::files;

/// The user's changes to an architecture's own configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Architecture {
    /// Elements of a token's vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u64>,
    /// Layers; of an encoder and a decoder each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<u64>,
    /// Attention heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Width of a feed-forward layer, in elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intermediate: Option<u64>,
    /// A configuration as `transformers` saves it (`config.json`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
}

impl Architecture {
    /// Whether nothing is changed.
    pub fn is_default(&self) -> bool {
        *self == Architecture::default()
    }

    /// The sizes that are given, by name.
    pub fn sizes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
            ("intermediate", self.intermediate),
        ]
        .into_iter()
        .filter_map(|(name, size)| Some((name, size?)))
    }
}

impl fmt::Display for Architecture {
    /// `configuration FILE, hidden 128, layers 2`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config.as_ref();
        let parts: Vec<String> = config
            .map(|path| format!("configuration {}", path.display()))
            .into_iter()
            .chain(self.sizes().map(|(name, value)| format!("{name} {value}")))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

/// Reads a configuration file: one JSON object.
///
/// # Errors
/// Fails if there is no such file, or if it is not a JSON object.
pub(super) fn read_config(path: &Path) -> Result<Map<String, Value>> {
    let text = files::read_text(path)?;
    serde_json::from_str(&text).map_err(|error| ImportError::CorruptModel {
        message: format!(
            "{}: not a configuration, which is one JSON object ({error})",
            path.display()
        ),
    })
}
