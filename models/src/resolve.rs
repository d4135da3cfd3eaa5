//! From what a user asked to exactly one thing to import: a file or an operator, with every default filled in.
//!
//! Refuses early what can be refused without Python: unknown names, overrides that do not fit a registered model,
//! zero sizes. ONNX files are judged by the importer, which alone knows their inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::graph::Fill;
use crate::registry::{Dim, Model};
use crate::simple::SimpleSpec;
use crate::{ImportError, ImportRequest, InputOverride, Registry, Source};

/// A request with all defaults in place; its JSON is the importer's request and part of the cache key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resolved {
    /// Where the model comes from.
    pub source: Source,
    /// Its name: the registry's, the file's stem, or the complete specification.
    pub model: String,
    /// The ONNX file, for all but single operators.
    pub file: Option<PathBuf>,
    /// The single operator.
    pub simple: Option<SimpleSpec>,
    /// Samples at once; None leaves it to the file.
    pub batch: Option<u64>,
    /// Time steps or tokens; None leaves it to the file.
    pub seqlen: Option<u64>,
    /// Shapes that the user gave, by name.
    pub inputs: Vec<InputOverride>,
    /// Seeded data that the registry wishes for.
    pub fills: BTreeMap<String, Fill>,
}

/// Finds what to import.
///
/// # Errors
/// [`ImportError::UnknownModel`], [`ImportError::BadSpec`], [`ImportError::MissingFile`], [`ImportError::BadShape`]
/// or [`ImportError::UnknownInput`].
pub fn resolve(request: &ImportRequest, registry: &Registry) -> Result<Resolved, ImportError> {
    check_numbers(request)?;
    let mut inputs = request.inputs.clone();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = inputs.windows(2).find(|p| p[0].name == p[1].name) {
        return Err(ImportError::BadShape {
            message: format!("input '{}' is given twice", pair[0].name),
        });
    }
    match request.source {
        Source::Local => resolve_local(request, registry, inputs),
        Source::Onnx => resolve_file(request, inputs),
        Source::Simple => resolve_simple(request, inputs),
    }
}

/// Zero sizes, whatever the source.
fn check_numbers(request: &ImportRequest) -> Result<(), ImportError> {
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

/// A model of the registry.
fn resolve_local(
    request: &ImportRequest,
    registry: &Registry,
    inputs: Vec<InputOverride>,
) -> Result<Resolved, ImportError> {
    let model = registry.find(&request.model)?;
    let bad = |message: String| ImportError::BadShape { message };
    if request.seqlen.is_some() && !model.has_symbol("seq") {
        return Err(bad(format!(
            "{} has no sequence dimension, so --seqlen means nothing for it",
            model.name
        )));
    }
    for (label, number, limit) in [
        ("batch size", request.batch, model.limits.batch),
        ("sequence length", request.seqlen, model.limits.seq),
    ] {
        if let (Some(number), Some(limit)) = (number, limit)
            && number > limit
        {
            return Err(bad(format!(
                "{label} {number} is beyond what {} allows ({limit})",
                model.name
            )));
        }
    }
    for given in &inputs {
        check_override(model, given)?;
    }
    let file = registry.file(model);
    require_file(&file)?;
    Ok(Resolved {
        source: request.source,
        model: model.name.clone(),
        file: Some(file),
        simple: None,
        batch: request.batch.or(model.defaults.batch),
        seqlen: request.seqlen.or(model.defaults.seq),
        inputs,
        fills: model
            .inputs
            .iter()
            .filter_map(|i| Some((i.name.clone(), i.fill?)))
            .collect(),
    })
}

/// Whether an override names an input of the model and has its rank.
fn check_override(model: &Model, given: &InputOverride) -> Result<(), ImportError> {
    let Some(input) = model.inputs.iter().find(|i| i.name == given.name) else {
        return Err(ImportError::UnknownInput {
            name: given.name.clone(),
            inputs: model.inputs.iter().map(|i| i.name.clone()).collect(),
        });
    };
    if input.shape.len() != given.shape.len() {
        let shown: Vec<String> = input.shape.iter().map(Dim::to_string).collect();
        return Err(ImportError::BadShape {
            message: format!(
                "input '{}' of {} has {} dimensions ({}), but {} were given",
                given.name,
                model.name,
                input.shape.len(),
                shown.join("x"),
                given.shape.len()
            ),
        });
    }
    Ok(())
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Symbol(s) => f.write_str(s),
        }
    }
}

/// An ONNX file.
fn resolve_file(
    request: &ImportRequest,
    inputs: Vec<InputOverride>,
) -> Result<Resolved, ImportError> {
    let path = Path::new(&request.model);
    require_file(path)?;
    let file = std::path::absolute(path).map_err(|e| ImportError::io(path, e))?;
    let stem = file.file_stem().map_or_else(
        || request.model.clone(),
        |s| s.to_string_lossy().into_owned(),
    );
    Ok(Resolved {
        source: request.source,
        model: stem,
        file: Some(file),
        simple: None,
        batch: request.batch,
        seqlen: request.seqlen,
        inputs,
        fills: BTreeMap::new(),
    })
}

/// A single operator.
fn resolve_simple(
    request: &ImportRequest,
    inputs: Vec<InputOverride>,
) -> Result<Resolved, ImportError> {
    let mut spec: SimpleSpec = request.model.parse()?;
    if let Some(batch) = request.batch {
        spec.set_batch(batch)?;
    }
    if request.seqlen.is_some() || !inputs.is_empty() {
        let message = format!(
            "a single operator takes its sizes from its specification ({spec}), not from --seqlen or --input"
        );
        return Err(ImportError::BadShape { message });
    }
    Ok(Resolved {
        source: request.source,
        model: spec.to_string(),
        file: None,
        simple: Some(spec),
        batch: None,
        seqlen: None,
        inputs,
        fills: BTreeMap::new(),
    })
}

/// Whether a file is there to read.
fn require_file(path: &Path) -> Result<(), ImportError> {
    let found = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    if found.is_dir() {
        let message = format!("{} is a folder, not an ONNX file", path.display());
        return Err(ImportError::MissingFile {
            path: path.to_path_buf(),
            message,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SAMPLE;

    /// A registry whose files exist.
    fn registry() -> (tempfile::TempDir, Registry) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("zoo")).unwrap();
        for file in ["resnet-18.onnx", "bert-tiny.onnx"] {
            std::fs::write(folder.path().join("zoo").join(file), "graph").unwrap();
        }
        let registry = Registry::parse(SAMPLE, &folder.path().join("registry.toml")).unwrap();
        (folder, registry)
    }

    fn local(name: &str) -> ImportRequest {
        ImportRequest::new(Source::Local, name)
    }

    #[test]
    fn defaults_come_from_the_registry() {
        let (_folder, registry) = registry();
        let resolved = resolve(&local("bert_tiny"), &registry).unwrap();
        assert_eq!(
            (resolved.model.as_str(), resolved.batch, resolved.seqlen),
            ("bert-tiny", Some(1), Some(128))
        );
        let larger = ImportRequest {
            batch: Some(8),
            seqlen: Some(64),
            ..local("bert-tiny")
        };
        let resolved = resolve(&larger, &registry).unwrap();
        assert_eq!((resolved.batch, resolved.seqlen), (Some(8), Some(64)));
        let resnet = resolve(&local("resnet18"), &registry).unwrap();
        assert_eq!(resnet.fills["data"], Fill::Normal { std: 1.0 });
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_before_python_starts() {
        let (_folder, registry) = registry();
        let message =
            |request: ImportRequest| resolve(&request, &registry).unwrap_err().to_string();
        let overriding = |text: &str| ImportRequest {
            inputs: vec![text.parse().unwrap()],
            ..local("resnet-18")
        };
        insta::assert_snapshot!(message(ImportRequest { seqlen: Some(4), ..local("resnet-18") }), @"resnet-18 has no sequence dimension, so --seqlen means nothing for it");
        insta::assert_snapshot!(message(ImportRequest { seqlen: Some(1024), ..local("bert-tiny") }), @"sequence length 1024 is beyond what bert-tiny allows (512)");
        insta::assert_snapshot!(message(ImportRequest { batch: Some(0), ..local("bert-tiny") }), @"batch size 0 is not a positive number");
        insta::assert_snapshot!(message(overriding("data:1x3x224")), @"input 'data' of resnet-18 has 4 dimensions (batchx3x224x224), but 3 were given");
        insta::assert_snapshot!(message(overriding("image:1x3x224x224")), @"the model has no input 'image' (inputs: data)");
        let twice = ImportRequest {
            inputs: vec!["data:1x3x8x8".parse().unwrap(); 2],
            ..local("resnet-18")
        };
        insta::assert_snapshot!(message(twice), @"input 'data' is given twice");
    }

    #[test]
    fn files_and_operators_resolve_to_themselves() {
        let (folder, registry) = registry();
        let path = folder.path().join("zoo/resnet-18.onnx");
        let file = resolve(
            &ImportRequest::new(Source::Onnx, path.to_string_lossy()),
            &registry,
        )
        .unwrap();
        assert_eq!(
            (file.model.as_str(), file.file.as_deref()),
            ("resnet-18", Some(path.as_path()))
        );
        let missing =
            resolve(&ImportRequest::new(Source::Onnx, "no/such.onnx"), &registry).unwrap_err();
        assert!(
            matches!(missing, ImportError::MissingFile { .. }),
            "{missing}"
        );
        let folder_instead = ImportRequest::new(Source::Onnx, folder.path().to_string_lossy());
        assert!(
            resolve(&folder_instead, &registry)
                .unwrap_err()
                .to_string()
                .contains("is a folder")
        );

        let simple = ImportRequest {
            batch: Some(2),
            ..ImportRequest::new(Source::Simple, "softmax:n=10")
        };
        assert_eq!(
            resolve(&simple, &registry).unwrap().model,
            "softmax:m=2,n=10"
        );
        let shaped = ImportRequest {
            seqlen: Some(2),
            ..ImportRequest::new(Source::Simple, "softmax")
        };
        assert!(resolve(&shaped, &registry).is_err());
    }
}
