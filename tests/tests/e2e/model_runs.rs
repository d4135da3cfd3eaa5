//! oppredict on runs of whole models: measurements that other processes disturbed, and answers about another model.

use std::fs;
use std::path::Path;

use e2e::Bench;
use e2e::predict::{json, oppredict};
use opdata::{CacheState, DeviceKind, Essentials, Row, RunWriter, Status};
use serde_json::{Value, json as object};

/// How much slower everything was while something else ran.
const SLOWER: f64 = 3.0;

/// Four models of six dense layers each on one and two threads, a folder each, timed as wholes, too. While the last one
/// ran on two threads something else ran.
fn noisy_runs(folder: &Path) {
    for model in 0..4 {
        let run = folder.join(format!("m{model}"));
        let mut writer = RunWriter::create(&run).expect("a run's folder");
        let mut times = Vec::new();
        for threads in [1, 2] {
            let drift = if (model, threads) == (3, 2) {
                SLOWER
            } else {
                1.0
            };
            let rows: Vec<Row> = (0..6)
                .map(|layer| row(model, layer, threads, drift))
                .collect();
            let whole: f64 = rows.iter().filter_map(|row| row.time_median_ns).sum();
            rows.iter()
                .for_each(|row| writer.append(row).expect("a row"));
            times.push(
                object!({"threads": threads, "drift": drift, "taken": {"samples": [whole, whole]}}),
            );
        }
        writer.finish().expect("a finished run");
        let record = object!({"format": 1, "threads": times}).to_string();
        fs::write(run.join("whole_model.json"), record).expect("the whole model's record");
    }
}

/// A dense layer that takes what it computes, on a machine that is slower by `drift`.
fn row(model: u64, layer: u64, threads: u64, drift: f64) -> Row {
    let (depth, columns) = (64 << (layer % 3), 64 * (1 + 2 * model + layer));
    let name = format!("m{model}");
    let point = format!("{name}-{layer}-{threads}");
    let flops = 2 * depth * columns;
    Row {
        model_name: Some(name.clone()),
        op_count: Some(1),
        threads: Some(threads),
        cache_state: Some(CacheState::Model),
        schedule_space: Some("default".to_owned()),
        workload_hash: Some(format!("{depth}x{columns}")),
        input_shapes: Some(format!("1x{depth}").parse().expect("a shape")),
        weight_shapes: Some(format!("{columns}x{depth}").parse().expect("a shape")),
        output_shapes: Some(format!("1x{columns}").parse().expect("a shape")),
        flops: Some(flops),
        bytes_read: Some(4 * (columns + 1) * depth),
        bytes_written: Some(4 * columns),
        time_median_ns: Some(drift * flops as f64 / threads as f64),
        drift_ratio: Some(drift),
        ..Row::new(Essentials {
            run_id: &name,
            ordinal: 6 * threads + layer,
            point_id: &point,
            op_name: "dense",
            op_kind: "dense",
            device_kind: DeviceKind::CPU,
            status: Status::Measured,
        })
    }
}

#[test]
fn quiet_and_disturbed_measurements_are_judged_apart() {
    let bench = Bench::new();
    noisy_runs(&bench.path().join("runs"));
    let eval = |more: &[&str]| {
        let split = ["eval", "runs", "--split", "leave-one-model-out"];
        // The fastest model to fit.
        oppredict(
            &bench,
            &[&split[..], &["--model", "roofline"], more].concat(),
        )
    };
    let report = json(eval(&["--json", "--predictions", "held.csv"]).done());
    let apart = &report["by_disturbance"];
    let samples = |which: &str| apart[which]["samples"].as_u64();
    assert_eq!(
        (samples("quiet"), samples("disturbed")),
        (Some(42), Some(6))
    );
    let median = |which: &str| apart[which]["median_ape"].as_f64().expect("a number");
    assert!(median("quiet") < median("disturbed"), "{apart}");

    let models = report["models"].as_array().expect("models");
    let drifted = |model: &&Value| model["drift"].as_f64() == Some(SLOWER);
    assert_eq!(
        (models.len(), models.iter().filter(drifted).count()),
        (8, 1)
    );
    let within = &report["models_within_10"];
    let quiet = |place: usize| within[place]["quiet"]["models"].as_u64();
    assert_eq!((quiet(0), quiet(1)), (Some(4), Some(3)));

    let text = fs::read_to_string(bench.path().join("held.csv")).expect("a file");
    let ending = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    let counts = [",1,false", ",2,false", ",1,true", ",2,true"].map(ending);
    assert_eq!(counts, [24, 18, 0, 6]);

    let text = eval(&[]);
    let text = text.done();
    for words in [
        "\nwhile something else ran        6 ",
        " drift\n",
        " of 4 whole models within 10 %\n2 threads: ",
        " of 3 measured quietly\n",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn operators_are_named_after_their_layers() {
    let bench = Bench::new();
    noisy_runs(&bench.path().join("runs"));
    oppredict(&bench, &["train", "runs", "--out", "cpu.opm"]).done();
    let predict = |more: &[&str]| {
        let of = ["predict", "--model", "cpu.opm", "--modelname", "bert-tiny"];
        oppredict(&bench, &[&of[..], &["--seqlen", "16"], more].concat())
    };
    let answers = json(predict(&["--json"]).done());
    let operators = answers[0]["operators"].as_array().expect("operators");
    let attention = |layer: u64| {
        let of = |part| format!("encoder.layer.{layer}.attention.self.{part}");
        ["query", "key", "value"].map(of)
    };
    let six: Vec<String> = (0..2).flat_map(attention).collect();
    let has = |layers: Value| operators.iter().any(|o| o["layers"] == layers);
    assert!(has(object!(six)), "{operators:#?}");
    assert!(has(object!(["pooler.dense"])), "{operators:#?}");

    let text = predict(&["--operators", "100"]);
    let lines: Vec<&str> = text.done().lines().collect();
    assert_eq!(
        lines[1].split_whitespace().nth(1),
        Some("layer"),
        "{lines:#?}"
    );
    let line_of = |layer: &str| lines.iter().any(|line| line.contains(layer));
    assert!(
        line_of(" encoder.layer.0.attention.self.query + 5  "),
        "{lines:#?}"
    );
    assert!(line_of(" pooler.dense  "), "{lines:#?}");
}
