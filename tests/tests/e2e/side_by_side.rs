//! Operators at the same time from the command line: pairs, schedules, models run by them, and wrong input.

use e2e::Bench;
use e2e::predict::{json, oppredict};
use opdata::contract::pairs::read_pairs;
use serde_json::Value;

/// A quick measurement of a few pairs of mlp.
const PAIRS: [&str; 9] = [
    "pairs",
    "--modelname",
    "mlp",
    "--rounds",
    "3",
    "--span",
    "1ms",
    "--out",
    "pairs",
];

#[test]
fn pairs_are_measured_kept_taken_up_again_and_replayed() {
    let bench = Bench::new();
    let report = json(
        bench
            .run(&[&PAIRS[..], &["--sample", "3", "--json"]].concat())
            .done(),
    );
    assert_eq!(
        (&report["possible"], &report["wanted"]),
        (&Value::from(10), &Value::from(3))
    );
    let folder = bench.path().join("pairs");
    let rows = read_pairs(&folder).unwrap();
    assert_eq!(rows.len(), 6);
    for row in &rows {
        assert_eq!((row.members, row.rounds, row.split.as_str()), (2, 3, "1+1"));
        let slowdown = row.slowdown.unwrap();
        assert!(row.slowdown_low.unwrap() <= slowdown && slowdown <= row.slowdown_high.unwrap());
        assert!(row.alone_ns.unwrap() > 0.0 && row.throughput_gain.unwrap() > 0.0);
    }
    // As after a kill in the second group: its rows are measured again, the others kept.
    let journal = folder.join("pairs.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let cut: Vec<&str> = text.lines().take(3).collect();
    std::fs::write(&journal, cut.join("\n")).unwrap();
    std::fs::remove_file(folder.join("pairs.parquet")).unwrap();
    bench.run(&["pairs", "--resume", "pairs"]).done();
    let again = read_pairs(&folder).unwrap();
    assert_eq!(again.len(), 6);
    assert_eq!(again[..2], rows[..2]);
    let ids = |rows: &[opdata::contract::pairs::PairRow]| -> Vec<String> {
        rows.iter().map(|row| row.group_id.clone()).collect()
    };
    assert_eq!(ids(&again), ids(&rows));
    // Whether it is as before depends on the machine; that it is measured does not.
    let group = rows[0].group_id.as_str();
    let replayed = bench.run(&["pairs", "--replay", group, "--run", "pairs", "--json"]);
    let now = &json(&replayed.stdout)["now"];
    assert_eq!(now[0]["group_id"], group);
    assert!(now[0]["slowdown"].as_f64().unwrap() > 0.0);
    bench
        .run(&["pairs", "--replay", "0000", "--run", "pairs"])
        .failed(2, &["has no group 0000"]);
}

#[test]
fn operators_share_processors_of_their_own_or_take_turns() {
    let bench = Bench::new();
    let more = [
        "--mode",
        "time-sliced",
        "--ops",
        "softmax,dense_add",
        "--with",
        "mlp",
    ];
    let report = json(bench.run(&[&PAIRS[..], &more, &["--json"]].concat()).done());
    let rows = report["rows"].as_array().unwrap();
    // Two operators, the second model's are the same: three pairs.
    assert_eq!(rows.len(), 6);
    assert!(
        rows.iter()
            .all(|row| row["mode"] == "time_sliced" && row["processors"] == rows[0]["processors"])
    );
}

#[test]
fn a_schedule_is_predicted_written_and_run_with_the_same_outputs() {
    let bench = Bench::new();
    let measure = [
        "--modelname",
        "bert-tiny",
        "--seqlen",
        "16",
        "--threads",
        "1,2",
        "--budget",
        "20ms",
        "--out",
        "run",
    ];
    bench
        .run(&[&measure[..], &["--whole-model=skip"]].concat())
        .done();
    let schedule = |more: &[&str]| {
        let args = ["schedule", "run", "--models", "bert-tiny:16", "--json"];
        oppredict(&bench, &[&args[..], more].concat())
    };
    let scheduled = json(schedule(&["--out", "s.json", "--take", "greedy"]).done());
    let names: Vec<&str> = scheduled["outcomes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|outcome| outcome["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sequential", "greedy", "dynamic programme"]);
    let run = |more: &[&str]| {
        let args = [
            "run-graph",
            "--modelname",
            "bert-tiny",
            "--seqlen",
            "16",
            "--rounds",
            "3",
        ];
        bench.run(&[&args[..], more].concat())
    };
    let report = json(run(&["--schedule", "s.json", "--json", "--out", "result.json"]).done());
    let executors: Vec<&str> = report["ways"]
        .as_array()
        .unwrap()
        .iter()
        .map(|way| way["executor"].as_str().unwrap())
        .collect();
    assert_eq!(executors, ["vm", "sequential", "staged"]);
    assert!(
        report["ways"]
            .as_array()
            .unwrap()
            .iter()
            .all(|way| way["same_bits"] == true)
    );
    assert!(
        report["ways"][2]["lanes"].as_u64().unwrap() == 2,
        "{report:#}"
    );
    let written = std::fs::read_to_string(bench.path().join("result.json")).unwrap();
    assert_eq!(json(&written), report);
    // The schedule of another model, of more threads, and none at all.
    let other = ["run-graph", "--modelname", "mlp", "--schedule", "s.json"];
    bench.run(&other).failed(
        2,
        &[
            "s.json: the schedule is of bert-tiny",
            "but the run is of mlp",
        ],
    );
    let text = std::fs::read_to_string(bench.path().join("s.json")).unwrap();
    bench.file(
        "wide.json",
        text.replacen("\"threads\": 2", "\"threads\": 64", 1),
    );
    run(&["--schedule", "wide.json"]).failed(2, &["the schedule has 64 threads"]);
    bench.file("cut.json", &text[..text.len() / 2]);
    run(&["--schedule", "cut.json"]).failed(1, &["cut.json", "oppredict schedule"]);
    run(&["--executor", "staged"]).failed(2, &["needs a schedule"]);
    run(&["--executor", "partitioned"]).failed(2, &["name 2 to 2 models"]);
    schedule(&["--threads", "7"]).failed(2, &["no time of bert-tiny/", "opcollect --modelname"]);
    schedule(&["--take", "fastest"]).failed(2, &["--take fastest: there are sequential, greedy"]);
}

#[test]
fn two_models_run_on_threads_of_their_own() {
    let bench = Bench::new();
    let args = [
        "run-graph",
        "--modelname",
        "mlp",
        "--with",
        "mlp",
        "--executor",
        "partitioned",
        "--rounds",
        "3",
        "--json",
    ];
    let report = json(bench.run(&args).done());
    let way = &report["ways"][2];
    assert_eq!(
        (&way["executor"], &way["lanes"], &way["same_bits"]),
        (
            &Value::from("partitioned"),
            &Value::from(2),
            &Value::from(true)
        )
    );
}

#[test]
fn operators_are_tuned_together_against_each_alone() {
    let bench = Bench::new();
    let cotune = |more: &[&str]| {
        let args = ["cotune", "--modelsource", "simple", "--modelname"];
        let model = "matmul:m=64,n=64,k=64";
        bench.run(&[&args[..], &[model, "--with", "softmax:m=32,n=64"], more].concat())
    };
    let more = [
        "--ops",
        "matmul,softmax",
        "--trials",
        "4",
        "--finalists",
        "3",
        "--rounds",
        "3",
    ];
    let report = json(cotune(&[&more[..], &["--span", "1ms", "--json"]].concat()).done());
    assert_eq!(report["operators"].as_array().unwrap().len(), 2);
    assert!(
        (2..=4).contains(&report["measured"].as_u64().unwrap()),
        "{report:#}"
    );
    for side in ["apart", "together"] {
        let times = report[side]["together_ns"].as_array().unwrap();
        assert!(times.len() == 2 && times.iter().all(|ns| ns.as_f64().unwrap() > 0.0));
    }
    let interval = report["gain_interval"].as_array().unwrap();
    assert!(interval[0].as_f64() <= report["gain"].as_f64());
    cotune(&["--ops", "matmul"]).failed(2, &["--split 1+1 is of 2 operators, and --ops names 1"]);
    cotune(&["--ops", "matmul,relu"]).failed(2, &["--ops relu: the models have no such operator"]);
}

#[test]
fn slowdowns_are_evaluated_beside_baselines_and_kept_in_a_model() {
    let bench = Bench::new();
    bench.run(&[&PAIRS[..], &["--mode", "partitioned,time-sliced"]].concat());
    oppredict(&bench, &["eval", "--pairs", "nowhere"]).failed(1, &["nowhere"]);
    let few = ["eval", "--pairs", "pairs", "--json"];
    let evaluated = oppredict(&bench, &few);
    // On a busy machine too few rows are good enough to learn from, and that is said.
    match evaluated.code {
        Some(0) => {
            let by = &json(&evaluated.stdout)["by_operator"];
            assert!(by["model"].as_f64().unwrap() >= 0.0 && by["no_slowdown"].as_f64().is_some());
        }
        _ => evaluated.failed(
            1,
            &[
                "slowdowns of operators measured at the same time",
                "opcollect pairs",
            ],
        ),
    }
}

#[test]
fn splits_and_operators_that_cannot_be_are_refused() {
    let bench = Bench::new();
    let pairs = |more: &[&str]| bench.run(&[&PAIRS[..], more].concat());
    pairs(&["--split", "64+64"]).failed(2, &["--split 64+64", "--mode time-sliced"]);
    pairs(&["--split", "1"]).failed(2, &["threads of 2 to 8 operators"]);
    pairs(&["--ops", "conv9d"]).failed(2, &["--ops conv9d", "dense_add_relu"]);
    pairs(&["--target", "cuda"]).failed(1, &["processors of this machine only"]);
    bench
        .run(&["pairs", "--resume", "nowhere"])
        .failed(1, &["not a folder of `opcollect pairs`"]);
}
