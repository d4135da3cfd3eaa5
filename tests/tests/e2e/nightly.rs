//! `opcollect nightly`: a real night, the night after it against it, what goes and what stays; and the examples for fleets.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::made_runs::{row, write_run};
use e2e::installed::counts;
use e2e::{Bench, Outcome};
use opdata::{Row, read_rows};

/// Exit codes of the manual.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const REGRESSION: i32 = 3;
const POINTS_FAILED: i32 = 4;

const SHORT: &str = "settings = { threads = 1, budget = '50ms', warmup = 1, min-samples = 6, max-samples = 50, \
                     whole-model = 'skip', counters = 'auto', remeasure-budget = 0 }\n";

fn config(bench: &Bench, models: &str) {
    let text = format!("dataset = 'nights'\nbudget = '20m'\nkeep = 2\n{models}");
    bench.file("nightly.toml", text);
}

fn night(bench: &Bench, date: &str, more: &[&str]) -> Outcome {
    let args = ["nightly", "--config", "nightly.toml", "--date", date];
    bench.run(&[&args[..], more].concat())
}

fn job(date: &str, model: &str) -> PathBuf {
    PathBuf::from(format!(
        "nights/date={date}/model={model}/backend=llvm/sweep=none"
    ))
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The same point, measured on a quiet machine with `factor` times the median.
fn quiet(real: &Row, factor: f64) -> Row {
    let median = real.time_median_ns.expect("a measured row") * factor;
    let mut quiet = real.clone();
    quiet.time_median_ns = Some(median);
    quiet.time_ci_low_ns = Some(median * 0.98);
    quiet.time_ci_high_ns = Some(median * 1.02);
    quiet.time_min_ns = Some(median * 0.97);
    quiet.drift_ratio = Some(1.0);
    quiet.quality = None;
    quiet.other_cpu_share = None;
    quiet
}

#[test]
fn a_night_and_the_night_after_it() {
    let bench = Bench::new();
    let models = format!("[[model]]\nname = 'mlp'\n{SHORT}[[model]]\nname = 'no-such-model'\n");
    config(&bench, &models);
    let first = night(&bench, "2026-11-19", &[]);
    // One job has failed and the other has not suffered.
    assert_eq!(
        first.code,
        Some(POINTS_FAILED),
        "{}{}",
        first.stdout,
        first.stderr
    );
    for part in [
        "# Night of 2026-11-19",
        "no-such-model",
        "exit code 2",
        "done in",
    ] {
        assert!(first.stdout.contains(part), "no {part} in {}", first.stdout);
    }
    let before = job("2026-11-19", "mlp");
    let rows = read_rows(&bench.path().join(&before)).expect("rows of a real run");
    assert!(rows.iter().all(|r| r.time_median_ns.is_some()), "{rows:?}");
    if counts("perf:task-clock", "counts of a night") {
        assert!(rows.iter().all(|r| r.task_clock_ns > Some(0.0)), "{rows:?}");
    }
    let log = "nights/date=2026-11-19/logs/model=mlp,backend=llvm,sweep=none.log";
    assert!(read(bench.path().join(log)).contains("mlp"));
    assert_eq!(
        first.stdout,
        read(bench.path().join("nights/date=2026-11-19/summary.md"))
    );
    let page = read(bench.path().join("nights/date=2026-11-19/summary.html"));
    assert!(page.contains("mlp") && !page.contains("<script src"));

    // The night after has the same run, with times four times as long, and is done: only looked at. Both get the times of a
    // quiet machine, because a comparison rightly calls nothing a regression if other tests kept the machine busy.
    let manifest = opdata::RunManifest::load(&bench.path().join(&before)).expect("a manifest");
    std::fs::remove_dir_all(bench.path().join(&before)).expect("a finished run");
    for (date, factor) in [("2026-11-19", 1.0), ("2026-11-20", 4.0)] {
        let rows: Vec<Row> = rows.iter().map(|row| quiet(row, factor)).collect();
        write_run(&bench.path().join(job(date, "mlp")), date, &rows, |m| {
            m.environment = manifest.environment.clone();
        });
    }
    config(&bench, &format!("[[model]]\nname = 'mlp'\n{SHORT}"));
    let second = night(&bench, "2026-11-20", &["--json"]);
    assert_eq!(second.code, Some(REGRESSION), "{}", second.stderr);
    let object: serde_json::Value = serde_json::from_str(&second.stdout).expect("one object");
    assert_eq!(object["jobs"][0]["outcome"]["outcome"], "earlier");
    let worst = &object["comparison"]["changes"][0];
    assert!(
        (worst["ratio"]["value"].as_f64().unwrap_or_default() - 4.0).abs() < 1e-9,
        "{worst}"
    );
    let summary = read(bench.path().join("nights/date=2026-11-20/summary.md"));
    let at = |text: &str| {
        summary
            .find(text)
            .unwrap_or_else(|| panic!("no {text} in {summary}"))
    };
    assert!(
        at("## Regressions") < at("## Jobs"),
        "regressions come first"
    );
}

/// A finished night made here.
fn made(bench: &Bench, date: &str, model: &str) {
    let rows: Vec<Row> = (0..8)
        .map(|i| {
            let mut row = row(&format!("op_{i}"), 1, 1e5);
            row.model_name = Some(model.to_owned());
            row
        })
        .collect();
    write_run(&bench.path().join(job(date, model)), date, &rows, |_| ());
}

#[test]
fn old_nights_go_and_a_dry_run_only_says_so() {
    let bench = Bench::new();
    config(
        &bench,
        "[[model]]\nname = 'mlp'\n[[model]]\nname = 'rare'\n",
    );
    made(&bench, "2026-11-16", "mlp");
    for date in ["2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20"] {
        made(&bench, date, "mlp");
    }
    made(&bench, "2026-11-17", "rare");
    let there = |date: &str| bench.path().join(format!("nights/date={date}")).exists();
    let dry = night(&bench, "2026-11-20", &["--dry-run"]);
    let text = dry.done();
    for part in [
        "done before",
        "--modelname rare",
        "would be removed: nights/date=2026-11-16",
        "stays as the only baseline",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(there("2026-11-16"), "a dry run removes nothing");
    // `rare` cannot be imported tonight, so its last night stays.
    let outcome = night(&bench, "2026-11-20", &["-q"]);
    assert_eq!(outcome.code, Some(POINTS_FAILED), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("Kept 2026-11-17") && outcome.stdout.contains("Removed 2026-11-18"),
        "{}",
        outcome.stdout
    );
    let left = [
        "2026-11-16",
        "2026-11-17",
        "2026-11-18",
        "2026-11-19",
        "2026-11-20",
    ]
    .map(there);
    assert_eq!(left, [false, true, false, true, true]);
}

#[test]
fn what_makes_no_night() {
    let bench = Bench::new();
    bench
        .run(&["nightly"])
        .failed(USAGE, &["--config configs/nightly.toml"]);
    bench
        .run(&["nightly", "--config", "nowhere.toml"])
        .failed(USAGE, &["nowhere.toml"]);
    let wrong = |text: &str, parts: &[&str]| {
        bench.file("nightly.toml", text);
        bench
            .run(&["nightly", "--config", "nightly.toml"])
            .failed(USAGE, parts);
        assert!(!bench.path().join("nights").exists());
    };
    wrong("dataset = ", &["nightly.toml:1"]);
    wrong("dataset = 'nights'\nbudget = '1h'\n", &["[[model]]"]);
    wrong(
        "dataset = 'nights'\nbudget = '1h'\nnights = 3\n",
        &["nightly.toml:3", "nights"],
    );
    let model = "[[model]]\nname = 'mlp'\n";
    wrong(
        &format!("dataset = 'nights'\nbudget = 'long'\n{model}"),
        &["budget", "long"],
    );
    wrong(
        &format!("dataset = 'nights'\nbudget = '1h'\n{model}settings = {{ thread = 1 }}\n"),
        &["thread", "threads"],
    );
    config(&bench, model);
    night(&bench, "2026-02-30", &[]).failed(USAGE, &["2026-02-30", "date"]);
    std::fs::write(bench.path().join("nights"), "a file").expect("a file");
    night(&bench, "2026-11-20", &[]).failed(FAILED, &["nights"]);
}

#[test]
fn one_night_at_a_time() {
    let bench = Bench::new();
    config(&bench, "[[model]]\nname = 'mlp'\n");
    std::fs::create_dir(bench.path().join("nights")).expect("a folder");
    let lock = bench.path().join("nights/.nightly.lock");
    std::fs::write(&lock, "begun by process 7 yesterday\n").expect("a file");
    let mut holder = Command::new("flock")
        .arg("--no-fork")
        .arg(&lock)
        .args(["sleep", "60"])
        .spawn()
        .expect("flock of util-linux");
    let held = || {
        let probe = Command::new("flock")
            .arg("--nonblock")
            .arg(&lock)
            .arg("true")
            .status();
        !probe.expect("flock of util-linux").success()
    };
    while !held() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    night(&bench, "2026-11-20", &[]).failed(FAILED, &["another night", "process 7"]);
    holder.kill().expect("the holder ends");
    holder.wait().expect("the holder ends");
}

/// The checkout.
fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a shell text in a folder whose `scripts/opcollect` prints its arguments.
fn with_stand_in(bench: &Bench, script: &str, environment: &[(&str, &str)]) -> String {
    std::fs::create_dir_all(bench.path().join("scripts")).expect("a folder");
    let program = bench.file("scripts/opcollect", "#!/bin/sh\necho \"$@\"\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a program");
    let mut command = Command::new("bash");
    command.args(["-ec", script]).current_dir(bench.path());
    command.envs(environment.iter().copied());
    Outcome::of(command).done().to_owned()
}

#[test]
fn the_examples_for_fleets_cut_a_plan_into_its_shards() {
    let bench = Bench::new();
    let slurm = read(checkout().join("configs/examples/slurm-shards.sbatch"));
    let task = [
        ("SLURM_ARRAY_TASK_ID", "3"),
        ("SLURM_ARRAY_TASK_COUNT", "8"),
    ];
    let line = with_stand_in(&bench, &slurm, &task);
    assert!(
        line.contains("--shard 3/8 --out runs/resnet-18-full-shards/3"),
        "{line}"
    );

    let yaml = read(checkout().join("configs/examples/kubernetes-shards.yaml"));
    let script: String = yaml
        .lines()
        .skip_while(|line| line.trim() != "- |")
        .skip(1)
        .take_while(|line| line.starts_with("              "))
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    let pod = [
        ("JOB_COMPLETION_INDEX", "7"),
        ("SHARDS", "8"),
        ("DATA", "d"),
    ];
    let line = with_stand_in(&bench, &script, &pod);
    assert!(
        line.contains("--shard 8/8 --out d/resnet-18-full-shards/8"),
        "{line}"
    );
    let begun = bench.path().join("d/resnet-18-full-shards/8");
    std::fs::create_dir_all(&begun).expect("a folder");
    std::fs::write(begun.join("run.json"), "{}").expect("a file");
    let line = with_stand_in(&bench, &script, &pod);
    assert!(
        line.contains("--resume d/resnet-18-full-shards/8"),
        "{line}"
    );
}

#[test]
fn the_night_of_the_checkout_is_one() {
    let bench = Bench::new();
    let config = checkout().join("configs/nightly.toml");
    let config = config.to_str().expect("a path in UTF-8");
    let outcome = bench.run(&["nightly", "--config", config, "--dry-run"]);
    assert!(
        outcome.done().contains("resnet-18, llvm, default"),
        "{}",
        outcome.stdout
    );
}
