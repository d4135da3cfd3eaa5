//! Models of other sources: of PyTorch, and of a server on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use e2e::{Bench, Node, Tensor, model, skip};
use opdata::{Status, read_rows};

/// Status of a wrong request.
const USAGE: i32 = 2;
/// Status of a failure.
const FAILED: i32 = 1;

/// Whether `scripts/setup --with torch` has run; says so where not.
fn has_torch(check: &str) -> bool {
    let stamp = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/torch/.opbench");
    let there = stamp.is_file();
    if !there {
        skip(check, "scripts/setup --with torch has not run");
    }
    there
}

#[test]
fn an_encoder_of_transformers_is_measured_and_checked_against_pytorch() {
    if !has_torch("a model of transformers") {
        return;
    }
    let bench = Bench::new();
    let outcome = bench.measure(&[
        "--modelsource",
        "transformers",
        "--modelname",
        "bert",
        "--hidden=32",
        "--layers=1",
        "--heads=2",
        "--intermediate=64",
        "--seqlen=16",
        "--threads=1",
        "--out=run",
    ]);
    let text = outcome.done();
    assert!(text.contains("checked against PyTorch"), "{text}");
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(rows.iter().any(|row| row.op_kind == "batch_matmul"));
    for row in rows {
        assert_eq!(row.status, Status::Measured);
        assert_eq!(
            row.model_name.as_deref(),
            Some("bert:hidden=32,layers=1,heads=2,intermediate=64")
        );
    }
}

#[test]
fn names_and_sizes_that_cannot_be_are_refused() {
    let bench = Bench::new();
    let refused = |arguments: &[&str], words: &[&str]| {
        bench.run(arguments).failed(USAGE, words);
    };
    refused(
        &["--modelname", "resnet-18", "--layers", "2"],
        &["--layers", "transformers"],
    );
    refused(
        &["--modelsource", "timm", "--modelname", "dpn68"],
        &["--modelsource torch"],
    );
    if !has_torch("names of models that PyTorch builds") {
        return;
    }
    let of =
        |source: &'static str, name: &'static str| ["--modelsource", source, "--modelname", name];
    refused(&of("transformers", "bertt"), &["did you mean 'bert'"]);
    refused(&of("torch", "resnt18"), &["did you mean 'resnet18'"]);
    let huge = [
        &of("transformers", "llama")[..],
        &["--layers", "4000", "--hidden", "8192"],
    ]
    .concat();
    refused(&huge, &["GiB of memory are free", "--layers"]);
    bench.file(
        "tiny.json",
        r#"{"model_type": "bert", "hidden_size": "many"}"#,
    );
    let config = [&of("transformers", "bert")[..], &["--config", "tiny.json"]].concat();
    refused(&config, &["hidden_size", "many"]);
}

/// Answers one request with these bytes.
fn serve_once(content: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&content).unwrap();
    });
    format!("http://{address}/zoo/relu-7.onnx")
}

#[test]
fn a_model_of_a_server_is_fetched_and_measured() {
    let bench = Bench::new();
    let tensor = |name| Tensor {
        name,
        shape: &[4, 32],
    };
    let relu = Node {
        op: "Relu",
        name: "act",
        inputs: &["x"],
        output: "y",
        ..Node::default()
    };
    let url = serve_once(model(&[tensor("x")], &[relu], tensor("y")));
    let arguments = [
        "--modelsource",
        "remoteonnx",
        "--modelname",
        &url,
        "--threads=1",
    ];
    bench
        .measure(&[&arguments[..], &["--out=run"]].concat())
        .done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert_eq!(rows[0].model_name.as_deref(), Some("relu-7"));
    // The server is gone; the file is there.
    bench
        .measure(&[&arguments[..], &["--out=again"]].concat())
        .done();
}

#[test]
fn without_a_network_the_place_for_the_file_is_named() {
    let bench = Bench::new();
    bench
        .run(&[
            "--modelsource",
            "remoteonnx",
            "--modelname",
            "http://127.0.0.1:9/net.onnx",
        ])
        .failed(FAILED, &["127.0.0.1:9", "put it at", "net.onnx"]);
}

#[test]
fn an_operator_is_shown_as_relax_and_tensor_ir() {
    let bench = Bench::new();
    let of = |operator| ["list", "ops", "--modelname", "mlp", "--ir", operator];
    let outcome = bench.run(&of("dense_add"));
    let text = outcome.done();
    assert!(text.contains("R.call_tir(dense_add, "), "{text}");
    assert!(text.contains("@T.prim_func"), "{text}");
    bench
        .run(&of("dens_add"))
        .failed(FAILED, &["no such operator", "dense_add"]);
}

#[test]
fn unfused_operators_are_kernels_of_their_own() {
    let bench = Bench::new();
    let count = |fusion| {
        let outcome = bench.run(&[
            "list",
            "ops",
            "--modelname",
            "mlp",
            "--fusion",
            fusion,
            "--json",
        ]);
        let listed: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        let names: Vec<String> = listed["ops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|op| op["name"].to_string())
            .collect();
        names
    };
    assert!(
        count("full")
            .iter()
            .any(|name| name.contains("dense_add_relu"))
    );
    assert!(count("none").iter().all(|name| !name.contains("_add")));
    bench
        .run(&["--modelname", "mlp", "--fusion", "some"])
        .failed(USAGE, &["--fusion some", "full or none"]);
}
