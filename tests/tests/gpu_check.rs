//! `scripts/gpu-check` with programs that stand in for opcollect and oppredict: the table that it prints, that it ends in
//! its time, and what it says where there is no GPU. That the real programs measure on one is for a machine that has one.

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
        .output()
        .unwrap()
}

#[test]
fn the_table_has_parts_against_the_whole_and_rates() {
    let report = format!(
        "while [ $# -gt 0 ]; do [ \"$1\" = --out ] && mkdir -p \"$2\"; shift; done\ncat <<'END'\n{REPORT}\nEND"
    );
    let done = checked(&report, "60");
    let table = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{table}");
    for line in [
        "resnet-18: operators measured, results right  35 of 36",
        "bert-tiny: sum of operators                   1.900 ms (95% of the whole)",
        "fp32 product: default schedule                34360 GFLOP/s",
        "fp16 product: best of a sweep of 12 s         34360 GFLOP/s",
        "schedules a minute, 1 failed",
        "resnet-18: predicted from the other rows      {\"operators\": 9}",
    ] {
        assert!(table.contains(line), "{line} in\n{table}");
    }
}

#[test]
fn it_ends_in_its_time() {
    let begun = Instant::now();
    let done = checked("exec sleep 60", "1");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let table = String::from_utf8(done.stdout).unwrap();
    assert!(
        table.contains("bert-tiny         not run: out of time"),
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
