//! What is refused before anything is built, and what is made of rounds.

use super::contender::{OperatorTime, Round, mean};
use super::testing::side_by_side;
use super::*;

fn refusal(source: &str, frameworks: &[Framework]) -> String {
    let source = Source::find(source).unwrap();
    checked(source, frameworks).unwrap_err().to_string()
}

#[test]
fn frameworks_that_cannot_run_a_source_are_refused_by_name() {
    use Framework::{OnnxRuntime, Torch, Tvm};
    assert!(refusal("onnx", &[Tvm]).contains("two frameworks"));
    assert!(refusal("onnx", &[Tvm, OnnxRuntime, Tvm]).contains("tvm is named twice"));
    assert!(refusal("onnx", &[Torch, Tvm]).contains("--modelsource torch"));
    assert!(refusal("tflite", &[Tvm, OnnxRuntime]).contains("source tflite"));
    for (source, frameworks) in [
        ("torch", &[Torch, Tvm, OnnxRuntime][..]),
        ("local", &[Tvm, OnnxRuntime]),
        ("simple", &[OnnxRuntime, Tvm]),
    ] {
        assert!(checked(Source::find(source).unwrap(), frameworks).is_ok());
    }
}

#[test]
fn operators_are_means_over_rounds() {
    let operator = |name: &str, ns| OperatorTime {
        name: name.to_owned(),
        kind: Kind::Product,
        calls: 1.0,
        ns,
    };
    let round = |operators| Round {
        runs_ns: Vec::new(),
        operators,
    };
    let rounds = [
        round(vec![operator("a", 10.0), operator("b", 30.0)]),
        round(vec![operator("b", 50.0), operator("a", 20.0)]),
    ];
    let found: Vec<_> = mean(&rounds)
        .into_iter()
        .map(|o| (o.name, o.calls, o.ns))
        .collect();
    assert_eq!(
        found,
        [("b".to_owned(), 1.0, 40.0), ("a".to_owned(), 1.0, 15.0)]
    );
}

#[test]
fn ratios_are_of_rounds_and_kinds_of_all_frameworks() {
    let compared = side_by_side();
    let (base, other) = (&compared.frameworks[0], &compared.frameworks[1]);
    let (ratio, interval) = other.ratio(base).unwrap();
    assert_eq!((ratio, interval), (0.5, Some((0.5, 0.5))));
    assert_eq!(compared.kinds(), [Kind::Convolution, Kind::Elementwise]);
    assert_eq!(base.of_kind(Kind::Elementwise), (2.0, 20_000.0));
    assert_eq!(other.of_kind(Kind::Elementwise), (0.0, 0.0));
}

#[test]
fn tvm_gets_the_file_that_onnx_runtime_has_unless_pytorch_builds_the_model() {
    let file = opmodels::Deployed {
        format: 2,
        model: "net".to_owned(),
        batch: 1,
        file: "model.onnx".to_owned(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        origin: "ONNX Runtime".to_owned(),
        rtol: 1e-3,
        folder: "cache/net".into(),
    };
    let local = ImportRequest::new(Source::LOCAL, "resnet-18");
    let same = same_values(&local, &file);
    assert_eq!(
        (same.source, same.model.as_str()),
        (Source::ONNX, "cache/net/model.onnx")
    );
    let torch = ImportRequest::new(Source::find("torch").unwrap(), "resnet18");
    assert_eq!(same_values(&torch, &file), torch);
}
