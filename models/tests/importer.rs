//! The importer's own tests in Python, in groups that a test runner can run side by side, each in a process of its own.
//!
//! Needs the project's virtual environment (`scripts/setup` makes it); tests of PyTorch, JAX and ONNX Runtime are left out
//! where these are not installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that share a process: loading TVM takes about a second.
const GROUPS: [&[&str]; 6] = [NUMBERS, FORMS, PYTORCH, FILES, INTEGERS, FACTS];

const NUMBERS: &[&str] = &["test_functions", "test_numbers"];
const FORMS: &[&str] = &[
    "test_checked_forms",
    "test_forms",
    "test_windows",
    "test_expansions",
];
const PYTORCH: &[&str] = &["test_torch"];
const FILES: &[&str] = &["test_stablehlo", "test_tflite", "test_tvm"];
const INTEGERS: &[&str] = &["test_integers", "test_composites", "test_onnxruntime"];
const FACTS: &[&str] = &[
    "test_facts",
    "test_names",
    "test_places",
    "test_reference",
    "test_refusals",
    "test_verify",
];

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the tests of some modules.
fn pass(modules: &[&str]) {
    let python = root().join(".venv/bin/python");
    assert!(
        python.exists(),
        "no virtual environment at {}: run scripts/setup",
        python.display()
    );
    let output = Command::new(python)
        .args(["-m", "unittest"])
        .args(modules.iter().map(|module| format!("tests.{module}")))
        .current_dir(root().join("models/python"))
        .output()
        .unwrap();
    // A process can also end badly after its tests; so its status is printed.
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn what_imports_compute() {
    pass(NUMBERS);
}

#[test]
fn forms_of_operators() {
    pass(FORMS);
}

#[test]
fn models_of_pytorch() {
    pass(PYTORCH);
}

#[test]
fn tflite_and_stablehlo_files() {
    pass(FILES);
}

#[test]
fn integers_composites_and_onnx_runtime() {
    pass(INTEGERS);
}

#[test]
fn facts_names_references_and_refusals() {
    pass(FACTS);
}

#[test]
fn every_module_is_in_one_group() {
    let grouped: Vec<String> = GROUPS.concat().iter().map(|m| format!("{m}.py")).collect();
    let listed: BTreeSet<String> = std::fs::read_dir(root().join("models/python/tests"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("test_"))
        .collect();
    assert_eq!(grouped.len(), listed.len());
    assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), listed);
}
