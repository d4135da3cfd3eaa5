//! The main job on small models: what it prints, what it leaves on disk, and that the two agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use e2e::{Bench, Node, Tensor, model, relu};
use opdata::{CacheState, Row, RunManifest, RunState, Status, read_rows};
use serde_json::Value;

/// Rows of a run folder, after a check that its CSV and its Parquet hold the same.
fn rows(folder: &Path) -> Vec<Row> {
    let csv = read_rows(&folder.join("rows.csv")).unwrap();
    let parquet = read_rows(&folder.join("rows.parquet")).unwrap();
    assert_eq!(csv, parquet);
    csv
}

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no number '{key}' in {object}"))
}

#[test]
fn mlp_becomes_a_table_and_a_dataset() {
    let bench = Bench::new();
    let outcome = bench.measure(&[
        "--modelsource",
        "local",
        "--modelname",
        "mlp",
        "--target",
        "llvm",
        "--threads",
        "1,2",
        "--out",
        "run",
    ]);
    let table = outcome.done();
    for part in [
        "mlp",
        "operator",
        "count",
        "median",
        "share",
        "GFLOP/s",
        "GB/s",
        "end to end",
    ] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }

    let folder = bench.path().join("run");
    let rows = rows(&folder);
    let operators: BTreeSet<&str> = rows.iter().map(|row| row.op_name.as_str()).collect();
    assert!(!operators.is_empty());
    for row in &rows {
        assert_eq!(row.status, Status::Measured, "{:?}", row.reason);
        assert_eq!(row.model_name.as_deref(), Some("mlp"));
        assert_eq!(row.batch, Some(1));
        assert_eq!(row.cache_state, Some(CacheState::Model));
        assert!(row.time_median_ns.is_some_and(|time| time > 0.0));
        assert!(row.time_ci_low_ns <= row.time_median_ns);
        assert!(row.time_median_ns <= row.time_ci_high_ns);
        assert!(row.samples.is_some_and(|samples| samples >= 6));
        assert!(row.quality.is_some() && row.drift_ratio.is_some());
        assert!(row.max_abs_error <= row.tolerance_abs || row.max_rel_error <= row.tolerance_rel);
        assert!(row.codegen_ns.is_some() && row.workload_hash.is_some());
    }
    for threads in [1, 2] {
        let at: BTreeSet<&str> = rows
            .iter()
            .filter(|row| row.threads == Some(threads))
            .map(|row| row.op_name.as_str())
            .collect();
        assert_eq!(at, operators, "at {threads} threads");
    }
    let dense = rows
        .iter()
        .find(|row| row.op_kind == "dense")
        .expect("an MLP has a dense operator");
    assert!(dense.flops.is_some_and(|flops| flops > 0));

    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.state, RunState::Finished);
    assert_eq!(manifest.counts.rows(), rows.len() as u64);
    assert_eq!(manifest.counts.planned, rows.len() as u64);
    assert_eq!(manifest.counts.of(Status::Measured), rows.len() as u64);
    assert!(manifest.versions.contains_key("tvm"), "{manifest:?}");
    assert!(manifest.plan.is_object() && manifest.environment.is_object());
    assert!(manifest.command_line.iter().any(|arg| arg == "mlp"));
}

#[test]
fn json_is_one_object_that_agrees_with_the_rows() {
    let bench = Bench::new();
    let outcome = bench.measure(&[
        "--json",
        "--quiet",
        "--modelname",
        "mlp",
        "--threads",
        "1,2",
        "--out",
        "run",
    ]);
    assert_eq!(outcome.stderr, "", "--quiet");
    let text = outcome.done();
    assert_eq!(text.lines().count(), 1);
    let object: Value = serde_json::from_str(text).unwrap();

    let folder = Path::new(object["out"].as_str().unwrap()).to_path_buf();
    let rows = rows(&bench.path().join(folder));
    let operators: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.op_symbol.as_deref())
        .collect();
    assert_eq!(object["points"], rows.len());
    assert_eq!(object["measured"], rows.len());
    assert_eq!(object["failed"], 0);
    assert_eq!(object["operators"], operators.len());
    assert!(number(&object, "end_to_end_ns") > 0.0);

    // The headline is the run with the most threads.
    let sum: f64 = rows
        .iter()
        .filter(|row| row.threads == Some(2))
        .map(|row| row.time_median_ns.unwrap() * row.op_count.unwrap() as f64)
        .sum();
    let told = number(&object, "operators_sum_ns");
    assert!((sum - told).abs() <= 1e-6 * sum, "{sum} against {told}");

    let threads: Vec<u64> = object["per_threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| setting["threads"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [1, 2]);
    for operator in object["operator_rows"].as_array().unwrap() {
        assert_eq!(operator["points"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn one_operator_hot_and_flushed() {
    let bench = Bench::new();
    bench
        .measure(&[
            "--modelsource",
            "simple",
            "--modelname",
            "conv2d:c=16,h=14,w=14,o=16",
            "--threads",
            "1",
            "--cache",
            "hot,flushed",
            "--out",
            "run",
        ])
        .done();
    let rows = rows(&bench.path().join("run"));
    let states: BTreeMap<String, u64> = rows.iter().filter(|row| row.op_kind == "conv2d").fold(
        BTreeMap::new(),
        |mut states, row| {
            *states
                .entry(row.cache_state.unwrap().to_string())
                .or_default() += 1;
            states
        },
    );
    assert_eq!(
        states,
        BTreeMap::from([("flushed".into(), 1), ("hot".into(), 1)])
    );
    // 2 × output channels × height × width × input channels × kernel.
    let conv = rows.iter().find(|row| row.op_kind == "conv2d").unwrap();
    assert_eq!(conv.flops, Some(2 * 16 * 14 * 14 * 16 * 9));
}

#[test]
fn an_onnx_file_by_a_relative_path() {
    let bench = Bench::new();
    bench.file("relu.onnx", relu(&[4, 32]));
    bench
        .measure(&[
            "--modelsource",
            "onnx",
            "--modelname",
            "relu.onnx",
            "--threads",
            "1",
            "--out",
            "run",
        ])
        .done();
    let rows = rows(&bench.path().join("run"));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].op_kind, "elementwise");
    assert_eq!(rows[0].bytes_read, Some(4 * 32 * 4));
    assert_eq!(rows[0].bytes_written, Some(4 * 32 * 4));
}

#[test]
fn batch_and_sequence_length_reach_the_rows() {
    let bench = Bench::new();
    bench
        .measure(&[
            "--modelname",
            "rnn",
            "--batchsize",
            "2",
            "--seqlen",
            "3",
            "--threads",
            "1",
            "--whole-model",
            "skip",
            "--out",
            "run",
        ])
        .done();
    for row in rows(&bench.path().join("run")) {
        assert_eq!((row.batch, row.seqlen), (Some(2), Some(3)));
    }
}

#[test]
fn it_needs_no_environment() {
    // As from a second terminal, or a service: nothing set, and somewhere else.
    let bench = Bench::new();
    let folder = bench.path().join("run");
    let mut command = bench.command(["--modelname", "mlp", "--threads", "1", "--budget", "20ms"]);
    command
        .arg("--out")
        .arg(&folder)
        .env_clear()
        .current_dir("/");
    let outcome = e2e::Outcome::of(command);
    assert!(outcome.done().contains("mlp"));
    assert!(!rows(&folder).is_empty());
}

#[test]
fn the_default_folder_is_named_after_the_run() {
    let bench = Bench::new();
    let args = ["--json", "--modelname", "mlp", "--threads", "1"];
    let first: Value = serde_json::from_str(bench.measure(&args).done()).unwrap();
    let second: Value = serde_json::from_str(bench.measure(&args).done()).unwrap();
    assert_ne!(first["out"], second["out"]);
    for object in [first, second] {
        let out = object["out"].as_str().unwrap();
        assert!(out.starts_with("runs/") && out.contains("mlp"), "{out}");
        assert!(bench.path().join(out).join("run.json").is_file());
    }
}

#[test]
fn talk_goes_to_stderr_a_line_a_point() {
    let bench = Bench::new();
    let outcome = bench.measure(&[
        "--modelname",
        "mlp",
        "--threads",
        "1",
        "--whole-model",
        "skip",
        "--out",
        "run",
    ]);
    let table = outcome.done();
    assert!(!table.contains('\u{1b}'), "NO_COLOR");
    let points = rows(&bench.path().join("run")).len();
    let said = outcome
        .stderr
        .lines()
        .filter(|line| line.starts_with("measure ") && line.contains(&format!("/{points} ")))
        .count();
    assert_eq!(said, points, "{}", outcome.stderr);
}

#[test]
fn reductions_of_a_whole_tensor_to_one_number() {
    let bench = Bench::new();
    let x = Tensor {
        name: "x",
        shape: &[16, 33],
    };
    let scalar = |name| Tensor { name, shape: &[] };
    for op in ["ReduceMean", "ReduceMax"] {
        let reduce = Node {
            op,
            name: "whole",
            inputs: &["x"],
            output: "y",
            attributes: &[("keepdims", 0)],
        };
        let file = format!("{op}.onnx");
        bench.file(&file, model(&[x], &[reduce], scalar("y")));
        bench
            .measure(&[
                "--modelsource",
                "onnx",
                "--modelname",
                &file,
                "--threads",
                "1",
                "--out",
                op,
            ])
            .done();
        let rows = rows(&bench.path().join(op));
        assert!(!rows.is_empty(), "{op}");
        for row in rows {
            assert_eq!(row.status, opdata::Status::Measured, "{op}: {row:?}");
        }
    }
}
