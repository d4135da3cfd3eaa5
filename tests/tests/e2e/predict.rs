//! oppredict: evaluation of a foreign log, training, queries, and what it says to bad input.

use e2e::Bench;
use e2e::predict::{gpus, json, log, oppredict, trained};

#[test]
fn a_log_is_evaluated() {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let args = [
        "eval",
        "--import",
        "autotvm",
        "tune.jsonl",
        // Few folds: each chooses and trains members.
        "--split",
        "2-fold-workloads",
        "--json",
    ];
    let report = json(oppredict(&bench, &args).done());
    assert_eq!(report["split"], "2-fold-workloads");
    assert_eq!(
        (&report["samples"], &report["folds"]),
        (&140.into(), &2.into())
    );
    let mape = report["mape"].as_f64().expect("a number");
    assert!(mape > 0.0 && mape < 40.0, "{mape}");
    assert!(report["pairwise"].as_f64().expect("a number") > 75.0);
    for key in [
        "median_ape",
        "within_10",
        "r2_log2",
        "spearman",
        "top1",
        "top5",
        "coverage",
        "by_kind",
    ] {
        assert!(!report[key].is_null(), "{key} is missing");
    }
    let again = json(oppredict(&bench, &args).done());
    assert_eq!(report, again, "the same seed gives the same report");

    let plots = [
        "eval",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--split",
        "5-fold",
        "--model",
        "ridge",
        "--plots",
        "plots",
    ];
    let text = oppredict(&bench, &plots);
    let line = text
        .done()
        .lines()
        .find(|l| l.starts_with("all "))
        .expect("a line of metrics")
        .to_owned();
    let mape: f64 = line
        .split_whitespace()
        .nth(2)
        .and_then(|m| m.parse().ok())
        .expect("a number");
    assert!(
        mape < 100.0,
        "a straight line does better than that: {line}"
    );
    for name in ["predicted.svg", "residuals.svg"] {
        assert!(bench.path().join("plots").join(name).is_file());
    }
}

#[test]
fn a_model_is_trained_and_asked() {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let train = [
        "train",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--out",
        "models/cpu.opm",
        "--json",
    ];
    let facts = json(oppredict(&bench, &train).done());
    assert_eq!(
        (&facts["samples"], &facts["workloads"]),
        (&140.into(), &14.into())
    );

    let query = |more: &[&str]| {
        let args = [&["query", "--input", "1x64x14x14", "--json"], more].concat();
        json(oppredict(&bench, &args).done())
    };
    let lines = query(&[
        "--op",
        "conv2d",
        "--kernel",
        "3x3",
        "--channels",
        "64",
        "--threads",
        "1,2",
    ]);
    assert_eq!(lines.as_array().expect("a list").len(), 2);
    let first = &lines[0];
    let number = |key: &str| first[key].as_f64().expect("a number");
    assert!(number("low_ns") <= number("time_ns") && number("time_ns") <= number("high_ns"));
    assert_eq!(first["knowledge"], "known");
    assert_eq!(first["nearest"].as_array().expect("a list").len(), 3);
    assert!(!first["drivers"].as_array().expect("a list").is_empty());

    let huge = query(&["--op", "conv2d", "--kernel", "3x3", "--channels", "4096"]);
    assert!(
        !huge[0]["extrapolates"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let unknown = query(&["--op", "softmax"]);
    assert_eq!(unknown[0]["knowledge"], "unknown_kind");
    assert!(
        unknown[0]["time_ns"].as_f64().expect("a number") > 0.0,
        "never a silent zero"
    );

    let rows = oppredict(&bench, &["predict", "--import", "autotvm", "tune.jsonl"]);
    let lines: Vec<&str> = rows.done().lines().collect();
    assert_eq!(lines.len(), 141);
    assert!(lines[0].starts_with("row_id,op_name,threads,predicted_ns,low_ns,high_ns,"));
}

#[test]
fn model_files_that_are_damaged_or_foreign_are_refused() {
    let bench = trained();
    let ask = |file: &str| {
        let args = [
            "query",
            "--model",
            file,
            "--op",
            "dense",
            "--input",
            "1x64",
            "--channels",
            "64",
        ];
        oppredict(&bench, &args)
    };
    ask("cpu.opm").done();
    let good = std::fs::read(bench.path().join("cpu.opm")).expect("the model");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    bench.file("flipped.opm", flipped);
    ask("flipped.opm").failed(1, &["flipped.opm", "checksum", "oppredict train"]);
    bench.file("short.opm", &good[..good.len() / 3]);
    ask("short.opm").failed(1, &["short.opm", "checksum"]);
    bench.file("foreign.opm", "PK\u{3}\u{4}");
    ask("foreign.opm").failed(1, &["no model of oppredict"]);
    bench.file("empty.opm", "");
    ask("empty.opm").failed(1, &["no model of oppredict"]);
    ask("none.opm").failed(1, &["none.opm", "cannot be read"]);
}

#[test]
fn data_that_nothing_can_be_learned_from_is_refused() {
    let bench = Bench::new();
    let eval = |text: &str| {
        bench.file("x.jsonl", text);
        oppredict(&bench, &["eval", "--import", "autotvm", "x.jsonl"])
    };
    eval("").failed(1, &["nothing to learn from", "0 rows"]);
    // What can be used of a damaged log is used, unless all of it is asked for.
    let damaged = format!("# a remark\n{}{{\"input\": [\"llvm", log("llvm"));
    let outcome = eval(&damaged);
    for reason in [
        "1 record left out: comments",
        "1 record left out: damaged lines",
    ] {
        assert!(outcome.done().contains(reason), "{}", outcome.done());
    }
    oppredict(
        &bench,
        &["eval", "--strict", "--import", "autotvm", "x.jsonl"],
    )
    .failed(1, &["x.jsonl:", "not JSON"]);
    eval("{\"a\": 1}\n").failed(1, &["x.jsonl:1", "not an AutoTVM record"]);
    eval(log("llvm").lines().next().expect("a line")).failed(1, &["at least 2 workloads"]);
    let costs = |line: &str| {
        let (head, tail) = line.split_once("\"result\": [[").expect("a result");
        format!(
            "{head}\"result\": [[0.001{}",
            &tail[tail.find(']').expect("an end")..]
        )
    };
    let constant: Vec<String> = log("llvm").lines().map(costs).collect();
    eval(&constant.join("\n")).failed(1, &["took 1000000 ns", "constant"]);
    eval(&format!("{}{}", log("llvm"), log("llvm -mcpu=skylake")))
        .failed(1, &["2 machines", "--mixed-machines"]);

    oppredict(&bench, &["eval"]).failed(2, &["no data"]);
    oppredict(&bench, &["eval", "--import", "ansor", "x.jsonl"]).failed(1, &["ansor", "autotvm"]);
    oppredict(&bench, &["eval", "no/such/run"]).failed(1, &["no/such/run"]);
    oppredict(&bench, &["query", "--op", "dense", "--input", "1x4"])
        .failed(1, &["no trained model", "oppredict train"]);
    oppredict(&bench, &["eval", "--split", "by-mood"])
        .failed(2, &["by-mood", "leave-one-workload-out"]);
}

#[test]
fn turning_points_and_correlations_are_printed() {
    let bench = Bench::new();
    let mut sweeps = "model,device,threads,total_time\n".to_owned();
    for model in ["a", "b"] {
        for threads in 1..=32 {
            let time = 1000.0 / f64::from(threads.min(12)) + f64::from(threads);
            sweeps.push_str(&format!("{model},cpu,{threads},{time}\n"));
        }
    }
    bench.file("sweeps.csv", sweeps);
    let analysis = json(oppredict(&bench, &["turning", "sweeps.csv", "--json"]).done());
    assert_eq!(analysis["sweeps"][0]["best"], 12.0);
    let turn = analysis["sweeps"][0]["turn"]["x"]
        .as_f64()
        .expect("a number");
    assert!((9.0..=14.0).contains(&turn), "{turn}");
    assert!(analysis["mean_ratio"].as_f64().expect("a number") < 1.2);

    bench.file("tune.jsonl", log("llvm"));
    let args = [
        "correlate",
        "--import",
        "autotvm",
        "tune.jsonl",
        "--partial",
        "1",
        "--json",
    ];
    let kinds = json(oppredict(&bench, &args).done());
    assert_eq!(kinds[0]["kind"], "conv2d");
    let strongest = &kinds[0]["factors"][0];
    assert!(
        strongest["p_spearman"].as_f64().expect("a number") < 0.05,
        "{strongest}"
    );
    assert!(!strongest["partial"].as_array().expect("a list").is_empty());
}

#[test]
fn every_out_of_fold_prediction_is_written() {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let data = ["eval", "--import", "autotvm", "tune.jsonl"];
    let rest = ["--split", "5-fold", "--model", "xgboost", "--cores", "4"];
    let file = ["--predictions", "held.csv", "--json"];
    oppredict(&bench, &[&data[..], &rest, &file].concat()).done();
    let text = std::fs::read_to_string(bench.path().join("held.csv")).expect("a file");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 141);
    assert_eq!(
        lines[0],
        "row_id,workload,fold,measured_ns,predicted_ns,low_ns,high_ns,threads,disturbed"
    );
    for line in &lines[1..] {
        let times: Vec<f64> = line
            .strip_suffix(",,")
            .expect("a log says neither threads nor whether something else ran")
            .split(',')
            .skip(3)
            .map(|cell| cell.parse().expect("a time"))
            .collect();
        let [measured, predicted, low, high] = times[..] else {
            panic!("{line}");
        };
        assert!(measured > 0.0 && low <= high && predicted > 0.0, "{line}");
    }
    let none = ["--cores", "0"];
    oppredict(&bench, &[&data[..], &none].concat()).failed(2, &["--cores"]);
}

#[test]
fn a_model_is_compared_with_measured_rows() {
    let bench = trained();
    let compare = |arguments: &[&str]| oppredict(&bench, &[&["predict"], arguments].concat());
    let same = ["--compare", "--import", "autotvm", "tune.jsonl"];
    let report = json(compare(&[&same[..], &["--json"]].concat()).done());
    assert_eq!(
        (&report["rows"], &report["trained_on"]),
        (&140.into(), &1.0.into())
    );
    assert!(report["mape"].as_f64().expect("a number") < 30.0);
    assert!(report["inside"].as_f64().expect("a share") > 0.5);
    let furthest = report["furthest"].as_array().expect("rows");
    let ratio = |row: &serde_json::Value| {
        let ns = |name: &str| row[name].as_f64().expect("a time");
        (ns("predicted_ns") / ns("measured_ns")).log2().abs()
    };
    assert_eq!(furthest.len(), 140);
    assert!(
        furthest
            .windows(2)
            .all(|two| ratio(&two[0]) >= ratio(&two[1]))
    );

    let text = compare(&[&same[..], &["--operators", "1"]].concat());
    let text = text.done();
    assert!(
        text.starts_with(
            "140 measured rows (0 others left out); the operators of 100 % of them were trained on"
        ),
        "{text}"
    );
    assert!(
        text.contains("furthest off:") && text.contains("% intervals"),
        "{text}"
    );

    // Nothing to compare with, and rows of another kind of device.
    compare(&["--compare"]).failed(2, &["no data"]);
    compare(&["--compare", "nowhere"]).failed(1, &["nowhere"]);
    bench.file("gpu.jsonl", log("cuda"));
    compare(&["--compare", "--import", "autotvm", "gpu.jsonl"])
        .failed(2, &["none of the 140 rows was measured on cpu"]);
}

#[test]
fn a_gpu_that_was_not_seen_is_predicted_by_its_figures() {
    let bench = Bench::new();
    let (known, new, figures) = gpus();
    bench.file("known.csv", known);
    bench.file("new.csv", new);
    bench.file("devices.csv", figures);
    let train = [
        "train",
        "--import",
        "table",
        "known.csv",
        "--mixed-machines",
        "--devices",
        "devices.csv",
        "--out",
        "gpu.opm",
    ];
    oppredict(&bench, &train).done();
    let compare = [
        "predict",
        "--model",
        "gpu.opm",
        "--compare",
        "--import",
        "table",
        "new.csv",
        "--json",
    ];
    let inside = std::cell::Cell::new(0.0);
    let error = |more: &[&str]| {
        let report = json(oppredict(&bench, &[&compare[..], more].concat()).done());
        assert_eq!(report["rows"], 60);
        assert_eq!(report["by_machine"]["Tesla d"]["mape"], report["mape"]);
        let others = report["other_machines"].as_array().expect("names");
        assert!(others.len() == 1 && others[0].to_string().contains("Tesla d"));
        inside.set(report["inside"].as_f64().expect("a share"));
        report["mape"].as_f64().expect("a number")
    };
    let without = error(&[]);
    let with = error(&["--devices", "devices.csv"]);
    assert!(with < 15.0, "{with}");
    assert!(inside.get() > 0.7, "{}", inside.get());
    assert!(without > 2.0 * with, "{without}");
    bench.file("devices.csv", "device,singleflops\nTesla a,fast\n");
    oppredict(&bench, &train).failed(
        1,
        &[
            "devices.csv:2",
            "`fast` in `singleflops` is no number above 0",
        ],
    );
}

#[test]
fn operators_are_placed_on_devices_by_measured_costs() {
    let bench = Bench::new();
    let measure = [
        "--modelname",
        "mlp",
        "--threads",
        "1",
        "--budget",
        "20ms",
        "--out",
        "run",
    ];
    bench
        .run(&[&measure[..], &["--whole-model=skip"]].concat())
        .done();
    let place = |more: &[&str]| {
        let args = [&["place", "run", "--models", "mlp", "--devices"], more].concat();
        oppredict(&bench, &args)
    };
    let placed = json(place(&["cpu:2", "--plots", "plots", "--json"]).done());
    assert_eq!(placed["jobs"].as_array().expect("jobs").len(), 4);
    assert_eq!(placed["is_optimal"], true);
    let outcomes = placed["outcomes"].as_array().expect("outcomes");
    let period = |name: &str| {
        let found = outcomes.iter().find(|o| o["name"] == name);
        found
            .and_then(|o| o["period_ns"].as_f64())
            .expect("a period")
    };
    assert!(period("optimum") <= period("Nash equilibrium"));
    assert!(period("Nash equilibrium") < period("all on cpu0"));
    assert!(bench.path().join("plots/optimum.svg").is_file());
    assert!(bench.path().join("plots/HEFT.pftrace").is_file());
    place(&["npu"]).failed(2, &["no such kind of device"]);
    place(&["cpu,vta"]).failed(
        2,
        &["the cost of a transfer between cpu and vta is not known"],
    );
    place(&["cpu:2x7"]).failed(
        2,
        &["no device has a cost of mlp/", "opcollect --modelname"],
    );
}
