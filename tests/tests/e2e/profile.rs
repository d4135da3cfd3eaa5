//! `opcollect profile`: its table, its files, its traces in Perfetto's trace processor, and what it refuses.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::installed::counts;
use e2e::{Bench, skip};
use serde_json::Value;

const PROFILE: [&str; 5] = [
    "profile",
    "--modelname",
    "squeezenet_v1.1",
    "--threads",
    "2",
];

fn profile(bench: &Bench, more: &[&str]) -> Value {
    let args: Vec<&str> = PROFILE.iter().chain(more).copied().collect();
    let text = bench.run(&args).done().to_owned();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[test]
fn parts_explain_the_whole_and_every_cycle_has_files() {
    if !counts("perf:task-clock", "counts of a profile") {
        return;
    }
    let bench = Bench::new();
    let schedule = [
        "--skip-first",
        "2",
        "--wait",
        "1",
        "--warmup",
        "1",
        "--active",
        "3",
        "--repeat",
        "2",
        "--csv",
        "t.csv",
        "--trace",
        "t.json",
        "--memory",
        "--counters",
        "perf:task-clock,perf:page-faults",
        "--json",
    ];
    let object = profile(&bench, &schedule);
    let explained = object["explained"].as_f64().expect("a share");
    assert!((0.9..=1.0).contains(&explained), "{object}");
    assert!(object["overhead"].as_f64().is_some());
    let cycles = object["cycles"].as_array().expect("cycles");
    let first: Vec<_> = cycles.iter().map(|c| c["first_step"].as_u64()).collect();
    assert_eq!(first, [Some(4), Some(9)]);
    for (cycle, place) in cycles.iter().zip(1..) {
        let lines = cycle["lines"].as_array().expect("lines");
        let own: f64 = lines.iter().filter_map(|l| l["self_ns"].as_f64()).sum();
        let sum = cycle["sum_ns"].as_f64().expect("a sum");
        assert!((own / sum - 1.0).abs() < 1e-9);
        // The clock of the tasks goes on in the machine's steps too, but the operators have most of it.
        let clock = |line: &Value| line["counts"]["perf:task-clock"].as_f64();
        let counted: f64 = lines.iter().filter_map(clock).sum();
        assert_eq!(cycle["counts"]["perf:task-clock"].as_f64(), Some(counted));
        let operators = lines.iter().filter(|line| line["class"] == "operator");
        assert!(operators.filter_map(clock).sum::<f64>() > counted / 2.0);
        let of = |class: &str| lines.iter().filter(|l| l["class"] == class).count();
        assert!(of("operator") > 0 && of("vm") > 0);
        let busy = lines.iter().any(|l| l["busy_share"].as_f64() > Some(0.0));
        assert!(busy, "no task of a parallel loop was recorded");
        let csv = bench.path().join(format!("t.{place}.csv"));
        let csv = std::fs::read_to_string(csv).expect("a table");
        // A heading, the lines, their sum and the whole.
        assert_eq!(csv.lines().count(), lines.len() + 3, "{csv}");
        let heads = csv.lines().next().expect("a heading");
        let counts = ",Hash,perf:task-clock (ns),perf:page-faults (events),Total (us)";
        assert!(heads.contains(counts), "{heads}");
        let trace = bench.path().join(format!("t.{place}.json"));
        let trace = std::fs::read_to_string(trace).expect("a trace");
        let trace: Value = serde_json::from_str(&trace).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        assert_eq!(events.iter().filter(|e| e["name"] == "run").count(), 3);
    }
    assert!(cycles[0]["peak_bytes"].as_u64() > Some(0));
}

#[test]
fn a_table_by_layer_is_sorted_and_short() {
    let bench = Bench::new();
    let args = [
        "--group-by",
        "layer",
        "--sort",
        "count",
        "--top",
        "2",
        "--active",
        "2",
    ];
    let args: Vec<&str> = PROFILE.iter().chain(&args).copied().collect();
    let outcome = bench.run(&args);
    let text = outcome.done();
    for part in [
        "Argument Shapes",
        " more)",
        "Sum",
        "Total",
        "parts explain",
        "overhead",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Where the trace processor is: a Python with Perfetto's messages, a Node program, and the engine that it runs.
fn trace_processor() -> Option<[PathBuf; 3]> {
    let script = others("install.py");
    let installed = |what: &str| -> Option<Vec<PathBuf>> {
        let output = Command::new("python3")
            .arg(&script)
            .arg(what)
            .output()
            .ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        output
            .status
            .success()
            .then(|| said.lines().map(PathBuf::from).collect())
    };
    let python = installed("bigTpuProfile")?.first()?.join("bin/python");
    match &installed("trace-processor")?[..] {
        [node, engine] => Some([python, node.clone(), engine.clone()]),
        _ => None,
    }
}

fn others(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join("../tpu/tests/others").join(name)
}

/// The answers to questions in SQL about a trace, row by row.
fn ask([python, node, engine]: &[PathBuf; 3], trace: &Path, questions: &[&str]) -> Vec<Value> {
    let mut child = Command::new(python)
        .arg(others("sql.py"))
        .args([node, engine])
        .arg(trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the script starts");
    let mut input = child.stdin.take().expect("its standard input");
    input
        .write_all(questions.join("\n").as_bytes())
        .expect("questions are read");
    drop(input);
    let output = child.wait_with_output().expect("the script ends");
    assert!(output.status.success(), "{}", trace.display());
    let said = String::from_utf8(output.stdout).expect("text");
    said.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn both_traces_answer_the_same_in_the_trace_processor() {
    let Some(tools) = trace_processor() else {
        return skip(
            "traces in the trace processor",
            "it cannot be installed here",
        );
    };
    if !counts("perf:task-clock", "counts in traces") {
        return;
    }
    let bench = Bench::new();
    let questions = [
        "SELECT COUNT(*) FROM slice WHERE name = 'run'",
        "SELECT COUNT(*) > 0 FROM slice s JOIN args a USING (arg_set_id) WHERE a.key LIKE '%shapes' AND a.display_value LIKE 'float32[%'",
        "SELECT COUNT(*) FROM slice WHERE name = 'vm.builtin.alloc_tensor' AND dur < 0",
        "SELECT COUNT(DISTINCT t.name) FROM counter c JOIN track t ON c.track_id = t.id",
        "SELECT MAX(c.value) > 0 FROM counter c JOIN track t ON c.track_id = t.id WHERE t.name LIKE 'tensors%'",
        "SELECT SUM(c.value) > 0 FROM counter c JOIN track t ON c.track_id = t.id WHERE t.name LIKE 'perf:task-clock, ns a call%'",
        "SELECT COUNT(*) > 0 FROM slice s JOIN args a USING (arg_set_id) WHERE a.key LIKE '%perf:task-clock' AND a.real_value > 0",
        "SELECT COUNT(*) FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')",
    ];
    let threads = [
        // A track of a Perfetto trace is a thread of Chrome's.
        "SELECT COUNT(DISTINCT name) FROM track WHERE name LIKE 'pool thread %'",
        "SELECT COUNT(DISTINCT name) FROM thread WHERE name LIKE 'pool thread %'",
    ];
    for (name, threads) in ["t.pftrace", "t.json"].into_iter().zip(threads) {
        let more = [
            "--active",
            "4",
            "--trace",
            name,
            "--counters",
            "perf:task-clock",
            "--json",
        ];
        profile(&bench, &more);
        let all: Vec<&str> = questions.iter().copied().chain([threads]).collect();
        let answers = ask(&tools, &bench.path().join(name), &all);
        let numbers: Vec<Option<i64>> = answers.iter().map(|a| a[0][0].as_i64()).collect();
        assert_eq!(
            numbers,
            [4, 1, 0, 3, 1, 1, 1, 0, 2].map(Some),
            "{name}: {answers:?}"
        );
    }
}

#[test]
fn what_a_profile_cannot_do_is_a_usage_error() {
    let bench = Bench::new();
    for (args, said) in [
        (
            &["profile", "--modelname", "mlp", "--threads", "1,2"][..],
            "one number of threads",
        ),
        (
            &["profile", "--modelname", "mlp", "--target", "cuda"],
            "measure the model instead",
        ),
        (
            &["profile", "--modelname", "mlp", "--active", "0"],
            "--active",
        ),
        (
            &["profile", "--modelname", "mlp", "--group-by", "colour"],
            "colour",
        ),
        (
            &["profile", "--modelname", "no-such-model"],
            "no-such-model",
        ),
        (&["profile"], "modelname"),
        (
            &[
                "profile",
                "--modelname",
                "mlp",
                "--counters",
                "perf:page-fault",
            ],
            "did you mean page-faults?",
        ),
    ] {
        let outcome = bench.run(args);
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(said),
            "{args:?}: {}",
            outcome.stderr
        );
    }
    let outcome = bench.run(&[
        "profile",
        "--modelname",
        "mlp",
        "--active",
        "1",
        "--csv",
        "no/such/folder/t.csv",
    ]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("no/such/folder"),
        "{}",
        outcome.stderr
    );
}
