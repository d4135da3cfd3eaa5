//! Source `transformers`: models that the Python library of that name builds from a configuration, without weights to
//! download. The importer's side is `opbench_import/transformers_models.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::architecture::{Architecture, read_config};
use super::{Context, ModelSource, Resolved};
use crate::error::{ImportError, Result};
use crate::files;
use crate::sources::request::ImportRequest;

/// The source.
pub(super) struct Transformers;

/// Parts of a model that can be named after a colon.
const PARTS: [&str; 4] = ["prefill", "decode", "encoder", "decoder"];
/// Name of the file that makes a folder a checkpoint.
pub(super) const CONFIG: &str = "config.json";

impl ModelSource for Transformers {
    fn name(&self) -> &'static str {
        "transformers"
    }

    fn naming(&self) -> &'static str {
        "name an architecture or the folder of a checkpoint, with a part if you like, e.g. --modelname bert or gpt2:decode"
    }

    fn takes_architecture(&self) -> bool {
        true
    }

    fn extra(&self) -> Option<&'static str> {
        Some("torch")
    }

    /// The architecture or the folder's name, and the part.
    fn short_name(&self, model: &str) -> String {
        let (name, part) = split(model);
        let name = Path::new(name).file_name();
        let name = name.map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        part.map_or(name.clone(), |part| format!("{name}:{part}"))
    }

    fn resolve(&self, request: &ImportRequest, _context: &mut Context<'_>) -> Result<Resolved> {
        if !request.inputs.is_empty() {
            return Err(ImportError::BadShape {
                message: "a model of transformers takes its shapes from --batchsize, --seqlen and its configuration, not \
                          from --input"
                    .to_owned(),
            });
        }
        let (name, _) = split(&request.model);
        let folder = Path::new(name);
        let file = if folder.is_dir() {
            let config = folder.join(CONFIG);
            files::require_file(&config, "the configuration of a checkpoint")?;
            Some(std::path::absolute(&config).map_err(|e| ImportError::io(&config, e))?)
        } else if name.contains(std::path::MAIN_SEPARATOR) {
            return Err(ImportError::MissingFile {
                path: folder.to_path_buf(),
                message: format!("{name}: no such folder; give one that holds {CONFIG}"),
            });
        } else {
            None
        };
        built(request, self.short_name(&request.model), file)
    }
}

/// The request for a model that `transformers` builds, with the sizes as part of its name: other sizes are another
/// model.
pub(super) fn built(
    request: &ImportRequest,
    short: String,
    file: Option<PathBuf>,
) -> Result<Resolved> {
    let (name, part) = split(&short);
    let mut settings = Map::from_iter([
        ("name".to_owned(), json!(name)),
        ("part".to_owned(), json!(part)),
    ]);
    settings.extend(
        request
            .architecture
            .sizes()
            .map(|(size, value)| (size.to_owned(), json!(value))),
    );
    if let Some(config) = &request.architecture.config {
        settings.insert("config".to_owned(), Value::Object(read_config(config)?));
    }
    Ok(Resolved {
        source: request.source,
        model: full_name(&short, &request.architecture),
        file,
        batch: request.batch,
        seqlen: request.seqlen,
        inputs: Vec::new(),
        fills: BTreeMap::new(),
        details: Map::from_iter([("architecture".to_owned(), Value::Object(settings))]),
    })
}

/// `bert:hidden=128,layers=2`: the name under which rows of this model stand.
fn full_name(short: &str, architecture: &Architecture) -> String {
    let config = architecture.config.as_ref().and_then(|c| c.file_stem());
    let changes: Vec<String> = config
        .map(|stem| format!("config={}", stem.to_string_lossy()))
        .into_iter()
        .chain(
            architecture
                .sizes()
                .map(|(name, value)| format!("{name}={value}")),
        )
        .collect();
    if changes.is_empty() {
        return short.to_owned();
    }
    let separator = if short.contains(':') { ',' } else { ':' };
    format!("{short}{separator}{}", changes.join(","))
}

/// A model's name and the part after it.
fn split(model: &str) -> (&str, Option<&str>) {
    match model.rsplit_once(':') {
        Some((name, part)) if PARTS.contains(&part) => (name, Some(part)),
        _ => (model, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::sources::Source;
    use crate::sources::registry::Registry;

    fn resolve(source: &str, model: &str, architecture: Architecture) -> Result<Resolved> {
        let registry = Registry::parse("format = 1", Path::new("r.toml")).unwrap();
        let request = ImportRequest {
            architecture,
            ..ImportRequest::new(Source::find(source).unwrap(), model)
        };
        let cache = Cache::new("nowhere");
        crate::sources::resolve(
            &request,
            &mut Context {
                registry: &registry,
                cache: &cache,
                watch: &mut |_| {},
            },
        )
    }

    #[test]
    fn sizes_and_parts_are_part_of_the_name() {
        let small = Architecture {
            hidden: Some(64),
            layers: Some(2),
            ..Architecture::default()
        };
        let name = |model: &str, architecture: &Architecture| {
            resolve("transformers", model, architecture.clone())
                .unwrap()
                .model
        };
        assert_eq!(name("bert", &Architecture::default()), "bert");
        assert_eq!(name("bert", &small), "bert:hidden=64,layers=2");
        assert_eq!(
            name("gpt2:decode", &small),
            "gpt2:decode,hidden=64,layers=2"
        );
        let resolved = resolve("transformers", "gpt2:decode", small).unwrap();
        assert_eq!(
            resolved.details["architecture"],
            json!({"name": "gpt2", "part": "decode", "hidden": 64, "layers": 2})
        );
    }

    #[test]
    fn a_checkpoint_is_a_folder_with_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my-bert");
        std::fs::create_dir(&path).unwrap();
        let model = path.to_string_lossy().into_owned();
        let missing = resolve("transformers", &model, Architecture::default()).unwrap_err();
        assert!(missing.to_string().contains("config.json"), "{missing}");
        std::fs::write(path.join(CONFIG), r#"{"model_type": "bert"}"#).unwrap();
        let resolved = resolve("transformers", &model, Architecture::default()).unwrap();
        assert_eq!(
            (resolved.model.as_str(), resolved.file),
            ("my-bert", Some(path.join(CONFIG)))
        );
        let weights = path.join("model.safetensors");
        std::fs::write(&weights, "weights").unwrap();
        let by_weights =
            resolve("torch", &weights.to_string_lossy(), Architecture::default()).unwrap();
        assert_eq!(by_weights.file, Some(path.join(CONFIG)));
        let nowhere =
            resolve("transformers", "no/such/folder", Architecture::default()).unwrap_err();
        assert!(nowhere.to_string().contains("no such folder"), "{nowhere}");
    }

    #[test]
    fn configurations_that_are_none_are_refused_before_python_starts() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tiny.json");
        let with = || Architecture {
            config: Some(config.clone()),
            ..Architecture::default()
        };
        let refused = |text: &str| {
            std::fs::write(&config, text).unwrap();
            resolve("transformers", "bert", with())
                .unwrap_err()
                .to_string()
        };
        assert!(refused("[1, 2]").contains("one JSON object"));
        assert!(refused("{").contains("tiny.json"));
        std::fs::write(&config, r#"{"hidden_size": 32}"#).unwrap();
        let resolved = resolve("transformers", "bert", with()).unwrap();
        assert_eq!(resolved.model, "bert:config=tiny");
        assert_eq!(
            resolved.details["architecture"]["config"],
            json!({"hidden_size": 32})
        );
        let elsewhere = resolve("onnx", "x.onnx", with()).unwrap_err();
        assert!(elsewhere.is_usage(), "{elsewhere}");
    }
}
