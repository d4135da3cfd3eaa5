//! oppredict: evaluation of a foreign log, training, questions, and what it says to bad input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{Bench, Outcome};
use serde_json::Value;

/// Runs oppredict to its end.
fn oppredict(bench: &Bench, args: &[&str]) -> Outcome {
    Outcome::of(command(bench, args))
}

/// oppredict beside opcollect, in the bench's folder.
fn command(bench: &Bench, args: &[&str]) -> Command {
    let opcollect = bench.command::<&str>([]);
    let mut command = Command::new(Path::new(opcollect.get_program()).with_file_name("oppredict"));
    command
        .args(args)
        .current_dir(bench.path())
        .env_remove("OPPREDICT_MODEL")
        .env_remove("RUST_BACKTRACE");
    command
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A log of tiled convolutions: 14 shapes with 10 schedules each, whose times follow the tile and the work.
fn log(target: &str) -> String {
    log_of_machine(target, 1.0)
}

/// The same on a machine that takes `slower` times as long.
fn log_of_machine(target: &str, slower: f64) -> String {
    let mut text = String::new();
    for shape in 0..14u64 {
        let channels = 32 << (shape % 4);
        let size = 7 + shape;
        for schedule in 0..10u64 {
            let (block, width) = (4 << (schedule % 4), 1 + schedule % 7);
            let work = (channels * channels * size * size * 9) as f64;
            let tile = (block * width) as f64;
            let cost =
                slower * work * 1e-11 * (1.0 + 40.0 / tile + if tile > 64.0 { 0.5 } else { 0.0 });
            text.push_str(&format!(
                "{{\"input\": [\"{target}\", \"conv2d_NCHWc.x86\", [[\"TENSOR\", [1, {channels}, {size}, {size}], \"float32\"], \
                 [\"TENSOR\", [{channels}, {channels}, 3, 3], \"float32\"], [1, 1], [1, 1, 1, 1], [1, 1], \"NCHW\", \"NCHW\", \"float32\"], {{}}], \
                 \"config\": {{\"index\": {schedule}, \"entity\": [[\"tile_ic\", \"sp\", [-1, 8]], [\"tile_oc\", \"sp\", [-1, {block}]], \
                 [\"tile_ow\", \"sp\", [-1, {width}]], [\"unroll_kw\", \"ot\", true]]}}, \"result\": [[{cost:e}], 0, 1.0, 1660000000.0], \
                 \"version\": 0.2, \"tvm_version\": \"0.8.0\"}}\n"
            ));
        }
    }
    text
}

#[test]
fn a_log_is_evaluated() {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let args = [
        "eval",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--split",
        "leave-one-workload-out",
        "--json",
    ];
    let report = json(oppredict(&bench, &args).done());
    assert_eq!(report["split"], "leave-one-workload-out");
    assert_eq!(
        (&report["samples"], &report["folds"]),
        (&140.into(), &14.into())
    );
    let mape = report["mape"].as_f64().expect("a number");
    assert!(mape > 0.0 && mape < 40.0, "{mape}");
    assert!(report["pairwise"].as_f64().expect("a number") > 75.0);
    for key in [
        "median_ape",
        "within_10",
        "r2_log2",
        "spearman",
        "top1",
        "top5",
        "coverage",
        "by_kind",
    ] {
        assert!(!report[key].is_null(), "{key} is missing");
    }
    let again = json(oppredict(&bench, &args).done());
    assert_eq!(report, again, "the same seed gives the same report");

    let plots = [
        "eval",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--split",
        "5-fold",
        "--model",
        "ridge",
        "--plots",
        "plots",
    ];
    let text = oppredict(&bench, &plots);
    let line = text
        .done()
        .lines()
        .find(|l| l.starts_with("all "))
        .expect("a line of metrics")
        .to_owned();
    let mape: f64 = line
        .split_whitespace()
        .nth(2)
        .and_then(|m| m.parse().ok())
        .expect("a number");
    assert!(
        mape < 100.0,
        "a straight line does better than that: {line}"
    );
    for name in ["predicted.svg", "residuals.svg"] {
        assert!(bench.path().join("plots").join(name).is_file());
    }
}

#[test]
fn a_model_is_trained_and_asked() {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let train = [
        "train",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--out",
        "models/cpu.opm",
        "--json",
    ];
    let facts = json(oppredict(&bench, &train).done());
    assert_eq!(
        (&facts["samples"], &facts["workloads"]),
        (&140.into(), &14.into())
    );

    let query = |more: &[&str]| {
        let args = [&["query", "--input", "1x64x14x14", "--json"], more].concat();
        json(oppredict(&bench, &args).done())
    };
    let lines = query(&[
        "--op",
        "conv2d",
        "--kernel",
        "3x3",
        "--channels",
        "64",
        "--threads",
        "1,2",
    ]);
    assert_eq!(lines.as_array().expect("a list").len(), 2);
    let first = &lines[0];
    let number = |key: &str| first[key].as_f64().expect("a number");
    assert!(number("low_ns") <= number("time_ns") && number("time_ns") <= number("high_ns"));
    assert_eq!(first["knowledge"], "known");
    assert_eq!(first["nearest"].as_array().expect("a list").len(), 3);
    assert!(!first["drivers"].as_array().expect("a list").is_empty());

    let huge = query(&["--op", "conv2d", "--kernel", "3x3", "--channels", "4096"]);
    assert!(
        !huge[0]["extrapolates"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let unknown = query(&["--op", "softmax"]);
    assert_eq!(unknown[0]["knowledge"], "unknown_kind");
    assert!(
        unknown[0]["time_ns"].as_f64().expect("a number") > 0.0,
        "never a silent zero"
    );

    let rows = oppredict(&bench, &["predict", "--import", "autotvm", "tune.jsonl"]);
    let lines: Vec<&str> = rows.done().lines().collect();
    assert_eq!(lines.len(), 141);
    assert!(lines[0].starts_with("row_id,op_name,threads,predicted_ns,low_ns,high_ns,"));
}

/// A bench with a log and the model `cpu.opm` trained on it.
fn trained() -> Bench {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    oppredict(
        &bench,
        &[
            "train",
            "--import",
            "autotvm",
            "tune.jsonl",
            "--out",
            "cpu.opm",
        ],
    )
    .done();
    bench
}

#[test]
fn model_files_that_are_damaged_or_foreign_are_refused() {
    let bench = trained();
    let ask = |file: &str| {
        let args = [
            "query",
            "--model",
            file,
            "--op",
            "dense",
            "--input",
            "1x64",
            "--channels",
            "64",
        ];
        oppredict(&bench, &args)
    };
    ask("cpu.opm").done();
    let good = std::fs::read(bench.path().join("cpu.opm")).expect("the model");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    bench.file("flipped.opm", flipped);
    ask("flipped.opm").failed(1, &["flipped.opm", "checksum", "oppredict train"]);
    bench.file("short.opm", &good[..good.len() / 3]);
    ask("short.opm").failed(1, &["short.opm", "checksum"]);
    bench.file("foreign.opm", "PK\u{3}\u{4}");
    ask("foreign.opm").failed(1, &["no model of oppredict"]);
    bench.file("empty.opm", "");
    ask("empty.opm").failed(1, &["no model of oppredict"]);
    ask("none.opm").failed(1, &["none.opm", "cannot be read"]);
}

#[test]
fn a_model_is_carried_over_to_another_machine() {
    let bench = trained();
    let other = log_of_machine("llvm -mcpu=other", 3.0);
    bench.file("other.jsonl", other);
    let adapt = |count: &str, more: &[&str]| {
        let data = [
            "adapt",
            "--import",
            "autotvm",
            "other.jsonl",
            "--model",
            "cpu.opm",
        ];
        let rest = ["--measurements", count];
        oppredict(&bench, &[&data, &rest[..], more].concat())
    };
    let gain = json(adapt("30", &["--out", "other.opm", "--json"]).done());
    let of = |key: &str| gain[key].as_f64().expect("a number");
    assert_eq!((of("measurements"), of("held_out")), (30.0, 110.0));
    assert!(of("adapted_mape") < of("zero_shot_mape"), "{gain}");
    adapt("500", &[]).failed(1, &["adapting with a check", "140"]);

    let ask = |model: &str| {
        let args = [
            "query",
            "--op",
            "conv2d",
            "--input",
            "1x64x14x14",
            "--kernel",
            "3x3",
            "--channels",
            "64",
            "--json",
            "--model",
            model,
        ];
        json(oppredict(&bench, &args).done())
    };
    assert_ne!(ask("cpu.opm"), ask("other.opm"));
    let fast = [
        "predict",
        "--import",
        "autotvm",
        "other.jsonl",
        "--model",
        "other.opm",
        "--fast",
    ];
    oppredict(&bench, &fast).failed(1, &["adapted to another machine", "leave --fast out"]);
}

#[test]
fn data_that_nothing_can_be_learned_from_is_refused() {
    let bench = Bench::new();
    let eval = |text: &str| {
        bench.file("x.jsonl", text);
        oppredict(&bench, &["eval", "--import", "autotvm", "x.jsonl"])
    };
    eval("").failed(1, &["nothing to learn from", "0 rows"]);
    // What can be used of a damaged log is used, unless all of it is asked for.
    let damaged = format!("# a remark\n{}{{\"input\": [\"llvm", log("llvm"));
    let outcome = eval(&damaged);
    for reason in [
        "1 records left out: comments",
        "1 records left out: damaged lines",
    ] {
        assert!(outcome.done().contains(reason), "{}", outcome.done());
    }
    oppredict(
        &bench,
        &["eval", "--strict", "--import", "autotvm", "x.jsonl"],
    )
    .failed(1, &["x.jsonl:", "not JSON"]);
    eval("{\"a\": 1}\n").failed(1, &["x.jsonl:1", "not an AutoTVM record"]);
    eval(log("llvm").lines().next().expect("a line")).failed(1, &["at least 2 workloads"]);
    let costs = |line: &str| {
        let (head, tail) = line.split_once("\"result\": [[").expect("a result");
        format!(
            "{head}\"result\": [[0.001{}",
            &tail[tail.find(']').expect("an end")..]
        )
    };
    let constant: Vec<String> = log("llvm").lines().map(costs).collect();
    eval(&constant.join("\n")).failed(1, &["took 1000000 ns", "constant"]);
    eval(&format!("{}{}", log("llvm"), log("llvm -mcpu=skylake")))
        .failed(1, &["2 machines", "--mixed-machines"]);

    oppredict(&bench, &["eval"]).failed(1, &["no data"]);
    oppredict(&bench, &["eval", "--import", "ansor", "x.jsonl"]).failed(1, &["ansor", "autotvm"]);
    oppredict(&bench, &["eval", "no/such/run"]).failed(1, &["no/such/run"]);
    oppredict(&bench, &["query", "--op", "dense", "--input", "1x4"])
        .failed(1, &["no trained model", "oppredict train"]);
    oppredict(&bench, &["eval", "--split", "by-mood"])
        .failed(2, &["by-mood", "leave-one-workload-out"]);
}

#[test]
fn turning_points_and_correlations_are_told() {
    let bench = Bench::new();
    let mut sweeps = "model,device,threads,total_time\n".to_owned();
    for model in ["a", "b"] {
        for threads in 1..=32 {
            let time = 1000.0 / f64::from(threads.min(12)) + f64::from(threads);
            sweeps.push_str(&format!("{model},cpu,{threads},{time}\n"));
        }
    }
    bench.file("sweeps.csv", sweeps);
    let analysis = json(oppredict(&bench, &["turning", "sweeps.csv", "--json"]).done());
    assert_eq!(analysis["sweeps"][0]["best"], 12.0);
    let turn = analysis["sweeps"][0]["turn"]["x"]
        .as_f64()
        .expect("a number");
    assert!((9.0..=14.0).contains(&turn), "{turn}");
    assert!(analysis["mean_ratio"].as_f64().expect("a number") < 1.2);

    bench.file("tune.jsonl", log("llvm"));
    let args = [
        "correlate",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--partial",
        "1",
        "--json",
    ];
    let kinds = json(oppredict(&bench, &args).done());
    assert_eq!(kinds[0]["kind"], "conv2d");
    let strongest = &kinds[0]["factors"][0];
    assert!(
        strongest["p_spearman"].as_f64().expect("a number") < 0.05,
        "{strongest}"
    );
    assert!(!strongest["partial"].as_array().expect("a list").is_empty());
}

/// The Python example on files of the bench; none where there is no Python that can run it.
fn python(bench: &Bench, args: &[&str]) -> Option<Outcome> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a root");
    let make = |args: &[&str]| {
        let mut command = Command::new("python3");
        command
            .args(args)
            .current_dir(bench.path())
            .env("PYTHONPATH", root.join(".venv/xgboost"));
        command
    };
    let needed = if args.contains(&"trees") {
        "import xgboost"
    } else {
        "import csv"
    };
    let able = make(&["-c", needed])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !able {
        e2e::skip(
            &format!("predictor/examples/files.py {}", args[0]),
            &format!("no python3 that can `{needed}`; scripts/setup makes one"),
        );
        return None;
    }
    let script = root.join("predictor/examples/files.py");
    Some(Outcome::of(make(
        &[&[&*script.to_string_lossy()], args].concat(),
    )))
}

#[test]
fn questions_are_answered_in_batches_and_python_reads_the_same_files() {
    let bench = trained();
    let mut row = opdata::Row {
        time_median_ns: Some(1.5e6),
        input_shapes: Some("1x64x14x14".parse().expect("shapes")),
        kernel: Some([3, 3].into()),
        stride: Some([1, 1].into()),
        out_channels: Some(64),
        threads: Some(2),
        ..opdata::Row::new(opdata::Essentials {
            run_id: "run",
            ordinal: 1,
            point_id: "p",
            op_name: "conv2d_add, \"fused\"",
            op_kind: "conv2d",
            device_kind: opdata::DeviceKind::Cpu,
            status: opdata::Status::Measured,
        })
    };
    let mut rows = opdata::formats::csv::header();
    rows.extend(opdata::formats::csv::line(&row));
    (row.status, row.time_median_ns) = (opdata::Status::Crashed, None);
    row.reason = Some("two\nlines".to_owned());
    rows.extend(opdata::formats::csv::line(&row));
    bench.file("rows.csv", rows);
    let question = r#"{"op": "conv2d", "input": [1, 64, 14, 14], "kernel": [3, 3], "stride": [1, 1], "channels": 64, "threads": [2]}"#;
    if let Some(best) = python(&bench, &["rows", "rows.csv"]) {
        let line = best.done();
        assert!(
            line.contains("1.500 ms   2 threads  conv2d_add, \"fused\" 1x64x14x14"),
            "{line}"
        );
        let questions = python(&bench, &["questions", "rows.csv"]).expect("as before");
        assert_eq!(questions.done().trim(), question);
    }

    bench.file("good.jsonl", format!("{question}\n\n{question}\n"));
    let batch = ["batch", "good.jsonl", "--model", "cpu.opm"];
    let answers = oppredict(&bench, &batch).done().to_owned();
    let first = json(answers.lines().next().expect("a line"));
    assert_eq!(answers.lines().count(), 2);
    let args = [
        "query",
        "--model",
        "cpu.opm",
        "--json",
        "--op",
        "conv2d",
        "--input",
        "1x64x14x14",
    ];
    let more = ["--kernel", "3x3", "--channels", "64", "--threads", "2"];
    let queried = json(oppredict(&bench, &[&args[..], &more].concat()).done());
    assert_eq!(first["lines"][0]["time_ns"], queried[0]["time_ns"]);
    bench.file("answers.jsonl", &answers);
    if let Some(read) = python(&bench, &["answers", "good.jsonl", "answers.jsonl"]) {
        assert_eq!(read.done().lines().count(), 2);
    }

    bench.file(
        "mixed.jsonl",
        format!("{question}\n{{\n{{\"op\": \"sing\", \"input\": [1]}}\n"),
    );
    let mixed = Outcome::of(command(
        &bench,
        &["batch", "mixed.jsonl", "--model", "cpu.opm"],
    ));
    mixed.failed(1, &["2 of 3 questions have no answer"]);
    bench.file("empty.jsonl", "\n");
    let empty = ["batch", "empty.jsonl", "--model", "cpu.opm"];
    oppredict(&bench, &empty).failed(1, &["empty.jsonl", "has no question"]);

    if let Some(trees) = python(&bench, &["trees", "cpu.opm"]) {
        let lines: Vec<&str> = trees.done().lines().collect();
        assert!(lines[0].ends_with("features, 140 samples"), "{lines:?}");
        assert!(lines[1].starts_with("150 trees over "), "{lines:?}");
    }
}

/// One request to a server; gives the status and the body.
fn ask(address: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer
        .split_whitespace()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("a status");
    let body = answer.split_once("\r\n\r\n").expect("a body").1.to_owned();
    (status, body)
}

#[test]
fn a_server_answers_refuses_and_ends() {
    let bench = trained();
    let mut server = command(&bench, &["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("oppredict starts");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("a pipe");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("the address");
    let address = line
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();

    let question = r#"{"op": "conv2d", "input": [1, 64, 14, 14], "kernel": [3, 3], "channels": 64, "threads": [1, 2]}"#;
    let (status, body) = ask(&address, "POST /v1/query", question);
    assert_eq!(status, 200, "{body}");
    assert_eq!(json(&body)["lines"].as_array().expect("a list").len(), 2);
    assert_eq!(ask(&address, "GET /openapi.json", "").0, 200);
    assert_eq!(json(&ask(&address, "GET /v1/model", "").1)["samples"], 140);
    assert!(ask(&address, "GET /", "").1.contains("<form"));

    let batch = format!("[{question}, {{\"op\": \"sing\", \"input\": [1]}}, 7]");
    let (status, body) = ask(&address, "POST /v1/batch", &batch);
    assert_eq!(status, 200, "{body}");
    let answers = json(&body)["answers"].clone();
    assert_eq!(answers[0]["lines"][1]["threads"], 2);
    for refused in [1, 2] {
        assert!(answers[refused]["error"].is_string(), "{answers}");
    }
    let asked = python(&bench, &["ask", &format!("http://{address}/")]);
    if let Some(asked) = asked {
        assert_eq!(asked.done().lines().count(), 2);
    }

    for (status, body) in [
        (400, "{"),
        (422, r#"{"op": "conv2d"}"#),
        (422, r#"{"op": "sing", "input": [1]}"#),
        (422, r#"{"op": "softmax", "input": [1, 9], "colour": 1}"#),
        (422, r#"{"op": "softmax", "input": [0]}"#),
    ] {
        let (found, answer) = ask(&address, "POST /v1/query", body);
        assert_eq!(found, status, "{body}: {answer}");
        assert!(json(&answer)["error"].is_string(), "{answer}");
    }
    assert_eq!(ask(&address, "POST /v1/query", &" ".repeat(100_000)).0, 413);
    for (status, head) in [(404, "GET /etc/passwd"), (405, "GET /v1/query")] {
        let (found, answer) = ask(&address, head, "");
        assert_eq!(found, status, "{head}: {answer}");
        assert!(json(&answer)["error"].is_string(), "{answer}");
    }
    // A client that goes silent in the middle of its request keeps nobody from ending.
    let mut silent = TcpStream::connect(&address).expect("a connection");
    silent.write_all(b"POST /v1/que").expect("half a line");

    let id = server.id().to_string();
    let told = Command::new("kill")
        .args(["-TERM", &id])
        .status()
        .expect("kill");
    assert!(told.success());
    assert_eq!(server.wait().expect("an end").code(), Some(0));
}
