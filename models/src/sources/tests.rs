//! What requests resolve to, and which are refused before Python starts.

use super::*;
use crate::cache::Cache;
use crate::graph::Fill;
use crate::sources::local::registry::{Registry, SAMPLE};

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

/// As the importer calls it, without a cache to look into.
fn resolve(request: &ImportRequest, registry: &Registry) -> Result<Resolved, ImportError> {
    let cache = Cache::new("nowhere");
    super::resolve(
        request,
        &mut Context {
            registry,
            cache: &cache,
            watch: &mut |_| {},
        },
    )
}

fn local(name: &str) -> ImportRequest {
    ImportRequest::new(Source::LOCAL, name)
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
    let message = |request: ImportRequest| resolve(&request, &registry).unwrap_err().to_string();
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
        &ImportRequest::new(Source::ONNX, path.to_string_lossy()),
        &registry,
    )
    .unwrap();
    assert_eq!(
        (file.model.as_str(), file.file.as_deref()),
        ("resnet-18", Some(path.as_path()))
    );
    let missing =
        resolve(&ImportRequest::new(Source::ONNX, "no/such.onnx"), &registry).unwrap_err();
    assert!(
        matches!(missing, ImportError::MissingFile { .. }),
        "{missing}"
    );
    let folder_instead = ImportRequest::new(Source::ONNX, folder.path().to_string_lossy());
    assert!(
        resolve(&folder_instead, &registry)
            .unwrap_err()
            .to_string()
            .contains("is a folder")
    );

    let simple = ImportRequest {
        batch: Some(2),
        ..ImportRequest::new(Source::SIMPLE, "softmax:n=10")
    };
    assert_eq!(
        resolve(&simple, &registry).unwrap().model,
        "softmax:m=2,n=10"
    );
    let shaped = ImportRequest {
        seqlen: Some(2),
        ..ImportRequest::new(Source::SIMPLE, "softmax")
    };
    assert!(resolve(&shaped, &registry).is_err());
}

#[test]
fn a_source_is_known_by_its_name_alone() {
    assert_eq!(
        names(),
        [
            "local",
            "onnx",
            "remoteonnx",
            "transformers",
            "torch",
            "tflite",
            "stablehlo",
            "tvm",
            "simple"
        ]
    );
    for &name in names() {
        let source = Source::find(name).unwrap();
        let json = serde_json::to_string(&source).unwrap();
        assert_eq!(json, format!("\"{name}\""));
        assert_eq!(serde_json::from_str::<Source>(&json).unwrap(), source);
    }
    assert_eq!(Source::find("timm"), Err(UnknownSource::PartOf("torch")));
    assert_eq!(Source::find("lokal"), Err(UnknownSource::None));
    assert!(serde_json::from_str::<Source>("\"abacus\"").is_err());
}

#[test]
fn only_regular_files_of_a_possible_size_are_models() {
    let (folder, registry) = registry();
    let refused = |path: &std::path::Path| {
        let request = ImportRequest::new(Source::ONNX, path.to_string_lossy());
        resolve(&request, &registry).unwrap_err().to_string()
    };
    let message = refused("/dev/zero".as_ref());
    assert!(message.contains("not a regular file"), "{message}");
    let huge = folder.path().join("huge.onnx");
    let file = std::fs::File::create(&huge).unwrap();
    file.set_len(3 << 30).unwrap();
    let message = refused(&huge);
    assert!(message.contains("external data"), "{message}");
}
