//! Tuning from the command line: what is measured, reported and kept; the store of best schedules; and wrong input.

use std::process::Command;

use e2e::predict::json;
use e2e::{Bench, Outcome};
use opdata::{Status, read_rows};
use serde_json::Value;

/// A quick tuning run of mlp.
const TUNE: [&str; 10] = [
    "--modelname",
    "mlp",
    "--threads",
    "1",
    "--budget",
    "20ms",
    "--trials",
    "24",
    "--iftune=true",
    "--whole-model=skip",
];

/// The model of [`TUNE`] with the schedules of a store, measured shortly.
fn apply(bench: &Bench, store: &str, more: &[&str]) -> Value {
    let model = ["apply", "--modelname", "mlp", "--threads", "1", "--json"];
    let mut command = bench.command([&model[..], &["--store", store], more].concat());
    command.env("OPCOLLECT_BUDGET", "20ms");
    json(Outcome::of(command).done())
}

#[test]
fn what_tuning_finds_is_reported_kept_and_applied() {
    let bench = Bench::new();
    let more = [
        "--tuner",
        "auto",
        "--ifcompare=true",
        "--ifpartial=true",
        "--store",
        "s.sqlite",
        "--out",
        "run",
        "--json",
    ];
    let outcome = bench.run(&[&TUNE[..], &more].concat());
    let report = json(outcome.done());
    let tuned = &report["tuned"][0];
    let operators = tuned["operators"].as_array().unwrap();
    assert_eq!(operators.len(), 4, "{tuned:#}");
    assert!(
        operators
            .iter()
            .all(|o| o["tuned_ns"].as_f64().unwrap() > 0.0)
    );
    let compared = &tuned["whole_model"][0];
    assert_eq!(
        (&compared["threads"], &compared["rounds"]),
        (&Value::from(1), &Value::from(7))
    );
    let sums: Vec<f64> = tuned["partial"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["operators_sum_ns"].as_f64().unwrap())
        .collect();
    assert!(
        sums.len() >= 2 && sums.windows(2).all(|pair| pair[1] <= pair[0]),
        "{sums:?}"
    );
    let curve = std::fs::read_to_string(bench.path().join("run/tuning.csv")).unwrap();
    assert_eq!(curve.lines().count(), 1 + sums.len(), "{curve}");
    assert!(curve.contains("\nauto,1,model,16,"), "{curve}");
    assert!(bench.path().join("run/tuning.svg").is_file());
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(
        rows.iter()
            .all(|row| matches!(row.status, Status::Measured | Status::Skipped))
    );
    let space = |name: &str| {
        rows.iter()
            .filter(|row| row.schedule_space.as_deref() == Some(name))
            .count()
    };
    assert_eq!(space("default"), 4);
    assert!(space("template") > 20);

    let best = bench.run(&["best", "--store", "s.sqlite", "--json"]);
    let best = json(best.done());
    assert_eq!(best.as_array().unwrap().len(), 4);
    let workload = best[0]["workload"].as_str().unwrap();
    let one = bench.run(&["best", workload, "--store", "s.sqlite"]);
    assert!(
        one.done().contains("\"template\"") && one.done().contains("measured by opcollect"),
        "{}",
        one.done()
    );
    bench
        .run(&["best", "abacus", "--store", "s.sqlite"])
        .failed(2, &["no operator, kind, model or workload abacus"]);

    let files = [
        "--library",
        "mlp.so",
        "--module",
        "mlp.json",
        "--database",
        "db",
    ];
    let applied = apply(&bench, "s.sqlite", &files);
    assert_eq!(applied["coverage_calls"], 1.0);
    assert!(applied["latency_ns"].as_f64().unwrap() > 0.0);
    let imports = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/imports");
    let import = format!("{imports}/{}", rows[0].import_key.as_deref().unwrap());
    let script = bench.file("load.py", LOAD);
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python");
    let loaded = Command::new(python)
        .arg(script)
        .env("IMPORT", import)
        .current_dir(bench.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&loaded.stdout);
    assert!(
        loaded.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&loaded.stderr)
    );
    let left_out = applied["left_out"].as_array().unwrap().len();
    let found = format!("IRModule VirtualMachine\n{} of 4 found", 4 - left_out);
    assert_eq!(said.trim(), found);
    assert!(left_out <= 1, "{applied:#}");

    // What was exported for TVM's users comes back, unless its records were mixed up.
    let databases = |from: &str, to: &str| {
        let import = ["store", "import", from, "--here", "--store", to, "--json"];
        json(bench.run(&import).done())
    };
    let back = databases("db", "u.sqlite");
    assert_eq!(back["better"], 4 - left_out, "{back:#}");
    let covered = apply(&bench, "u.sqlite", &[]);
    let share = covered["coverage_calls"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&share), "{covered:#}");
    std::fs::create_dir(bench.path().join("mixed")).unwrap();
    for (file, wrong) in [
        ("database_workload.json", ""),
        ("database_tuning_record.json", "[1"),
    ] {
        let text = std::fs::read_to_string(bench.path().join("db").join(file)).unwrap();
        let text = match wrong {
            "" => text,
            index => text.replacen("[0", index, 1),
        };
        std::fs::write(bench.path().join("mixed").join(file), text).unwrap();
    }
    let mixed = databases("mixed", "v.sqlite");
    let left: u64 = mixed["left_out"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(left, 1, "{mixed:#}");

    bench
        .run(&["store", "export", "all.jsonl", "--store", "s.sqlite"])
        .done();
    let imported = bench.run(&[
        "store",
        "import",
        "all.jsonl",
        "run",
        "--store",
        "t.sqlite",
        "--json",
    ]);
    let imported = json(imported.done());
    assert!(imported["better"].as_u64().unwrap() >= 4);
    let merged = bench.run(&[
        "store", "merge", "s.sqlite", "--store", "t.sqlite", "--json",
    ]);
    assert_eq!(json(merged.done())["better"], 0);
    bench
        .run(&["store", "verify", "--store", "t.sqlite"])
        .done();

    // Schedules whose knobs this version does not know are passed over, however fast they are.
    let all = std::fs::read_to_string(bench.path().join("all.jsonl")).unwrap();
    let newer = all.lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        entry["choice"]["template"] = "of a newer version".into();
        entry["program_hash"] = "newer".into();
        entry["time_ns"] = 1.0.into();
        entry.to_string()
    });
    bench.file("newer.jsonl", newer.collect::<Vec<_>>().join("\n"));
    bench
        .run(&["store", "import", "newer.jsonl", "--store", "t.sqlite"])
        .done();
    assert_eq!(apply(&bench, "t.sqlite", &[])["coverage_calls"], 1.0);
}

/// What a user of the wheel does with the files.
const LOAD: &str = "
import tvm
from tvm import relax
module = tvm.ir.load_json(open('mlp.json').read())
machine = relax.VirtualMachine(tvm.runtime.load_module('mlp.so'), tvm.cpu())
print(type(module).__name__, type(machine).__name__)
from tvm.s_tir import meta_schedule as ms
database = ms.database.JSONDatabase(work_dir='db')
# The operators before they are scheduled, as the import keeps them.
import os
plain = tvm.ir.load_json(open(os.environ['IMPORT'] + '/module.json').read())
target = tvm.target.Target(database.get_all_tuning_records()[0].target)
with target, database:
    applied = relax.transform.MetaScheduleApplyDatabase()(plain)
functions = [f for v, f in applied.functions.items() if isinstance(f, tvm.tirx.PrimFunc)]
scheduled = [f for f in functions if f.attrs and f.attrs.get('tirx.is_scheduled', f.attrs.get('tir.is_scheduled'))]
print(len(scheduled), 'of', len(functions), 'found')
";

/// TVM's own search: its schedules are traces, which are measured, kept and applied as others are.
#[test]
fn tvms_evolutionary_search_is_a_tuner() {
    let bench = Bench::new();
    let more = [
        "--tuner",
        "metaschedule",
        "--store",
        "s.sqlite",
        "--out",
        "run",
        "--json",
    ];
    let outcome = bench.run(&[&TUNE[..], &more].concat());
    let report = json(outcome.done());
    let operators = report["tuned"][0]["operators"].as_array().unwrap().len();
    assert_eq!(operators, 4, "{report:#}");
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let traces = rows
        .iter()
        .filter(|row| row.schedule_space.as_deref() == Some("trace"))
        .filter(|row| row.status == Status::Measured);
    assert!(traces.count() > 20, "{} rows", rows.len());
    assert_eq!(apply(&bench, "s.sqlite", &[])["coverage_calls"], 1.0);
}

#[test]
fn a_tuning_run_that_was_killed_goes_on_and_doubles_nothing() {
    let bench = Bench::new();
    let more = ["--tuner", "ga", "--store", "none", "--out", "run"];
    let mut run = bench.start(&[&TUNE[..], &more].concat());
    run.wait_for_lines("measure", 12);
    run.group.signal(9);
    run.end();
    bench.run(&["--resume", "run"]).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let points: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.point_id).collect();
    assert_eq!(points.len(), rows.len());
    assert!(rows.len() > 24, "{}", rows.len());
}

#[test]
fn wrong_settings_and_files_are_refused_by_name() {
    let bench = Bench::new();
    let tune =
        |more: &[&str]| bench.run(&[&["--modelname", "mlp", "--iftune=true"], more].concat());
    tune(&["--tuner", "xgbost"]).failed(2, &["no such tuner (did you mean xgb", "give auto, xgb"]);
    tune(&["--tuner", "auto,ga"]).failed(
        2,
        &["several tuners are for comparing them", "--ifpartial=true"],
    );
    tune(&["--trials", "9"]).failed(2, &["--trials 9"]);
    tune(&["--sweep", "quick"]).failed(2, &["a tuner decides by outcomes"]);
    tune(&["--history", "nowhere", "--whole-model=skip"]).failed(1, &["--history nowhere"]);
    for flag in ["--ifcompare=true", "--trials=20", "--tuner=ga"] {
        bench
            .run(&["--modelname", "mlp", flag])
            .failed(2, &["nothing is tuned", "add --iftune=true"]);
    }
    bench.file(
        "damaged.sqlite",
        "this is no database, whatever it is called",
    );
    let damaged = ["--store", "damaged.sqlite"];
    tune(&[&damaged[..], &["--whole-model=skip"]].concat())
        .failed(1, &["damaged or no store", "left as it is"]);
    bench
        .run(&[&["best"], &damaged[..]].concat())
        .failed(1, &["damaged or no store"]);
    bench
        .run(&["best", "--store", "none.sqlite"])
        .failed(2, &["is not there", "store import"]);
    bench
        .run(&["apply", "--modelname", "mlp", "--store", "none.sqlite"])
        .failed(1, &["is not there"]);
    let text = std::fs::read_to_string(bench.path().join("damaged.sqlite")).unwrap();
    assert!(text.starts_with("this is no database"));
}

#[test]
fn knobs_and_tuners_are_listed() {
    let bench = Bench::new();
    let knobs = bench.run(&["list", "knobs", "--modelname", "mlp", "--json"]);
    let knobs = json(knobs.done());
    let first = &knobs["ops"][0];
    assert!(first["combinations"].as_f64().unwrap() > 100.0);
    assert!(
        first["knobs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|k| k["choices"].as_array().unwrap().len() > 1)
    );
    assert!(
        bench
            .run(&["list", "knobs", "--modelname", "mlp"])
            .done()
            .contains("combinations")
    );
    let tuners = bench.run(&["list", "tuners"]);
    assert!(tuners.done().contains("droplet"));
}
