//! Runs by name: `list runs`, `latest`, labels, several runs compared; and what is left of runs that did not begin or failed.

use std::os::unix::process::CommandExt as _;
use std::path::Path;

use crate::made_runs::{failed, row, write_run};
use e2e::{Bench, Outcome};
use opdata::{RUN_JSON, Row, RunManifest, Status, read_rows};

const USAGE: i32 = 2;
const REGRESSION: i32 = 3;

/// Writes a run of twelve operators to `runs/`; `factor` multiplies their times.
fn run(bench: &Bench, name: &str, factor: f64, change: impl FnOnce(&mut RunManifest)) {
    let rows: Vec<Row> = (0..12)
        .map(|i| row(&format!("op_{i}"), 1, 1e5 * f64::from(i + 1) * factor))
        .collect();
    write_run(&bench.path().join("runs").join(name), name, &rows, change);
}

/// Sets when a run began, and its name.
fn at(seconds: i64, name: Option<&str>) -> impl FnOnce(&mut RunManifest) {
    let name = name.map(str::to_owned);
    move |manifest| {
        manifest.created = opdata::Timestamp::from_unix_ms(1_700_000_000_000 + 1_000 * seconds);
        manifest.label.name = name;
    }
}

#[test]
fn runs_are_listed_and_named() {
    let bench = Bench::new();
    run(&bench, "first", 1.0, at(1, Some("base")));
    run(&bench, "second", 1.5, at(2, None));
    run(&bench, "third", 0.5, |manifest| {
        at(3, None)(manifest);
        manifest.label.note = Some("after the\u{1b}[2J change".to_owned());
        manifest.label.tags = vec!["nightly".to_owned()];
    });
    let listed = bench.run(&["list", "runs"]);
    let text = listed.done();
    let order: Vec<usize> = ["third", "second", "first"]
        .map(|name| text.find(name).unwrap())
        .into();
    assert!(order.is_sorted(), "the newest first: {text}");
    assert!(
        text.contains("after the") && !text.contains('\u{1b}'),
        "{text}"
    );
    let tagged = bench.run(&["list", "runs", "--tag", "nightly", "--json"]);
    let tagged: serde_json::Value = serde_json::from_str(tagged.done()).unwrap();
    assert_eq!(tagged["runs"].as_array().unwrap().len(), 1);
    assert_eq!(tagged["runs"][0]["verdict"]["state"], "finished");

    let ranked = bench.run(&["compare", "base", "latest~1", "latest"]);
    assert_eq!(ranked.code, Some(REGRESSION), "{}", ranked.stderr);
    let places = ["third", "first", "second"].map(|name| ranked.stdout.find(name).unwrap());
    assert!(places.is_sorted(), "the best first: {}", ranked.stdout);
    bench
        .run(&["compare", "second", "latest", "--export-markdown", "c.md"])
        .done();
    let markdown = std::fs::read_to_string(bench.path().join("c.md")).unwrap();
    assert!(markdown.contains("| op_3 |"), "{markdown}");
    bench.run(&["report", "latest", "--out", "page"]).done();
    assert!(bench.path().join("page/report.html").exists());
    bench
        .run(&["report", "latest~7"])
        .failed(USAGE, &["latest~7", "list runs"]);
}

#[test]
fn a_label_stands_in_the_manifest_and_failed_points_are_measured_again() {
    let bench = Bench::new();
    let label = ["--name", "mine", "--note", "a remark", "--tag", "x,y"];
    let job = [
        "--modelname",
        "mlp",
        "--threads",
        "1",
        "--whole-model",
        "skip",
    ];
    let table = ["--export-markdown", "run.md"];
    bench.measure(&[&job[..], &label, &table].concat()).done();
    assert!(
        std::fs::read_to_string(bench.path().join("run.md"))
            .unwrap()
            .contains("dense_add")
    );
    let folder = opdata::named_run(Path::new("mine"), &bench.path().join("runs")).unwrap();
    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.label.tags, ["x", "y"]);

    // One point fails, as far as the files say.
    let rows = read_rows(&folder).unwrap();
    let mut damaged = rows.clone();
    let at = |row: &Row| row.op_name == "softmax";
    let place = damaged.iter().position(at).unwrap();
    damaged[place] = failed(damaged[place].clone(), Status::Crashed, "signal 11");
    let mut text = opdata::formats::csv::header();
    damaged
        .iter()
        .for_each(|row| text.extend(opdata::formats::csv::line(row)));
    std::fs::write(folder.join("rows.csv"), text).unwrap();
    let mut changed = manifest.clone();
    changed.counts.ended.clear();
    damaged.iter().for_each(|row| changed.counts.add(row));
    changed.save(&folder).unwrap();

    bench.run(&["--resume", "mine"]).done();
    assert_eq!(read_rows(&folder).unwrap()[place].status, Status::Crashed);
    bench.run(&["--resume", "mine", "--retry-failed"]).done();
    let again = read_rows(&folder).unwrap();
    assert_eq!(again.len(), rows.len());
    assert!(again.iter().all(|row| row.status == Status::Measured));
    let aside = read_rows(&folder.join(opdata::ROWS_SET_ASIDE)).unwrap();
    assert_eq!(aside.len(), 1);
    bench
        .run(&["--retry-failed", "--modelname", "mlp"])
        .failed(USAGE, &["--resume"]);
}

#[test]
fn a_run_that_never_began_is_started_anew() {
    let bench = Bench::new();
    let job = [
        "--modelname",
        "mlp",
        "--threads",
        "1",
        "--whole-model",
        "skip",
        "--out",
        "run",
    ];
    let folder = bench.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("rows.csv"), opdata::formats::csv::header()).unwrap();
    bench.measure(&job).done();
    assert!(folder.join(RUN_JSON).exists());
    // A run with a row stays, with its manifest or without.
    std::fs::remove_file(folder.join(RUN_JSON)).unwrap();
    bench.measure(&job).failed(USAGE, &["run", "not empty"]);
    assert!(!read_rows(&folder).unwrap().is_empty());
}

#[test]
fn the_limit_of_a_file_is_a_message() {
    let bench = Bench::new();
    let job = [
        "--modelname",
        "mlp",
        "--threads",
        "1",
        "--whole-model",
        "skip",
        "--out",
        "run",
    ];
    let mut command = bench.command(job.iter().chain(&["--budget", "5ms"]));
    // SAFETY: only a call that is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: 3_000,
                rlim_max: 3_000,
            };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let outcome = Outcome::of(command);
    assert!(
        outcome.code.is_some_and(|code| code != 0),
        "{:?} {}",
        outcome.code,
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("limit for the size of a file"),
        "{}",
        outcome.stderr
    );
}
