//! Sources of models: one file a source, each behind [`ModelSource`], all in [`SOURCES`].
//!
//! A source turns a user's request into exactly one thing to import, with every default filled in. It refuses
//! everything that can be refused without Python: unknown names, shapes that do not fit, zero sizes. The importer's
//! side of a source is `models/python/opbench_import`. A new source is a file here and a line in [`SOURCES`].

mod architecture;
mod local;
mod onnx;
mod remoteonnx;
pub(crate) mod request;
pub mod simple;
mod single_file;
mod torch;
mod transformers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::cache::Cache;
use crate::error::{ImportError, Result};
use crate::graph::Fill;
use crate::remote::Watch;
use crate::sources::request::{ImportRequest, InputOverride};

pub use architecture::Architecture;
pub use local::registry;

/// All sources, in the order to show them: the values of `--modelsource`.
pub const SOURCES: [&dyn ModelSource; 9] = [
    &local::Local,
    &onnx::Onnx,
    &remoteonnx::RemoteOnnx,
    &transformers::Transformers,
    &torch::Torch,
    &single_file::TFLITE,
    &single_file::STABLEHLO,
    &single_file::TVM,
    &simple::Simple,
];

/// Names of [`SOURCES`].
pub fn names() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&str>> =
        LazyLock::new(|| SOURCES.iter().map(|s| s.name()).collect());
    &NAMES
}

/// Libraries of models whose source is `torch`.
const LIBRARIES: [&str; 2] = ["torchvision", "timm"];

/// A source of models.
pub trait ModelSource: Sync {
    /// The word on the command line.
    fn name(&self) -> &'static str;

    /// How to name a model of this source, as the next thing to do for a user who has named none.
    fn naming(&self) -> &'static str;

    /// The name of a model in files and folders.
    fn short_name(&self, model: &str) -> String {
        model.to_owned()
    }

    /// Whether sizes and a configuration mean something for its models.
    fn takes_architecture(&self) -> bool {
        false
    }

    /// Whether its models are ONNX graphs.
    fn is_onnx(&self) -> bool {
        false
    }

    /// The extra of `scripts/setup --with` that its models need, if they need one.
    fn extra(&self) -> Option<&'static str> {
        None
    }

    /// Finds what to import and fills in defaults.
    ///
    /// # Errors
    /// Fails if there is no such model, or if the request's sizes do not fit it.
    fn resolve(&self, request: &ImportRequest, context: &mut Context<'_>) -> Result<Resolved>;
}

/// The inputs of a source.
pub struct Context<'a> {
    /// The models of source `local`.
    pub registry: &'a registry::Registry,
    /// The cache of imports and downloads.
    pub cache: &'a Cache,
    /// Called with the progress of a download.
    pub watch: &'a mut Watch<'a>,
}

/// One of [`SOURCES`]; written as its name.
#[derive(Clone, Copy)]
pub struct Source(&'static dyn ModelSource);

/// Why a name is not that of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownSource {
    /// The models belong to the source of this name.
    PartOf(&'static str),
    /// Nothing has this name.
    None,
}

impl Source {
    /// Names of the registry.
    pub const LOCAL: Source = Source(&local::Local);
    /// Paths of ONNX files.
    pub const ONNX: Source = Source(&onnx::Onnx);
    /// Single operators with shape parameters.
    pub const SIMPLE: Source = Source(&simple::Simple);

    /// The source of that name.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn find(name: &str) -> Result<Source, UnknownSource> {
        let found = SOURCES.into_iter().find(|s| s.name() == name);
        found.map(Source).ok_or(if LIBRARIES.contains(&name) {
            UnknownSource::PartOf(torch::Torch.name())
        } else {
            UnknownSource::None
        })
    }
}

impl std::ops::Deref for Source {
    type Target = dyn ModelSource;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        let name = String::deserialize(deserializer)?;
        Source::find(&name).map_err(|_| {
            let message = format!("no source of models is called '{name}' in this version");
            serde::de::Error::custom(message)
        })
    }
}

/// A request with all defaults in place; its JSON is the importer's request and part of the cache key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resolved {
    /// Source of the model.
    pub source: Source,
    /// Its name: the registry's, the file's stem, or the complete specification.
    pub model: String,
    /// The model's file, for sources that have one.
    pub file: Option<PathBuf>,
    /// Samples at once; None leaves it to the file.
    pub batch: Option<u64>,
    /// Time steps or tokens; None leaves it to the file.
    pub seqlen: Option<u64>,
    /// Shapes that the user gave, by name.
    pub inputs: Vec<InputOverride>,
    /// Seeded input data from the registry.
    pub fills: BTreeMap<String, Fill>,
    /// Further fields of the request, as the source and its side of the importer agree.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl Resolved {
    /// A request for a model that the importer finds by its name.
    fn named(request: &ImportRequest) -> Resolved {
        Resolved {
            file: None,
            ..Resolved::of_file(request, PathBuf::new())
        }
    }

    /// A request for the file that names the model, by the short name of its source.
    ///
    /// # Errors
    /// Fails if the path cannot be made absolute.
    fn at_path(request: &ImportRequest) -> Result<Resolved> {
        let path = Path::new(&request.model);
        let file = std::path::absolute(path).map_err(|e| ImportError::io(path, e))?;
        Ok(Resolved {
            model: request.source.short_name(&request.model),
            ..Resolved::of_file(request, file)
        })
    }

    /// A request for a file, with its own defaults.
    fn of_file(request: &ImportRequest, file: PathBuf) -> Resolved {
        Resolved {
            source: request.source,
            model: request.model.clone(),
            file: Some(file),
            batch: request.batch,
            seqlen: request.seqlen,
            inputs: request.inputs.clone(),
            fills: BTreeMap::new(),
            details: Map::new(),
        }
    }
}

/// The stem of a file's name.
fn stem(path: &str) -> String {
    let stem = Path::new(path).file_stem();
    stem.map_or_else(|| path.to_owned(), |s| s.to_string_lossy().into_owned())
}

/// Finds what to import.
///
/// # Errors
/// Fails with [`ImportError::UnknownModel`], [`ImportError::BadSpec`], [`ImportError::MissingFile`],
/// [`ImportError::BadShape`] or [`ImportError::UnknownInput`].
pub fn resolve(request: &ImportRequest, context: &mut Context<'_>) -> Result<Resolved> {
    check_numbers(request)?;
    let mut request = request.clone();
    request.inputs.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = request.inputs.windows(2).find(|p| p[0].name == p[1].name) {
        return Err(ImportError::BadShape {
            message: format!("input '{}' is given twice", pair[0].name),
        });
    }
    if !request.architecture.is_default() && !request.source.takes_architecture() {
        let sources = SOURCES.iter().filter(|s| s.takes_architecture());
        let names: Vec<&str> = sources.map(|s| s.name()).collect();
        return Err(ImportError::BadShape {
            message: format!(
                "--hidden, --layers, --heads, --intermediate and a configuration belong to --modelsource {}, not to {}",
                names.join(" or "),
                request.source
            ),
        });
    }
    let mut resolved = request.source.resolve(&request, context)?;
    if !request.fusion.is_full() {
        let value = serde_json::to_value(request.fusion).unwrap_or_default();
        resolved.details.insert("fusion".to_owned(), value);
    }
    if !request.composites.is_empty() {
        // The file's name without its folder: a moved one is the same.
        let file = request.composites.file.file_name().unwrap_or_default();
        let value = json!({"file": file.to_string_lossy(), "table": request.composites.table});
        resolved.details.insert("composites".to_owned(), value);
    }
    Ok(resolved)
}

/// Refuses sizes of zero, whatever the source.
fn check_numbers(request: &ImportRequest) -> Result<()> {
    for (label, number) in [
        ("batch size", request.batch),
        ("sequence length", request.seqlen),
    ] {
        if number == Some(0) {
            return Err(ImportError::BadShape {
                message: format!("{label} 0 is not a positive number"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
