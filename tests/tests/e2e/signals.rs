//! Runs that are cut short: by Ctrl-C all rows are kept and the run is closed; by a kill no printed row is lost. In each
//! case `Started::end` checks that no worker is left behind.

use std::path::Path;

use e2e::{Bench, Started};
use opdata::{Row, RunManifest, RunState, read_rows};

const INTERRUPTED: i32 = 130;

/// A run long enough to be met in the middle, even by a test that waits for its turn on a busy machine. There the
/// points of a batch are put off and printed at its end, and this has several batches.
const LONG: [&str; 14] = [
    "--modelname",
    "resnet-18",
    "--threads",
    "1",
    "--sweep",
    "quick",
    "--budget",
    "300ms",
    "--ci",
    "0.01%",
    "--whole-model",
    "skip",
    "--out",
    "run",
];

/// What a plain line of progress says of a measured point.
const MEASURED: &str = "measure ";

fn rows(folder: &Path) -> Vec<Row> {
    read_rows(&folder.join("rows.csv")).unwrap()
}

fn measured_lines(lines: &[String]) -> usize {
    lines
        .iter()
        .filter(|line| line.starts_with(MEASURED) && line.contains('/'))
        .count()
}

/// A run that has printed two points at least.
fn under_way(bench: &Bench) -> (Started, Vec<String>) {
    let mut run = bench.start(&LONG);
    let lines = run.wait_for_lines(MEASURED, 2);
    (run, lines)
}

#[test]
fn ctrl_c_keeps_all_rows_and_closes_the_run() {
    let bench = Bench::new();
    let (mut run, lines) = under_way(&bench);
    run.group.signal_all(libc::SIGINT);
    let (code, rest) = run.end();
    assert_eq!(code, Some(INTERRUPTED), "{rest}");
    assert!(!rest.contains("panicked"), "{rest}");

    let folder = bench.path().join("run");
    let kept = rows(&folder);
    assert!(kept.len() >= measured_lines(&lines), "{lines:#?}");
    assert_eq!(kept, read_rows(&folder.join("rows.parquet")).unwrap());
    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.state, RunState::Interrupted);
    assert_eq!(manifest.counts.rows(), kept.len() as u64);
}

#[test]
fn a_polite_kill_is_an_interruption_too() {
    let bench = Bench::new();
    let (mut run, _) = under_way(&bench);
    run.group.signal(libc::SIGTERM);
    let (code, rest) = run.end();
    assert_eq!(code, Some(INTERRUPTED), "{rest}");
    let manifest = RunManifest::load(&bench.path().join("run")).unwrap();
    assert_eq!(manifest.state, RunState::Interrupted);
}

#[test]
fn a_hard_kill_loses_no_printed_row_and_leaves_no_worker() {
    let bench = Bench::new();
    let (mut run, mut lines) = under_way(&bench);
    run.group.signal(libc::SIGKILL);
    let (code, rest) = run.end();
    assert_eq!(code, None);
    lines.extend(rest.lines().map(str::to_owned));

    let folder = bench.path().join("run");
    let kept = rows(&folder);
    let printed = measured_lines(&lines);
    assert!(
        kept.len() >= printed,
        "{} rows for {printed} lines",
        kept.len()
    );
    assert!(!folder.join("rows.parquet").exists());
    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.state, RunState::Running, "as it was when it died");
}
