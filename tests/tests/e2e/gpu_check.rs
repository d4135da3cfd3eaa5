//! `scripts/gpu-check` with programs that stand in for opcollect and oppredict. Tests look at the printed table, at the
//! time limit, and at the message where there is no GPU. That the real programs measure on one is for a machine that
//! has one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const REPORT: &str = r#"{"measured": 35, "points": 36, "failed": 1, "end_to_end_ns": 2000000, "operators_sum_ns": 1900000,
 "operator_rows": [{"points": [{"time_median_ns": 1000000}], "swept": [{"best_time_median_ns": 500000}]}]}"#;

/// Runs the script in a checkout of its own, where `opcollect` does what `body` says.
fn checked(body: &str, seconds: &str) -> Output {
    let root = tempfile::tempdir().unwrap();
    let scripts = root.path().join("scripts");
    let python = root.path().join(".venv/bin");
    fs::create_dir_all(&scripts).unwrap();
    fs::create_dir_all(&python).unwrap();
    // It writes ONNX files, and has no torch.
    fs::write(
        root.path().join("torch.py"),
        "raise ImportError('not here')",
    )
    .unwrap();
    symlink("/bin/true", python.join("python")).unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/gpu-check");
    fs::copy(own, scripts.join("gpu-check")).unwrap();
    let script = |name: &str, body: &str| {
        let path = scripts.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("opcollect", body);
    script("oppredict", r#"echo '{"summary": {"operators": 9}}'"#);
    Command::new(scripts.join("gpu-check"))
        .arg(seconds)
        // A torch of this machine's would take its time.
        .env("PYTHONPATH", root.path())
        .output()
        .unwrap()
}

/// An `opcollect` that gives the report, unless one of its arguments is `fails`.
fn reporting(fails: &str) -> String {
    format!(
        "for word; do [ \"$word\" = '{fails}' ] && {{ echo 'error: no memory left' >&2; exit 1; }}; done\n\
         while [ $# -gt 0 ]; do [ \"$1\" = --out ] && mkdir -p \"$2\" && touch \"$2/rows.csv\"; shift; done\n\
         cat <<'END'\n{REPORT}\nEND"
    )
}

#[test]
fn the_table_has_parts_against_the_whole_and_rates() {
    let done = checked(&reporting("nothing"), "200");
    let table = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{table}");
    for line in [
        "resnet-18: operators measured, results right  35 of 36",
        "bert-tiny: sum of operators                   1.900 ms (95% of the whole)",
        "torch                                         not here, or it finds no GPU",
        "fp32 product: default schedule                34360 GFLOP/s",
        "schedules a minute, 1 failed",
        "resnet-18: predicted from the other rows      {\"operators\": 9}",
    ] {
        assert!(table.contains(line), "{line} in\n{table}");
    }
    // How long a sweep may be depends on the time that is left.
    let sweep = table
        .lines()
        .find_map(|line| line.strip_prefix("fp16 product: best of a sweep of "));
    let (seconds, rate) = sweep.and_then(|line| line.split_once(" s ")).unwrap();
    assert!(
        (1..200).contains(&seconds.parse::<u32>().unwrap()),
        "{table}"
    );
    assert_eq!(rate.trim(), "34360 GFLOP/s", "{table}");
}

#[test]
fn a_part_that_fails_says_so_and_the_others_go_on() {
    let done = checked(&reporting("resnet-18"), "200");
    let table = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1), "{table}");
    for line in [
        "resnet-18                        failed: opcollect ended with 1",
        "bert-tiny: whole                               2.000 ms",
        "fp32 convolution: pace of the sweep",
        "prediction                       failed: the runs that it needs are not there",
    ] {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&table).contains(&words(line)), "{line} in\n{table}");
    }
}

#[test]
fn it_ends_in_its_time() {
    let begun = Instant::now();
    let done = checked("exec sleep 60", "1");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let table = String::from_utf8(done.stdout).unwrap();
    assert!(
        table.contains("mlp               not measured: out of time"),
        "{table}"
    );
    assert!(
        table.contains("bert-tiny         not run to its end: out of time"),
        "{table}"
    );
}

#[test]
fn without_a_gpu_it_ends_with_the_message() {
    let done = checked("echo 'error: there is no NVIDIA driver' >&2; exit 1", "60");
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(said.contains("there is no NVIDIA driver") && said.contains("opcollect ended with 1"));
    assert!(done.stdout.is_empty());
}
