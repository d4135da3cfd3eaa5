//! oppredict adapt: a model and a few measurements of a machine that it was not trained on.

use e2e::Bench;
use e2e::predict::{json, log, log_of_machine, log_with_registers, oppredict, trained};

#[test]
fn a_model_is_carried_over_to_another_machine() {
    let bench = trained();
    let other = log_of_machine("llvm -mcpu=other", 3.0);
    bench.file("other.jsonl", other);
    let adapt = |count: &str, more: &[&str]| {
        let data = [
            "adapt",
            "--import",
            "autotvm",
            "other.jsonl",
            "--model",
            "cpu.opm",
        ];
        let rest = ["--measurements", count];
        oppredict(&bench, &[&data, &rest[..], more].concat())
    };
    let gain = json(adapt("30", &["--out", "other.opm", "--json"]).done());
    let of = |key: &str| gain[key].as_f64().expect("a number");
    assert_eq!((of("measurements"), of("held_out")), (30.0, 110.0));
    assert!(of("adapted_mape") < of("zero_shot_mape"), "{gain}");
    adapt("500", &[]).failed(1, &["adapting with a check", "140"]);

    let ask = |model: &str| {
        let args = [
            "query",
            "--op",
            "conv2d",
            "--input",
            "1x64x14x14",
            "--kernel",
            "3x3",
            "--channels",
            "64",
            "--json",
            "--model",
            model,
        ];
        json(oppredict(&bench, &args).done())
    };
    assert_ne!(ask("cpu.opm"), ask("other.opm"));
}

#[test]
fn a_model_of_several_machines_is_carried_over() {
    let bench = Bench::new();
    // Four of the shapes are enough, and train in a tenth of the time.
    let file = |name: &str, log: String| {
        let lines: Vec<&str> = log.lines().take(40).collect();
        bench.file(name, lines.join("\n"));
    };
    // The new one likes the tiles that b likes.
    file(
        "a.jsonl",
        log_with_registers("llvm -mcpu=a", 1.0, 64.0, 0.5),
    );
    file(
        "b.jsonl",
        log_with_registers("llvm -mcpu=b", 3.0, 16.0, 4.0),
    );
    file(
        "new.jsonl",
        log_with_registers("llvm -mcpu=new", 2.0, 16.0, 4.0),
    );
    let import = |file| ["--import", "autotvm", file];
    let several = [import("a.jsonl"), import("b.jsonl")].concat();
    let train = [
        &["train", "--mixed-machines", "--out", "old.opm"],
        &several[..],
    ]
    .concat();
    oppredict(&bench, &train).done();

    let adapt = |file, more: &[&str]| {
        let old = ["adapt", "--model", "old.opm", "--measurements", "10"];
        oppredict(&bench, &[&old[..], &import(file), more].concat())
    };
    let gain = json(adapt("new.jsonl", &["--out", "new.opm", "--json"]).done());
    let of = |key: &str| gain[key].as_f64().expect("a number");
    assert_eq!((of("measurements"), of("held_out")), (10.0, 30.0));
    for other in ["zero_shot_mape", "afresh_mape"] {
        assert!(of("adapted_mape") < 0.7 * of(other), "{gain}");
    }
    let alike = gain["alike"].as_array().expect("machines");
    assert_eq!(alike[0][0], "llvm -mcpu=b", "the most alike comes first");
    assert!(alike[0][1].as_f64().expect("a share") > 0.8, "{gain}");

    // What was written answers about the new machine.
    let error = |model: &str| {
        let compare = ["predict", "--compare", "--model", model, "--json"];
        let report = json(oppredict(&bench, &[&compare[..], &import("new.jsonl")].concat()).done());
        report["mape"].as_f64().expect("a number")
    };
    assert!(error("new.opm") < 0.5 * error("old.opm"));

    // Measurements of no use.
    let new = log_of_machine("llvm -mcpu=new", 2.0);
    file("gpu.jsonl", log("cuda"));
    file("failed.jsonl", new.replace("], 0, 1.0", "], 4, 1.0"));
    file(
        "few.jsonl",
        new.lines().take(11).collect::<Vec<_>>().join("\n"),
    );
    let refused = |file, more: &[&str], words: &[&str]| {
        let out = ["--out", "none.opm"];
        adapt(file, &[&out[..], more].concat()).failed(1, words);
        assert!(
            !bench.path().join("none.opm").exists(),
            "nothing is written"
        );
    };
    refused(
        "gpu.jsonl",
        &[],
        &["none of the 40 rows was measured on cpu", "--model"],
    );
    refused(
        "failed.jsonl",
        &[],
        &["nothing to learn from", "0 were measured"],
    );
    refused("few.jsonl", &[], &["adapting with a check", "12"]);
    refused(
        "a.jsonl",
        &import("new.jsonl"),
        &["the rows are of 2 machines", "--machine"],
    );
}
