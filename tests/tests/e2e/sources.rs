//! Models of other sources: of PyTorch, and of a server on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use e2e::{Bench, relu, skip};
use opdata::{Status, read_rows};

/// Status of a wrong request.
const USAGE: i32 = 2;
/// Status of a failure.
const FAILED: i32 = 1;

/// Whether `scripts/setup --with EXTRA` has run; says so where not.
fn has_extra(extra: &str, check: &str) -> bool {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv");
    let there = environment.join(extra).join(".opbench").is_file();
    if !there {
        skip(check, &format!("scripts/setup --with {extra} has not run"));
    }
    there
}

/// Whether models of PyTorch can be built.
fn has_torch(check: &str) -> bool {
    has_extra("torch", check)
}

/// One of the small models of `opcollect list patterns`.
fn pattern(file: &str) -> String {
    format!("{}/../models/patterns/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_tflite_file_of_bytes_is_measured_in_integers() {
    let bench = Bench::new();
    let file = pattern("qconv2d.tflite");
    let model = ["--modelsource", "tflite", "--modelname", &file];
    let listed = bench.run(&[&["list", "ops"], &model[..]].concat());
    let text = listed.done();
    assert!(
        text.contains("qconv2d_requantize  qconv2d    int8"),
        "{text}"
    );
    bench
        .measure(&[&model[..], &["--threads=1", "--out=run"]].concat())
        .done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let product = rows.iter().find(|row| row.op_kind == "qconv2d").unwrap();
    assert_eq!(product.status, Status::Measured);
    assert_eq!(product.model_source.as_deref(), Some("tflite"));
    assert!(
        product
            .dtypes
            .as_ref()
            .unwrap()
            .starts_with("int8;int8;int32")
    );
    let knobs = format!("{:?}", product.schedule_knobs);
    assert!(knobs.contains("dot"), "{knobs}");
}

#[test]
fn files_that_are_no_tflite_files_are_refused() {
    let bench = Bench::new();
    let refused = |file: &str, words: &[&str]| {
        let outcome = bench.run(&["--modelsource", "tflite", "--modelname", file]);
        outcome.failed(FAILED, words);
    };
    bench.file("text.tflite", "not a flatbuffer at all");
    refused("text.tflite", &["text.tflite", "TFL3"]);
    let whole = std::fs::read(pattern("qdense.tflite")).unwrap();
    bench.file("short.tflite", &whole[..whole.len() / 2]);
    refused("short.tflite", &["short.tflite", "damaged"]);
    let none = ["--modelsource", "tflite", "--modelname", "no.tflite"];
    assert!(bench.run(&none).message().contains("no.tflite"));
}

#[test]
fn a_stablehlo_module_is_measured_and_foreign_operations_are_refused() {
    let bench = Bench::new();
    let run = |file: &str, further: &[&str]| {
        let model = ["--modelsource", "stablehlo", "--modelname", file];
        bench.measure(&[&model[..], further].concat())
    };
    let softmax = pattern("softmax.mlir");
    if !has_extra("stablehlo", "a StableHLO module") {
        run(&softmax, &[]).failed(FAILED, &["scripts/setup --with stablehlo"]);
        return;
    }
    run(&softmax, &["--threads=1", "--out=run"]).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(rows.iter().all(|row| row.status == Status::Measured));
    assert!(rows.iter().any(|row| row.op_kind == "reduce"));
    bench.file(
        "digamma.mlir",
        "func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n  \
         %0 = chlo.digamma %arg0 : tensor<4xf32> -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n",
    );
    run("digamma.mlir", &[]).failed(FAILED, &["chlo.digamma", "line 2:"]);
    bench.file("text.mlir", "no module");
    run("text.mlir", &[]).failed(FAILED, &["text.mlir", "not a StableHLO module"]);
}

#[test]
fn forms_of_quantised_operators_end_as_the_same_operator() {
    let bench = Bench::new();
    let outcome = bench.run(&["list", "patterns", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let forms = listed["patterns"].as_array().unwrap();
    let of = |composite: &str, form: &str| {
        let found = forms
            .iter()
            .find(|f| f["composite"] == composite && f["form"] == form);
        found.unwrap_or_else(|| panic!("no {composite} of {form}"))
    };
    for form in ["ONNX, QDQ", "ONNX, QLinearConv", "TFLite, int8"] {
        let operators = of("qconv2d", form)["operators"].as_array().unwrap();
        assert!(operators.contains(&"qconv2d_requantize".into()), "{form}");
    }
    assert_eq!(of("qconv2d", "ONNX, QLinearConv")["file"][0], "QLinearConv");
    assert_eq!(of("gelu", "ONNX, Gelu")["relax"][0], "relax.nn.gelu");
    let text = bench.run(&["list", "patterns"]);
    assert!(
        text.done()
            .contains("DequantizeLinear ×2 → Conv → Relu → QuantizeLinear")
    );
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
    // Names and sizes that the libraries refuse are tested in models/python/tests/test_torch.py, where PyTorch is imported
    // once for all of them: that alone takes seconds.
    bench.file(
        "tiny.json",
        r#"{"model_type": "bert", "hidden_size": "many"}"#,
    );
    let config = [
        "--modelsource=transformers",
        "--modelname=bert",
        "--config=tiny.json",
    ];
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
    let url = serve_once(relu(&[4, 32]));
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
        .failed(USAGE, &["no such operator", "dense_add"]);
}

#[test]
fn every_operator_has_a_schedule_template() {
    let bench = Bench::new();
    for model in ["bert-tiny", "shufflenet", "yolov3-tiny", "gru"] {
        assert_eq!(without_template(&bench, model), "", "{model}");
    }
}

#[test]
#[ignore = "imports the whole zoo, which takes a minute"]
fn every_operator_of_the_zoo_has_a_schedule_template() {
    let bench = Bench::new();
    let listed = bench.run(&["list", "models", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(listed.done()).unwrap();
    for model in listed["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        assert_eq!(without_template(&bench, name), "", "{name}");
    }
}

/// Operators of a model that no template fits, which stay the scalar loops that TVM's library wrote.
fn without_template(bench: &Bench, model: &str) -> String {
    let outcome = bench.run(&["list", "ops", "--json", "--modelname", model, "--ir"]);
    let listed: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let operators = listed["ops"].as_array().unwrap().iter();
    let left = operators.filter(|o| o["schedule"]["template"] == "unscheduled");
    left.map(|o| o["symbol"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn unfused_operators_are_kernels_of_their_own() {
    let bench = Bench::new();
    let names = |fusion| operator_names(&bench, "mlp", &["--fusion", fusion]);
    assert!(names("full").contains(&"dense_add_relu".to_owned()));
    assert!(names("none").iter().all(|name| !name.contains("_add")));
    bench
        .run(&["--modelname", "mlp", "--fusion", "some"])
        .failed(USAGE, &["--fusion some", "full or none"]);
}

/// Names of the operators of a model, listed with further arguments.
fn operator_names(bench: &Bench, model: &str, further: &[&str]) -> Vec<String> {
    let listing = ["list", "ops", "--json", "--modelname", model];
    let outcome = bench.run(&[&listing[..], further].concat());
    let listed: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let name = |operator: &serde_json::Value| operator["name"].as_str().unwrap().to_owned();
    listed["ops"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn composites_are_listed_measured_and_checked_as_one_operator() {
    let bench = Bench::new();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../configs/composites/transformer.toml"
    );
    let further = ["--seqlen", "16", "--composites", example];
    let names = operator_names(&bench, "bert-tiny", &further);
    for name in ["attention", "gelu"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    let table = "[[composite]]\nname = \"layer\"\noperators = [\"dense\", \"add\", \"relu\"]\n";
    bench.file("own.toml", table);
    let job = ["--modelname", "mlp", "--threads=1", "--fusion=none"];
    let outcome = bench.measure(&[&job[..], &["--composites=own.toml", "--out=run"]].concat());
    let text = outcome.done();
    assert!(text.contains("not fused, composites of own.toml"), "{text}");
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let layers: Vec<_> = rows.iter().filter(|row| row.op_name == "layer").collect();
    assert_eq!(layers.len(), 2);
    for row in layers {
        assert_eq!(
            (row.op_kind.as_str(), row.status),
            ("dense", Status::Measured)
        );
    }
    assert!(rows.iter().all(|row| row.op_name != "relu"));
    // The plan holds the table itself, so the run can be repeated without the file.
    std::fs::remove_file(bench.path().join("own.toml")).unwrap();
    // Whether the time is the recorded one is the machine's affair here.
    let again = bench.run(&["replay", &rows[0].row_id, "--run", "run", "--json"]);
    let replayed: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert!(replayed["now"]["time_median_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn wrong_composites_are_refused_with_line_and_reason() {
    let bench = Bench::new();
    let refused = |operators: &str, words: &[&str]| {
        let table = format!("[[composite]]\nname = \"layer\"\noperators = [{operators}]\n");
        bench.file("own.toml", table);
        let job = ["--modelname", "mlp", "--composites", "own.toml"];
        bench.run(&job).failed(USAGE, words);
    };
    refused("", &["own.toml:3", "empty"]);
    refused("\"dense\", \"layer\"", &["own.toml:2", "contains itself"]);
    refused("\"dense\", \"rellu\"", &["own.toml:2", "rellu", "relu"]);
    refused("\"conv2d\", \"relu\"", &["occurs in the model", "dense"]);
    let job = ["--modelname", "mlp", "--composites", "no.toml"];
    bench.run(&job).failed(USAGE, &["--composites no.toml"]);
}
