//! Imports through the real importer: the registry's models, single operators, and every kind of refusal.
//!
//! Needs the project's virtual environment (`scripts/setup` makes it); nothing else, and no network.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use opmodels::graph::{ArgumentRole, BlockRole, InputRole, OperatorKind};
use opmodels::{
    Cache, ImportError, ImportRequest, Imported, Importer, Provenance, Registry, Source, Tooling,
};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The importer that is run by this Python.
fn tooling(python: PathBuf) -> Tooling {
    Tooling::new(
        python,
        root().join("models/python"),
        root().join("scripts/requirements.txt"),
    )
}

/// A bench of everything that an import needs, with a cache of its own.
struct Bench {
    folder: tempfile::TempDir,
    registry: Registry,
    tooling: Tooling,
}

impl Bench {
    fn new() -> Self {
        let python = root().join(".venv/bin/python");
        assert!(
            python.exists(),
            "no virtual environment at {}: run scripts/setup",
            python.display()
        );
        Self {
            folder: tempfile::tempdir().unwrap(),
            registry: Registry::load(&root().join("models/registry.toml")).unwrap(),
            tooling: tooling(python),
        }
    }

    fn cache(&self) -> Cache {
        Cache::new(self.folder.path().join("imports"))
    }

    fn run(&self, request: &ImportRequest) -> Result<Imported, ImportError> {
        let importer = Importer {
            registry: self.registry.clone(),
            tooling: self.tooling.clone(),
            cache: self.cache(),
        };
        importer.import(request, &mut |_| {})
    }

    fn local(&self, name: &str) -> Imported {
        self.run(&ImportRequest::new(Source::LOCAL, name)).unwrap()
    }

    fn simple(&self, spec: &str) -> Imported {
        self.run(&ImportRequest::new(Source::SIMPLE, spec)).unwrap()
    }

    fn file(&self, name: &str, bytes: &[u8]) -> ImportRequest {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        ImportRequest::new(Source::ONNX, path.to_string_lossy())
    }
}

#[test]
fn resnet18_imports_once_and_then_comes_from_the_cache() {
    let mut bench = Bench::new();
    let first = bench.local("resnet18");
    assert!(matches!(first.provenance, Provenance::Fresh(_)));
    assert!(first.folder.join("module.json").is_file());
    // What is in the cache is taken without starting Python, which would fail now.
    let fails = bench.folder.path().join("python");
    std::fs::write(&fails, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&fails, std::fs::Permissions::from_mode(0o755)).unwrap();
    let importer = std::mem::replace(&mut bench.tooling, tooling(fails));
    let second = bench.local("resnet-18");
    assert_eq!(second.provenance, Provenance::Cached);
    assert_eq!(second.graph, first.graph);
    bench.tooling = importer;

    let totals = first.graph.totals();
    let published = 2.0 * 1_814_073_344.0;
    let ratio = (totals.flops as f64) / published;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    // 20 convolutions, one product, two pools; equal ones share an operator.
    assert_eq!(totals.calls, 23);
    assert!(first.graph.operators.len() < 20);
    assert_eq!(totals.weight_elements, 11_684_712);
    let stem = &first.graph.operators[0];
    assert_eq!(
        (stem.kind, stem.name.as_str()),
        (OperatorKind::Conv2d, "conv2d_add_relu")
    );
    assert_eq!(stem.attrs.weight_layout.as_deref(), Some("OIHW16o"));
    assert_eq!(stem.args_of(ArgumentRole::Weight).count(), 2);
    assert_eq!(stem.blocks_of(BlockRole::Anchor).count(), 1);
    std::fs::write(second.folder.join("module.json"), "damaged").unwrap();
    assert!(matches!(
        bench.local("resnet-18").provenance,
        Provenance::Fresh(_)
    ));
}

/// Multiply-adds of a model from which on its import is slow to test: most of it is the check of the import.
const LARGE: u64 = 1_500_000_000;

#[test]
fn small_models_of_the_registry_import_and_cost_what_is_published() {
    import_and_cost(|macs| macs < LARGE);
}

#[test]
#[ignore = "takes two minutes"]
fn large_models_of_the_registry_import_and_cost_what_is_published() {
    import_and_cost(|macs| macs >= LARGE);
}

/// The kinds whose multiply-adds are published.
const CONTRACTIONS: [OperatorKind; 11] = [
    OperatorKind::Conv1d,
    OperatorKind::Conv2d,
    OperatorKind::DepthwiseConv2d,
    OperatorKind::GroupConv2d,
    OperatorKind::Conv3d,
    OperatorKind::ConvTranspose,
    OperatorKind::Dense,
    OperatorKind::Matmul,
    OperatorKind::BatchMatmul,
    OperatorKind::Qconv2d,
    OperatorKind::Qdense,
];

/// Imports the models of the registry whose multiply-adds are `of_interest`.
fn import_and_cost(of_interest: impl Fn(u64) -> bool) {
    let bench = Bench::new();
    for model in &bench.registry.models {
        if !of_interest(model.macs.unwrap()) {
            continue;
        }
        let graph = bench.local(&model.name).graph;
        let operators = graph.operators.iter();
        let contractions = operators.filter(|o| CONTRACTIONS.contains(&o.kind));
        let flops: u64 = contractions.map(|o| o.count * o.flops).sum();
        let expected = 2 * model.macs.unwrap();
        let ratio = flops as f64 / expected as f64;
        assert!(
            (0.999..1.001).contains(&ratio),
            "{}: {flops} for {expected}",
            model.name
        );
        if let Some(published) = model.published_macs {
            let ratio = graph.totals().flops as f64 / (2 * published) as f64;
            assert!(
                (0.98..1.02).contains(&ratio),
                "{}: {ratio} of what is published",
                model.name
            );
        }
        for operator in &graph.operators {
            let anchors = operator.blocks_of(BlockRole::Anchor).count();
            assert_eq!(anchors, 1, "{} of {}", operator.symbol, model.name);
            assert_ne!(
                operator.kind,
                OperatorKind::Other,
                "{} of {}",
                operator.symbol,
                model.name
            );
        }
    }
}

#[test]
fn batch_sequence_and_shapes_reach_the_graph() {
    let bench = Bench::new();
    let request = ImportRequest {
        batch: Some(2),
        seqlen: Some(4),
        ..ImportRequest::new(Source::LOCAL, "rnn")
    };
    let imported = bench.run(&request).unwrap();
    assert_eq!(
        (imported.graph.batch, imported.resolved.seqlen),
        (2, Some(4))
    );
    let fed: Vec<_> = imported.graph.fed().map(|i| i.shape.clone()).collect();
    assert_eq!(fed[0][..2], [2, 4]);
    let shaped = ImportRequest {
        inputs: vec!["data:1x3x64x64".parse().unwrap()],
        ..ImportRequest::new(Source::LOCAL, "mobilenet")
    };
    let imported = bench.run(&shaped).unwrap();
    assert_eq!(imported.graph.inputs[0].shape, [1, 3, 64, 64]);
    assert_eq!(imported.graph.outputs[0].shape, [1, 1000]);
}

#[test]
fn single_operators_cost_what_their_sizes_say() {
    let bench = Bench::new();
    for (spec, kind, flops) in [
        (
            "matmul:m=8,n=16,k=32",
            OperatorKind::Matmul,
            2 * 8 * 16 * 32,
        ),
        ("dense:m=2,n=24,k=32", OperatorKind::Dense, 2 * 2 * 24 * 32),
        (
            "batch_matmul:b=3,m=8,n=16,k=4",
            OperatorKind::BatchMatmul,
            2 * 3 * 8 * 16 * 4,
        ),
        (
            "conv2d:c=8,h=10,w=12,o=16",
            OperatorKind::Conv2d,
            2 * 16 * 10 * 12 * 8 * 9,
        ),
        (
            "conv2d:c=8,h=10,w=10,o=16,groups=2",
            OperatorKind::GroupConv2d,
            2 * 16 * 100 * 4 * 9,
        ),
        (
            "depthwise_conv2d:c=8,h=10,w=10",
            OperatorKind::DepthwiseConv2d,
            2 * 8 * 100 * 9,
        ),
        (
            "conv3d:c=4,d=4,h=6,w=6,o=8",
            OperatorKind::Conv3d,
            2 * 8 * 4 * 36 * 4 * 27,
        ),
        (
            "max_pool2d:c=4,h=8,w=8,kh=2,kw=2,pad=0",
            OperatorKind::MaxPool,
            4 * 16 * 4,
        ),
        (
            "global_avg_pool:c=4,h=8,w=8",
            OperatorKind::GlobalAvgPool,
            4 * 64 + 4,
        ),
        ("elementwise:op=relu,m=4,n=8", OperatorKind::Elementwise, 32),
        (
            "transpose:a=2,b=3,c=4,d=5,order=0231",
            OperatorKind::Transpose,
            0,
        ),
        (
            "concat:c=4,more=2,inputs=3,h=3,w=3",
            OperatorKind::Concat,
            0,
        ),
        ("slice:c=8,begin=2,size=3,h=4,w=4", OperatorKind::Slice, 0),
        ("resize2d:c=2,h=3,w=3", OperatorKind::Resize, 0),
        ("gather:m=5,n=6,rows=7", OperatorKind::Gather, 0),
    ] {
        let imported = bench.simple(spec);
        assert_eq!(imported.graph.operators.len(), 1, "{spec}");
        let operator = &imported.graph.operators[0];
        assert_eq!((operator.kind, operator.flops), (kind, flops), "{spec}");
        assert!(!imported.folder.join("params.bin").exists());
        assert_eq!(imported.graph.model, imported.resolved.model);
    }
    let chained = bench.simple("matmul_matmul_add:m=4,n=8,k=16,p=2");
    assert_eq!(chained.graph.totals().flops, 2 * 4 * 8 * 16 + 2 * 4 * 8 * 2);
    assert!(
        bench
            .simple("conv2d:c=8,h=8,w=8,o=16")
            .graph
            .inputs
            .iter()
            .any(|i| i.role == InputRole::Param)
    );
}

#[test]
fn impossible_requests_are_refused_with_their_own_errors() {
    let bench = Bench::new();
    let corrupt = bench
        .run(&bench.file("torn.onnx", b"\x08\x07\x12\xff\xff garbage"))
        .unwrap_err();
    assert!(
        matches!(corrupt, ImportError::CorruptModel { .. }),
        "{corrupt}"
    );
    assert!(corrupt.to_string().contains("torn.onnx"));
    let empty = bench.run(&bench.file("empty.onnx", b"")).unwrap_err();
    assert!(matches!(empty, ImportError::CorruptModel { .. }), "{empty}");
    let missing = bench
        .run(&ImportRequest::new(Source::ONNX, "nowhere.onnx"))
        .unwrap_err();
    assert!(
        matches!(missing, ImportError::MissingFile { .. }),
        "{missing}"
    );
    let shape = ImportRequest {
        inputs: vec!["data:1x4x64x64".parse().unwrap()],
        ..ImportRequest::new(Source::LOCAL, "resnet-18")
    };
    let shape = bench.run(&shape).unwrap_err();
    assert!(matches!(shape, ImportError::BadShape { .. }), "{shape}");
    let left: Vec<_> = std::fs::read_dir(bench.cache().root())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| !n.starts_with(".lock-"))
        .collect();
    assert!(left.is_empty(), "refused imports left {left:?}");
}
