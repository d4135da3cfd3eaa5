//! `--target pynq` from the command line to the rows. Operators run on the simulated accelerator, bit-exact, never
//! called measured. Also a whole model beside floating point, a sweep, and the simulator by itself.

use e2e::Bench;
use opdata::{Status, read_rows};
use serde_json::Value;

const MODEL: [&str; 4] = ["--modelname", "mlp", "--target", "pynq"];

#[test]
fn a_model_runs_on_the_simulated_accelerator_and_no_word_says_measured() {
    let bench = Bench::new();
    let outcome = bench.run(&[&MODEL[..], &["--out", "run"]].concat());
    let text = outcome.done();
    assert!(text.contains(" 3 simulated, 1 skipped in"), "{text}");
    assert!(text.contains("nothing was measured"), "{text}");
    assert!(!text.contains(" measured in"), "{text}");
    assert!(
        text.contains("whole model (1 thread): simulated: the device takes"),
        "{text}"
    );
    assert!(text.contains("cosine at least 0.9"), "{text}");
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let timed: Vec<_> = rows
        .iter()
        .filter(|row| row.status == Status::Simulated)
        .collect();
    assert!(!timed.is_empty());
    for row in timed {
        assert_eq!(row.simulator.as_deref(), Some("vta-sim"));
        assert_eq!(row.simulator_profile.as_deref(), Some("pynq-1x16"));
        assert_eq!(row.device_kind.as_str(), "vta-sim");
        assert_eq!((row.samples, row.quality), (Some(1), None));
        assert_eq!(
            row.max_abs_error,
            Some(0.0),
            "the int8 reference, bit for bit"
        );
        assert!(row.simulator_error_percent.unwrap() < 2.0 && row.quantisation.is_some());
        let replayed = bench.run(&["replay", &row.row_id, "--run", "run"]);
        assert!(
            replayed.done().contains("ratio     1.000"),
            "{}",
            replayed.done()
        );
    }
    assert!(rows.iter().all(|row| row.status != Status::Measured));
    let saved = std::fs::read_to_string(bench.path().join("run/whole_model.json"));
    let record: Value = match saved {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => {
            let folder = std::fs::read_dir(bench.path().join("run")).unwrap();
            let names: Vec<_> = folder.map(|f| f.unwrap().file_name()).collect();
            panic!("no whole_model.json among {names:?}");
        }
    };
    let layers = record["ready"]["agreement"]["layers"].as_array().unwrap();
    assert!(
        layers.iter().all(|layer| layer["scales"]["shift"].is_i64()),
        "{layers:?}"
    );
}

#[test]
fn a_profile_has_simulated_times_and_none_of_the_cpu_side() {
    let bench = Bench::new();
    let profile = |args: &[&str]| bench.run(&[&["profile"], &MODEL[..], args].concat());
    let text = profile(&["--csv", "t.csv", "--trace", "t.json"]);
    assert!(
        text.done().contains("nothing was measured") && !text.done().contains("overhead"),
        "{}",
        text.done()
    );
    let table = std::fs::read_to_string(bench.path().join("t.csv")).unwrap();
    let softmax = table.lines().find(|line| line.starts_with("softmax"));
    assert!(
        softmax.unwrap().starts_with("softmax,,,cpu side,1,"),
        "{table}"
    );
    let trace = std::fs::read_to_string(bench.path().join("t.json")).unwrap();
    assert!(trace.contains("mlp, simulated: pynq") && !trace.contains("\"softmax\""));
    let again = profile(&["--json"]);
    let json: Value = serde_json::from_str(again.done()).unwrap();
    let lines = json["cycles"][0]["lines"].as_array().unwrap();
    let timed = lines.iter().filter(|line| line["self_ns"].is_f64()).count();
    assert_eq!((timed, json["end_to_end_ns"].is_null()), (3, true));
}

#[test]
fn a_quantised_model_keeps_scales_that_are_powers_of_two_and_says_where_they_are_not() {
    let bench = Bench::new();
    let pattern = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../models/patterns/qconv2d-qdq.onnx"
    );
    let own = std::fs::read(pattern).unwrap();
    // The data's scale 0.02, the weights' 0.01 and the result's 0.1, as they lie in the file.
    let scaled = |scales: [f32; 3]| {
        let mut bytes = own.clone();
        for (before, after) in [0.02_f32, 0.01, 0.1].into_iter().zip(scales) {
            let at = bytes.windows(4).position(|w| w == before.to_le_bytes());
            let at = at.unwrap();
            bytes[at..at + 4].copy_from_slice(&after.to_le_bytes());
        }
        bytes
    };
    let cases = [
        (
            "powers",
            scaled([0.015_625, 0.007_812_5, 0.125]),
            "kept",
            false,
        ),
        ("others", own.clone(), "no single power of two", true),
    ];
    for (name, model, expected, rescaled) in cases {
        std::fs::write(bench.path().join("net.onnx"), model).unwrap();
        let run = [
            "--modelsource",
            "onnx",
            "--modelname",
            "net.onnx",
            "--target",
            "pynq",
            "--out",
            name,
        ];
        let outcome = bench.run(&run);
        assert!(
            ["0.99", "1.00"]
                .iter()
                .any(|c| outcome.done().contains(&format!("cosine at least {c}"))),
            "{}",
            outcome.done()
        );
        let rows = read_rows(&bench.path().join(name).join("rows.csv")).unwrap();
        let [row] = &rows[..] else {
            panic!("{} rows", rows.len())
        };
        assert_eq!(
            (row.status, row.max_abs_error),
            (Status::Simulated, Some(0.0))
        );
        let said = row.quantisation.as_ref().unwrap();
        assert!(said.to_string().contains(expected), "{said:?}");
        assert_eq!(row.cpu_side.is_some(), rescaled, "{:?}", row.cpu_side);
    }
}

#[test]
fn every_knob_is_swept_and_another_profile_is_another_machine() {
    let bench = Bench::new();
    let sweep = "space = \"template\"\ndraw = \"sobol\"\nschedules = 6\nabout = \"six\"\n[vary]\ntile_ci = \"all\"\ntile_co = \"all\"\n";
    std::fs::write(bench.path().join("own.toml"), sweep).unwrap();
    let run = [
        &MODEL[..],
        &[
            "--sweep",
            "own.toml",
            "--whole-model",
            "skip",
            "--max-failed",
            "100%",
            "--out",
            "swept",
        ],
    ]
    .concat();
    bench.run(&run).done();
    let rows = read_rows(&bench.path().join("swept/rows.csv")).unwrap();
    let knobs = rows
        .iter()
        .filter_map(|row| row.knob_tile_reduction.clone());
    assert!(knobs.collect::<std::collections::BTreeSet<_>>().len() > 1);
    let other = [
        "--modelname",
        "mlp",
        "--target",
        "pynq -profile=ultra96-1x16",
        "--whole-model",
        "skip",
        "--max-failed",
        "100%",
        "--out",
        "other",
    ];
    let text = bench.run(&other).done().to_owned();
    assert!(text.contains("not calibrated"), "{text}");
}

#[test]
fn the_simulator_shows_compares_and_refuses() {
    let bench = Bench::new();
    let show = bench.run(&[
        "vta",
        "show",
        "conv2d:1x64x28x28:64x3x3:p1",
        "--svg",
        "g.svg",
        "--trace",
        "g.pftrace",
        "--disassembly",
    ]);
    let text = show.done();
    assert!(
        text.contains("nothing was measured") && text.contains("limited by"),
        "{text}"
    );
    assert!(text.contains("FINISH"), "{text}");
    let svg = std::fs::read_to_string(bench.path().join("g.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("compute"));
    assert!(bench.path().join("g.pftrace").metadata().unwrap().len() > 1_000);
    let stream = "{\"insn\": [\"00000000000000000000000000000007\"]}";
    std::fs::write(bench.path().join("bad.json"), stream).unwrap();
    let bad = [
        (
            vec!["vta", "show", "dense:1x64x64", "--stream", "bad.json"],
            1,
            "instruction 0: opcode 7 is unknown",
        ),
        (
            vec!["vta", "show", "dense:1x64x64", "--knobs", "tile_ci=3"],
            2,
            "tile_ci is 3, which does not divide 4",
        ),
        (vec!["vta", "show", "conv2d:1x9x9x9"], 2, "expected e.g."),
        (
            vec!["vta", "show", "dense:1x64x64", "--profile", "nope"],
            2,
            "cannot read the profile nope",
        ),
        (
            vec!["vta", "compare", "bad.json"],
            1,
            "no line of it is a convolution on VTA",
        ),
        (
            vec!["--modelname", "mlp", "--target", "pynq -profile=nope"],
            2,
            "profiles are pynq-1x16",
        ),
    ];
    for (args, code, message) in bad {
        let outcome = bench.run(&args);
        outcome.failed(code, &[message]);
    }
}
