//! `opcollect compare --framework`: one model in several frameworks, side by side, and what is refused.

use e2e::installed::{has_libtorch, has_packages};
use e2e::{Bench, Outcome};
use serde_json::Value;

/// Status of a wrong request.
const USAGE: i32 = 2;
/// Status of a failure.
const FAILED: i32 = 1;

fn has_onnxruntime(check: &str) -> bool {
    has_packages("onnxruntime", check)
}

fn compared(bench: &Bench, arguments: &[&str]) -> Value {
    let always = ["compare", "--threads=1", "--budget=100ms", "--json"];
    let outcome = bench.run(&[&always[..], arguments].concat());
    serde_json::from_str(outcome.done()).unwrap()
}

/// For each framework its name, its time end to end, and the kinds of operators that took time.
fn frameworks(compared: &Value) -> Vec<(String, f64, Vec<String>)> {
    let all = compared["frameworks"].as_array().unwrap();
    all.iter()
        .map(|one| {
            let kinds = one["kinds"].as_array().unwrap().iter();
            let there = kinds.filter(|kind| kind["ns"].as_f64() > Some(0.0));
            (
                one["framework"].as_str().unwrap().to_owned(),
                one["end_to_end_ns"].as_f64().unwrap(),
                there
                    .map(|kind| kind["kind"].as_str().unwrap().to_owned())
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn a_model_of_the_registry_runs_in_tvm_and_onnx_runtime() {
    if !has_onnxruntime("TVM beside ONNX Runtime") {
        return;
    }
    let bench = Bench::new();
    let result = compared(
        &bench,
        &["--framework=onnxruntime,tvm", "mlp", "--csv=t.csv"],
    );
    let found = frameworks(&result);
    assert_eq!((&*found[0].0, &*found[1].0), ("onnxruntime", "tvm"));
    for (name, end_to_end_ns, kinds) in &found {
        assert!(*end_to_end_ns > 0.0);
        assert!(
            kinds.contains(&"matrix product".to_owned()),
            "{name}: {kinds:?}"
        );
    }
    // TVM's outputs were compared with those of ONNX Runtime, with the same weights.
    let tvm = &result["frameworks"][1];
    assert_eq!(tvm["checked_against"], "ONNX Runtime");
    assert!(tvm["ratio"].as_f64() > Some(0.0));
    assert!(tvm["ratio_interval"][0].as_f64() <= tvm["ratio"].as_f64());
    let csv = std::fs::read_to_string(bench.path().join("t.csv")).unwrap();
    assert!(csv.starts_with("Framework,Version,Kind,Operator,Calls,Time (us)\n"));
    assert!(
        csv.lines()
            .any(|l| l.starts_with("tvm,") && l.contains("end to end"))
    );
}

#[test]
fn a_model_of_pytorch_runs_in_all_three() {
    if !has_libtorch("three frameworks") || !has_onnxruntime("three frameworks") {
        return;
    }
    let bench = Bench::new();
    let result = compared(
        &bench,
        &[
            "--framework=torch,tvm,onnxruntime",
            "--modelsource=torch",
            "--modelname=squeezenet1_1",
            "--input=input:1x3x64x64",
        ],
    );
    for (place, (name, end_to_end_ns, kinds)) in frameworks(&result).iter().enumerate() {
        assert!(*end_to_end_ns > 0.0);
        let measured = &result["frameworks"][place];
        assert_eq!(measured["checked_against"], "PyTorch", "{name}");
        let convolutions = measured["kinds"].as_array().unwrap().iter();
        let convolutions: f64 = convolutions
            .filter(|kind| kind["kind"] == "convolution")
            .filter_map(|kind| kind["calls"].as_f64())
            .sum();
        assert!((convolutions - 26.0).abs() < 1e-6, "{name}: {measured}");
        assert!(kinds.contains(&"pooling".to_owned()), "{name}: {kinds:?}");
    }
}

#[test]
fn what_a_framework_cannot_run_is_a_usage_error() {
    let bench = Bench::new();
    let refused = |arguments: &[&str], words: &[&str]| {
        let outcome = bench.run(&[&["compare"], arguments].concat());
        outcome.failed(USAGE, words);
    };
    refused(
        &["--framework=torch,tvm", "mlp"],
        &["torch", "--modelsource torch"],
    );
    refused(&["--framework=tvm", "mlp"], &["two frameworks"]);
    refused(&["--framework=tvm,tvm", "mlp"], &["tvm is named twice"]);
    refused(
        &[
            "--framework=tvm,onnxruntime",
            "--modelsource=tflite",
            "a.tflite",
        ],
        &["onnxruntime", "tflite"],
    );
    refused(&["--framework=tvm,jax", "mlp"], &["jax", "onnxruntime"]);
    refused(
        &["--framework=tvm,onnxruntime"],
        &["--modelname is missing"],
    );
    refused(&["--framework=tvm,onnxruntime", "mlp", "b"], &["[B]"]);
    refused(&["a", "b", "--target=llvm"], &["--target"]);
    refused(&["a", "b", "--modelsource=torch"], &["--modelsource"]);
    refused(
        &["--framework=tvm,onnxruntime", "mlp", "--threads=1,2"],
        &["one number of threads"],
    );
    refused(
        &["--framework=tvm,onnxruntime", "mlp", "--target=cuda"],
        &["--target cuda", "llvm"],
    );
}

#[test]
fn what_is_not_installed_is_named_with_the_command_that_installs_it() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("models")).unwrap();
    std::fs::write(bench.path().join("models/registry.toml"), "format = 1").unwrap();
    let arguments = [
        "compare",
        "--framework=torch,tvm",
        "--modelsource=torch",
        "resnet18",
    ];
    let mut command = bench.command(arguments);
    command.env("OPBENCH_HOME", bench.path());
    Outcome::of(command).failed(FAILED, &["scripts/setup --with torch"]);
}
