//! `opcollect compare`: verdicts and exit codes on runs made here, and every way in which runs cannot be compared.

use std::path::PathBuf;

use crate::made_runs::{failed, row, write_run};
use e2e::Bench;
use opdata::{Row, Status};

/// Exit codes of the manual.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const REGRESSION: i32 = 3;

/// Twelve operators.
fn rows() -> Vec<Row> {
    (0..12)
        .map(|i| row(&format!("op_{i}"), 1 + i % 2, 1e5 * (i + 1) as f64))
        .collect()
}

fn run(bench: &Bench, name: &str, change: impl FnOnce(&mut Vec<Row>)) -> PathBuf {
    let mut rows = rows();
    change(&mut rows);
    write_run(&bench.path().join(name), name, &rows, |_| ())
}

fn slower(rows: &mut [Row]) {
    rows[4] = row("op_4", 1, 5e5 * 1.4);
}

#[test]
fn the_same_times_are_no_regression() {
    let bench = Bench::new();
    run(&bench, "a", |_| ());
    run(&bench, "b", |_| ());
    let outcome = bench.run(&["compare", "a", "b"]);
    let text = outcome.done();
    assert!(
        text.contains("no regression") && text.contains("12 points in both"),
        "{text}"
    );
}

#[test]
fn a_regression_has_an_exit_code() {
    let bench = Bench::new();
    run(&bench, "a", |_| ());
    run(&bench, "b", |rows| {
        slower(rows);
        rows[7] = failed(rows[7].clone(), Status::TimedOut, "60 s");
        rows.truncate(11);
    });
    let outcome = bench.run(&["compare", "a", "b"]);
    assert_eq!(outcome.code, Some(REGRESSION), "{}", outcome.stderr);
    for part in [
        "op_4",
        "1.400",
        "slower",
        "1 regression",
        "timed_out (60 s)",
        "1 only in A",
    ] {
        assert!(
            outcome.stdout.contains(part),
            "no {part} in {}",
            outcome.stdout
        );
    }
    let wide = bench.run(&["compare", "a", "b", "--threshold", "50%"]);
    assert_eq!(wide.code, Some(0), "{}", wide.stdout);

    let outcome = bench.run(&["compare", "a/rows.parquet", "b/rows.csv", "--json"]);
    assert_eq!(outcome.code, Some(REGRESSION));
    let object: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one object");
    let worst = &object["changes"][0];
    assert_eq!(
        (&worst["operator"], &worst["verdict"]),
        (&"op_4".into(), &"regression".into())
    );
    assert!(worst["ratio"]["low"].as_f64() > Some(1.1));
    assert_eq!(object["only_in_a"], 1);
    // The other way round it is an improvement.
    assert_eq!(bench.run(&["compare", "b", "a"]).code, Some(0));
}

#[test]
fn unlike_machines_need_a_word() {
    let bench = Bench::new();
    run(&bench, "a", |_| ());
    run(&bench, "b", |rows| {
        rows.iter_mut()
            .for_each(|r| r.env_hash = Some("elsewhere".to_owned()));
    });
    bench.run(&["compare", "a", "b"]).failed(
        FAILED,
        &["unlike machines", "elsewhere", "--allow-other-machine"],
    );
    bench
        .run(&["compare", "a", "b", "--allow-other-machine"])
        .done();
}

#[test]
fn what_cannot_be_compared() {
    let bench = Bench::new();
    run(&bench, "a", |_| ());
    run(&bench, "other", |rows| {
        rows.iter_mut()
            .for_each(|r| r.model_name = Some("another".to_owned()));
    });
    run(&bench, "none", Vec::clear);
    std::fs::create_dir(bench.path().join("empty")).expect("a folder");
    let fails = |b: &str, parts: &[&str]| bench.run(&["compare", "a", b]).failed(FAILED, parts);
    fails("nowhere", &["nowhere"]);
    fails("empty", &["empty holds no run", "rows.csv"]);
    fails("none", &["holds no row"]);
    fails("other", &["no point in common", "another"]);
    bench.file("text.txt", "x");
    fails("text.txt", &["not a dataset by its name"]);

    let csv = std::fs::read_to_string(bench.path().join("a/rows.csv")).expect("rows");
    bench.file("torn.csv", &csv[..csv.len() - 30]);
    fails("torn.csv", &["torn.csv:13", "torn"]);
    let version = format!("\n{},", opdata::SCHEMA_VERSION);
    bench.file("future.csv", csv.replace(&version, "\n99,"));
    fails("future.csv", &["schema version 99", "newer version"]);
    bench.file("header.csv", csv.replacen("time_median_ns", "time", 1));
    fails("header.csv", &["time_median_ns"]);
    let whole = run(&bench, "whole", |_| ());
    std::fs::write(whole.join("whole_model.json"), "{\"threads\": 3}").expect("a file");
    fails("whole", &["whole_model.json is damaged"]);

    for bad in ["five", "-1", "200%"] {
        let flag = format!("--threshold={bad}");
        bench
            .run(&["compare", "a", "a", &flag])
            .failed(USAGE, &["threshold", bad]);
    }
    bench.run(&["compare", "a"]).failed(USAGE, &["<B>"]);
}
