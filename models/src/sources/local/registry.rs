//! The models of source `local`: `registry.toml` beside the zoo.
//!
//! Owns parsing and looking up by name or alias. Format 1 is described at the head of the file itself; unknown fields
//! are ignored so that an older binary reads a newer registry.

use std::path::{Path, PathBuf};

use opreport::nearest::{nearest, simplify};
use serde::{Deserialize, Serialize};

use crate::error::{ImportError, Result};
use crate::files;
use crate::graph::Fill;

/// The registry's format that this crate reads.
const FORMAT: u32 = 1;

/// All models of source `local`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Registry {
    format: u32,
    /// The models, in the order of the file.
    #[serde(rename = "model", default)]
    pub models: Vec<Model>,
    /// Folder that `file` entries are relative to.
    #[serde(skip)]
    folder: PathBuf,
}

/// One model of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The name to show.
    pub name: String,
    /// Other names that a user may write.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// One line for people.
    pub title: String,
    /// Architecture family.
    #[serde(default)]
    pub family: String,
    /// The task of the model.
    #[serde(default)]
    pub task: String,
    /// The ONNX graph, relative to the registry.
    pub file: PathBuf,
    /// The public definition that the graph was made from.
    pub origin: Origin,
    /// Trainable parameters.
    pub params: Option<u64>,
    /// Multiply-adds at the defaults.
    pub macs: Option<u64>,
    /// The published value.
    pub published_macs: Option<u64>,
    /// The publication.
    pub published_source: Option<String>,
    /// True inputs in order.
    pub inputs: Vec<ModelInput>,
    /// Extents of the symbols.
    #[serde(default)]
    pub defaults: Defaults,
    /// Largest extents of the symbols.
    #[serde(default)]
    pub limits: Defaults,
}

/// The origin of a model's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Library or document.
    pub library: String,
    /// Its version.
    pub version: Option<String>,
    /// The call that makes the model.
    pub constructor: Option<String>,
}

/// An input of the model that is no weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInput {
    /// Its name in the graph.
    pub name: String,
    /// Numbers and the symbols `batch` and `seq`.
    pub shape: Vec<Dim>,
    /// Element type.
    pub dtype: String,
    /// Seeded data to use.
    pub fill: Option<Fill>,
}

/// A dimension of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// A fixed extent.
    Fixed(u64),
    /// A symbol.
    Symbol(String),
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Symbol(s) => f.write_str(s),
        }
    }
}

/// Extents of the symbols `batch` and `seq`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    /// Samples at once.
    pub batch: Option<u64>,
    /// Time steps or tokens.
    pub seq: Option<u64>,
}

impl Registry {
    /// Reads the registry.
    ///
    /// # Errors
    /// Fails with [`ImportError::MissingFile`], or with [`ImportError::BadRegistry`] and the line where parsing failed.
    pub fn load(path: &Path) -> Result<Self> {
        let text = files::read_text(path)?;
        Self::parse(&text, path)
    }

    /// Parses a registry's text; `path` is for messages and for finding the models' files.
    ///
    /// # Errors
    /// Fails with [`ImportError::BadRegistry`].
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let bad = |reason: String| ImportError::BadRegistry {
            path: path.to_path_buf(),
            reason,
        };
        let mut registry: Self =
            toml::from_str(text).map_err(|e| bad(e.to_string().trim().to_owned()))?;
        if registry.format != FORMAT {
            return Err(bad(format!(
                "format {} is not {FORMAT}; update the program or the file",
                registry.format
            )));
        }
        registry.folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut seen: Vec<(String, &str)> = Vec::new();
        for model in &registry.models {
            for name in model.names() {
                let key = simplify(name);
                if let Some((_, other)) = seen
                    .iter()
                    .find(|(k, owner)| *k == key && *owner != model.name)
                {
                    return Err(bad(format!(
                        "'{name}' names both {other} and {}",
                        model.name
                    )));
                }
                seen.push((key, &model.name));
            }
        }
        Ok(registry)
    }

    /// The model of a name or alias; case and separators do not matter.
    ///
    /// # Errors
    /// Fails with [`ImportError::UnknownModel`], which lists the nearest names.
    pub fn find(&self, name: &str) -> Result<&Model> {
        let wanted = simplify(name);
        let found = self
            .models
            .iter()
            .find(|m| m.names().any(|n| simplify(n) == wanted));
        found.ok_or_else(|| {
            let all = self.models.iter().flat_map(Model::names);
            let mut models: Vec<String> = Vec::new();
            for close in nearest(name, all) {
                let owner = self.models.iter().find(|m| m.names().any(|n| n == close));
                let shown = owner.map_or(close, |m| m.name.as_str()).to_owned();
                if !models.contains(&shown) {
                    models.push(shown);
                }
            }
            ImportError::UnknownModel {
                name: name.to_owned(),
                nearest: models,
            }
        })
    }

    /// Where the ONNX graph of `model` lies.
    #[must_use]
    pub fn file(&self, model: &Model) -> PathBuf {
        self.folder.join(&model.file)
    }
}

impl Model {
    /// Name and aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// Whether an input has a dimension of that symbol.
    #[must_use]
    pub fn has_symbol(&self, symbol: &str) -> bool {
        self.inputs.iter().any(|i| {
            i.shape
                .iter()
                .any(|d| matches!(d, Dim::Symbol(s) if s == symbol))
        })
    }
}

#[cfg(test)]
pub(crate) const SAMPLE: &str = r#"
format = 1

[[model]]
name = "resnet-18"
aliases = ["resnet18"]
title = "ResNet-18"
file = "zoo/resnet-18.onnx"
params = 11689512
defaults = { batch = 1 }
[model.origin]
library = "torchvision"
version = "0.28.0"
[[model.inputs]]
name = "data"
shape = ["batch", 3, 224, 224]
dtype = "float32"
fill = { kind = "normal", std = 1.0 }

[[model]]
name = "bert-tiny"
title = "BERT tiny"
file = "zoo/bert-tiny.onnx"
defaults = { batch = 1, seq = 128 }
limits = { seq = 512 }
[model.origin]
library = "transformers"
[[model.inputs]]
name = "input_ids"
shape = ["batch", "seq"]
dtype = "int64"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Registry {
        Registry::parse(SAMPLE, Path::new("models/registry.toml")).unwrap()
    }

    #[test]
    fn names_aliases_and_spellings_find_the_model() {
        let registry = sample();
        for name in ["resnet-18", "resnet18", "ResNet_18"] {
            assert_eq!(registry.find(name).unwrap().name, "resnet-18");
        }
        assert_eq!(
            registry.file(registry.find("resnet18").unwrap()),
            Path::new("models/zoo/resnet-18.onnx")
        );
        assert!(registry.find("bert-tiny").unwrap().has_symbol("seq"));
        assert!(!registry.find("resnet18").unwrap().has_symbol("seq"));
    }

    #[test]
    fn unknown_names_get_suggestions_by_model_name() {
        let error = sample().find("resnet-81").unwrap_err();
        let ImportError::UnknownModel { nearest, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(nearest, ["resnet-18"]);
    }

    #[test]
    fn damaged_registries_are_refused_with_the_place() {
        let broken = SAMPLE.replace("title = \"ResNet-18\"", "title = ");
        let error = Registry::parse(&broken, Path::new("r.toml"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("r.toml") && error.contains("line 7"),
            "{error}"
        );
        let newer = SAMPLE.replace("format = 1", "format = 2");
        assert!(
            Registry::parse(&newer, Path::new("r.toml"))
                .unwrap_err()
                .to_string()
                .contains("format 2")
        );
        let twice = SAMPLE.replace("aliases = [\"resnet18\"]", "aliases = [\"BERT_tiny\"]");
        assert!(
            Registry::parse(&twice, Path::new("r.toml"))
                .unwrap_err()
                .to_string()
                .contains("names both")
        );
    }

    #[test]
    fn the_registry_of_the_repository_is_sound() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry.toml");
        let registry = Registry::load(&path).unwrap();
        assert!(registry.models.len() >= 18);
        for model in &registry.models {
            assert!(registry.file(model).is_file(), "{} has no file", model.name);
            assert!(model.has_symbol("batch"), "{} fixes its batch", model.name);
            assert_eq!(
                model.has_symbol("seq"),
                model.defaults.seq.is_some(),
                "{}",
                model.name
            );
        }
    }
}
