//! From a few measured points to a plan of what to measure next, its measurement, and a model of all of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use e2e::{Bench, Outcome};
use opdata::{Row, Status, read_rows};

/// Few points of every operator; the settings stand for how the rest would be measured.
const SWEEP: &str = "space = 'template'\ndraw = 'sobol'\nschedules = 12\n\
    [vary]\ntile = 'all'\nvector-length = 'all'\nreduction-tile = 'all'\nunroll = 'all'\nthreads = [1]\n\
    [settings]\nwhole-model = 'skip'\nbudget = '5ms'\nmin-samples = 6\nmax-samples = 10\nwarmup = 0\nmax-failed = '100%'\n";

fn oppredict(bench: &Bench, args: &[&str]) -> Outcome {
    let opcollect = bench.command::<&str>([]);
    let mut command = Command::new(Path::new(opcollect.get_program()).with_file_name("oppredict"));
    command
        .args(args)
        .current_dir(bench.path())
        .env_remove("RUST_BACKTRACE");
    Outcome::of(command)
}

/// A bench with the run `old` of a few schedules and the list `candidates` of other ones.
fn begun() -> Bench {
    let bench = Bench::new();
    bench.file("few.toml", SWEEP.replace("schedules = 12", "schedules = 6"));
    bench.file(
        "many.toml",
        SWEEP.replace("schedules = 12", "schedules = 40"),
    );
    let job = ["--modelname", "mlp", "--sweep"];
    bench
        .run(&[&job[..], &["few.toml", "--seed", "1", "--out", "old"]].concat())
        .done();
    let list = [
        "plan",
        "--modelname",
        "mlp",
        "--sweep",
        "many.toml",
        "--candidates",
        "candidates",
    ];
    bench.run(&list).done();
    bench
}

fn points(folder: &Path) -> (Vec<Row>, BTreeSet<String>) {
    let rows = read_rows(folder).expect("rows");
    let ids = rows.iter().map(|row| row.point_id.clone()).collect();
    (rows, ids)
}

#[test]
fn what_is_suggested_is_measured_and_learned_from() {
    let bench = begun();
    let (listed, all) = points(&bench.path().join("candidates"));
    assert!(listed.iter().all(|row| row.status == Status::Skipped));
    let suggest = |more: &[&str]| {
        let args = [
            "suggest",
            "old",
            "--candidates",
            "candidates",
            "--out",
            "plan.toml",
            "--json",
        ];
        oppredict(&bench, &[&args[..], more].concat())
    };
    let text = suggest(&["--budget", "10m", "--count", "15"]);
    let told: serde_json::Value = serde_json::from_str(text.done()).expect("JSON");
    let suggestion = &told["suggestion"];
    assert_eq!(suggestion["chosen"], 15);
    // The default schedules have been measured.
    assert!(suggestion["left_out"]["measured already"].as_u64() >= Some(1));
    let ratio = suggestion["error_ratio"].as_f64().expect("a number");
    assert!(ratio > 0.0 && ratio < 1.0, "{ratio}");
    assert!(suggestion["cost_ns"].as_f64() <= Some(600e9));

    bench.run(&["--sweep", "plan.toml", "--out", "new"]).done();
    let (rows, measured) = points(&bench.path().join("new"));
    assert_eq!((rows.len(), measured.len()), (15, 15));
    let (_, old) = points(&bench.path().join("old"));
    assert!(
        measured.is_disjoint(&old),
        "what is known is measured again"
    );
    assert!(
        measured.is_subset(&all),
        "the points are those that were listed"
    );

    let facts = oppredict(
        &bench,
        &["train", "old", "new", "--out", "both.opm", "--json"],
    );
    let facts: serde_json::Value = serde_json::from_str(facts.done()).expect("JSON");
    let good = |rows: &[Row]| rows.iter().filter(|r| r.status == Status::Measured).count();
    let both = good(&rows) + good(&points(&bench.path().join("old")).0);
    assert_eq!(facts["samples"], both);

    // A second suggestion, asked of the model, does not repeat the first.
    let args = [
        "suggest",
        "old",
        "new",
        "--candidates",
        "candidates",
        "--model",
        "both.opm",
        "--budget",
        "10m",
        "--count",
        "15",
        "--out",
        "next.toml",
    ];
    oppredict(&bench, &args).done();
    let list = ["plan", "--sweep", "next.toml", "--candidates", "next"];
    bench.run(&list).done();
    let (_, next) = points(&bench.path().join("next"));
    assert!(next.is_disjoint(&measured));
}

#[test]
fn operators_of_models_are_candidates_too() {
    let bench = begun();
    let args = [
        "suggest",
        "old",
        "--modelname",
        "mlp,lstm",
        "--threads",
        "1,2",
        "--budget",
        "1h",
        "--out",
        "plan.toml",
    ];
    let text = oppredict(&bench, &args);
    assert!(text.done().contains("left out:"), "{}", text.done());
    for model in ["mlp", "lstm"] {
        let file = format!("plan-{model}.toml");
        assert!(text.done().contains(&format!("opcollect --sweep {file}")));
        bench.run(&["plan", "--sweep", &file]).done();
    }
}

#[test]
fn what_cannot_be_suggested_is_reported() {
    let bench = begun();
    let suggest = |args: &[&str]| {
        let all = [&["suggest", "old", "--out", "plan.toml"], args].concat();
        oppredict(&bench, &all)
    };
    let listed = ["--candidates", "candidates"];
    let with = |more: &[&'static str]| suggest(&[&listed[..], more].concat());
    with(&["--budget", "1us"]).failed(1, &["budget of", "too small", "cheapest"]);
    with(&["--budget", "soon"]).failed(2, &["soon", "such as 90s"]);
    with(&["--budget", "0s"]).failed(2, &["no time at all"]);
    with(&["--budget", "1h", "--count", "0"]).failed(2, &["--count"]);
    suggest(&["--budget", "1h"]).failed(2, &["--candidates"]);
    suggest(&["--budget", "1h", "--candidates", "nowhere"]).failed(1, &["nowhere"]);
    suggest(&["--budget", "1h", "--candidates", "old"])
        .failed(1, &["none of the", "measured already"]);
    oppredict(
        &bench,
        &[
            "suggest",
            "--budget",
            "1h",
            "--candidates",
            "candidates",
            "--out",
            "p.toml",
        ],
    )
    .failed(2, &["no data"]);

    let manifest = bench.path().join("candidates/run.json");
    let text = std::fs::read_to_string(&manifest).expect("run.json");
    std::fs::write(
        &manifest,
        text.replacen("\"format\": 2", "\"format\": 1", 1),
    )
    .expect("run.json");
    with(&["--budget", "1h"]).failed(1, &["format 1", "list the candidates anew"]);
    std::fs::write(&manifest, text).expect("run.json");

    with(&["--budget", "1h", "--count", "3"]).done();
    let plan = std::fs::read_to_string(bench.path().join("plan.toml")).expect("the plan");
    let measure = |change: &dyn Fn(&str) -> String| {
        bench.file("changed.toml", change(&plan));
        bench.run(&["--sweep", "changed.toml", "--out", "never"])
    };
    let line = |key: &str| {
        let found = plan.lines().find(|l| l.starts_with(key)).expect("a line");
        found.to_owned()
    };
    measure(&|p| p.replace(&line("machine"), "machine = \"0123\"")).failed(
        1,
        &["chosen for the machine 0123", "remove the line `machine`"],
    );
    measure(&|p| p.replace("version = 1", "version = 7"))
        .failed(2, &["version 7", "oppredict suggest"]);
    measure(&|p| p.replace(&line("workload"), "workload = \"0123\""))
        .failed(1, &["no operator that computes", "oppredict suggest"]);
    bench
        .run(&["--sweep", "plan.toml", "--threads", "2", "--out", "never"])
        .failed(
            1,
            &["is to run on 1 threads", "neither --threads nor --cache"],
        );
    assert!(!bench.path().join("never").exists());
}
