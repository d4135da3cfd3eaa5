//! oppredict: batches of queries, the Python example, and the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::Bench;
use e2e::Outcome;
use e2e::predict::{command, json, oppredict, trained};

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
fn queries_are_answered_in_batches_and_python_reads_the_same_files() {
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
            device_kind: opdata::DeviceKind::CPU,
            status: opdata::Status::Measured,
        })
    };
    let mut rows = opdata::formats::csv::header();
    rows.extend(opdata::formats::csv::line(&row));
    (row.status, row.time_median_ns) = (opdata::Status::Crashed, None);
    row.reason = Some("two\nlines".to_owned());
    rows.extend(opdata::formats::csv::line(&row));
    bench.file("rows.csv", rows);
    let query = r#"{"op": "conv2d", "input": [1, 64, 14, 14], "kernel": [3, 3], "stride": [1, 1], "channels": 64, "threads": [2]}"#;
    if let Some(best) = python(&bench, &["rows", "rows.csv"]) {
        let line = best.done();
        assert!(
            line.contains("1.500 ms   2 threads  conv2d_add, \"fused\" 1x64x14x14"),
            "{line}"
        );
        let queries = python(&bench, &["queries", "rows.csv"]).expect("as before");
        assert_eq!(queries.done().trim(), query);
    }

    bench.file("good.jsonl", format!("{query}\n\n{query}\n"));
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
        format!("{query}\n{{\n{{\"op\": \"sing\", \"input\": [1]}}\n"),
    );
    let mixed = Outcome::of(command(
        &bench,
        &["batch", "mixed.jsonl", "--model", "cpu.opm"],
    ));
    mixed.failed(1, &["2 of 3 queries have no answer"]);
    bench.file("empty.jsonl", "\n");
    let empty = ["batch", "empty.jsonl", "--model", "cpu.opm"];
    oppredict(&bench, &empty).failed(1, &["empty.jsonl", "has no query"]);

    if let Some(trees) = python(&bench, &["trees", "cpu.opm"]) {
        let lines: Vec<&str> = trees.done().lines().collect();
        assert!(lines[0].ends_with("features, 140 samples"), "{lines:?}");
        assert!(lines[1].contains(" trees over "), "{lines:?}");
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

    let query = r#"{"op": "conv2d", "input": [1, 64, 14, 14], "kernel": [3, 3], "channels": 64, "threads": [1, 2]}"#;
    let (status, body) = ask(&address, "POST /v1/query", query);
    assert_eq!(status, 200, "{body}");
    assert_eq!(json(&body)["lines"].as_array().expect("a list").len(), 2);
    assert_eq!(ask(&address, "GET /openapi.json", "").0, 200);
    assert_eq!(json(&ask(&address, "GET /v1/model", "").1)["samples"], 140);
    assert!(ask(&address, "GET /", "").1.contains("<form"));

    let batch = format!("[{query}, {{\"op\": \"sing\", \"input\": [1]}}, 7]");
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
