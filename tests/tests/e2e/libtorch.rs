//! `opcollect profile --framework torch`: the same operators, calls and shares as Python's `torch.profiler` has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use e2e::installed::has_libtorch;
use e2e::{Bench, Outcome};
use serde_json::Value;

/// Status of a wrong request.
const USAGE: i32 = 2;
/// Status of a failure.
const FAILED: i32 = 1;

const MODEL: [&str; 7] = [
    "profile",
    "--framework=torch",
    "--modelsource=torch",
    "--modelname=resnet18",
    "--input=input:1x3x96x96",
    "--threads=1",
    "--json",
];
/// Points of a share by which two profiles may differ.
const POINTS: f64 = 5.0;
/// Profiles that are tried: whoever else uses the machine changes shares.
const ATTEMPTS: usize = 3;

/// What `torch.profiler` says of the network in Python: calls a run and share of the operators' own time.
const REFERENCE: &str = r#"
import json, sys
sys.path.insert(0, sys.argv[1])
from opbench_import import torch_library, torch_models
from opbench_import.request import InputOverride, Request
torch = torch_library.load()
torch.set_num_threads(1)
given = [InputOverride("input", [1, 3, 96, 96])]
example = torch_models.build(Request("torch", "resnet18", "", inputs=given))
run = lambda: example.module(*example.inputs.values())
with torch.no_grad():
    [run() for _ in range(4)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        [run() for _ in range(20)]
lines = profile.key_averages()
whole = sum(line.self_cpu_time_total for line in lines)
print(json.dumps({l.key: [l.count / 20, l.self_cpu_time_total / whole * 100] for l in lines}))
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

type Lines = BTreeMap<String, (f64, f64)>;

fn of_python() -> Lines {
    let mut python = std::process::Command::new(root().join(".venv/bin/python"));
    python
        .args(["-P", "-c", REFERENCE])
        .arg(root().join("models/python"));
    let outcome = Outcome::of(python);
    let last = outcome.done().lines().last().unwrap();
    let lines: BTreeMap<String, (f64, f64)> = serde_json::from_str(last).unwrap();
    lines
}

fn of_libtorch(bench: &Bench) -> Lines {
    let outcome = bench.run(&MODEL);
    let profile: Value = serde_json::from_str(outcome.done()).unwrap();
    let lines = profile["cycles"][0]["lines"].as_array().unwrap();
    lines
        .iter()
        .map(|line| {
            let number = |key: &str| line[key].as_f64().unwrap();
            let name = line["name"].as_str().unwrap().to_owned();
            (name, (number("count"), number("self_share") * 100.0))
        })
        .collect()
}

/// The ten heaviest lines of Python's, with the shares on both sides.
fn heaviest(python: &Lines, libtorch: &Lines) -> Vec<(String, f64, f64)> {
    let mut shares: Vec<_> = python
        .iter()
        .map(|(name, (_, share))| (name.clone(), *share, libtorch[name].1))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.truncate(10);
    shares
}

#[test]
fn operators_calls_and_shares_are_those_of_torch_profiler() {
    if !has_libtorch("libtorch's profile beside Python's") {
        return;
    }
    let bench = Bench::new();
    for attempt in 1..=ATTEMPTS {
        let (python, libtorch) = (of_python(), of_libtorch(&bench));
        let calls = |lines: &Lines| -> Vec<(String, f64)> {
            let all = lines.iter();
            all.map(|(name, (count, _))| (name.clone(), *count))
                .collect()
        };
        assert_eq!(calls(&python), calls(&libtorch));
        println!(
            "{:<32} {:>6} {:>8} {:>8}",
            "operator", "calls", "Python", "libtorch"
        );
        let mut worst: f64 = 0.0;
        for (name, theirs, ours) in heaviest(&python, &libtorch) {
            println!(
                "{name:<32} {:>6} {theirs:>7.2}% {ours:>7.2}%",
                python[&name].0
            );
            worst = worst.max((theirs - ours).abs());
        }
        if worst <= POINTS {
            return;
        }
        assert!(attempt < ATTEMPTS, "shares differ by {worst:.1} points");
    }
}

#[test]
fn modules_shapes_memory_cycles_and_traces_are_there() {
    if !has_libtorch("libtorch's profile in detail") {
        return;
    }
    let bench = Bench::new();
    let detail = [
        "--group-by=shape",
        "--memory",
        "--stack",
        "--active=2",
        "--repeat=2",
        "--csv=t.csv",
        "--trace=t.json",
    ];
    let outcome = bench.run(&[&MODEL[..], &detail].concat());
    let profile: Value = serde_json::from_str(outcome.done()).unwrap();
    let cycles = profile["cycles"].as_array().unwrap();
    assert_eq!(cycles.len(), 2);
    assert_eq!(cycles[1]["first_step"], 7);
    let lines = cycles[0]["lines"].as_array().unwrap();
    let first = lines
        .iter()
        .find(|line| line["name"] == "aten::conv2d" && line["module"] == "conv1");
    let first = first.expect("the first convolution");
    assert_eq!(first["count"], 1.0);
    assert_eq!(
        first["shapes"].as_str().unwrap().split("], ").next(),
        Some("[1, 3, 96, 96")
    );
    assert_eq!(first["total_bytes"], 64.0 * 48.0 * 48.0 * 4.0);
    for cycle in 1..=2 {
        let csv = std::fs::read_to_string(bench.path().join(format!("t.{cycle}.csv"))).unwrap();
        assert!(csv.starts_with("Name,Self CPU %,"), "{csv}");
        let trace = std::fs::read(bench.path().join(format!("t.{cycle}.json"))).unwrap();
        let trace: Value = serde_json::from_slice(&trace).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let steps = events.iter().filter(|event| {
            let name = event["name"].as_str().unwrap_or_default();
            name.starts_with("ProfilerStep#")
        });
        assert_eq!(steps.count(), 2);
    }
}

#[test]
fn what_means_nothing_to_libtorch_is_a_usage_error() {
    let bench = Bench::new();
    let torch = |more: &[&str], words: &[&str]| {
        let base = [
            "profile",
            "--framework=torch",
            "--modelsource=torch",
            "--modelname=resnet18",
        ];
        bench.run(&[&base[..], more].concat()).failed(USAGE, words);
    };
    torch(&["--target=cuda -arch=sm_80"], &["--target", "cuda alone"]);
    torch(&["--target=llvm"], &["--target", "compiles nothing"]);
    torch(&["--fusion=none"], &["--fusion", "fuses nothing"]);
    torch(&["--sort=live"], &["--sort", "self, total"]);
    torch(&["--trace=t.pftrace"], &["t.pftrace", ".json"]);
    torch(&["--threads=1,2"], &["one number of threads"]);
    let plain = |more: &[&str], words: &[&str]| {
        bench
            .run(&[&["profile", "--modelname=mlp"], more].concat())
            .failed(USAGE, words);
    };
    plain(
        &["--framework=torch"],
        &["--modelsource torch", "not local"],
    );
    plain(&["--framework=jax"], &["jax", "torch"]);
    plain(&["--stack"], &["--framework torch"]);
}

#[test]
fn without_the_extra_the_command_that_installs_it_is_named() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("models")).unwrap();
    std::fs::write(bench.path().join("models/registry.toml"), "format = 1").unwrap();
    let mut command = bench.command(MODEL);
    command.env("OPBENCH_HOME", bench.path());
    Outcome::of(command).failed(FAILED, &["scripts/setup --with torch"]);
}

#[test]
fn without_a_gpu_libtorch_says_so() {
    if !has_libtorch("libtorch without a GPU") || Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let outcome = Bench::new().run(&[&MODEL[..], &["--target=cuda"]].concat());
    outcome.failed(FAILED, &["libtorch", "no GPU of NVIDIA"]);
}

#[test]
fn a_file_that_is_no_torchscript_is_refused() {
    if !has_libtorch("a file that is no TorchScript") {
        return;
    }
    let bench = Bench::new();
    bench.file("net.pt", "no archive");
    let args = [
        "profile",
        "--framework=torch",
        "--modelsource=torch",
        "--modelname=net.pt",
        "--input=x:1x4",
    ];
    bench
        .run(&args)
        .failed(FAILED, &["net.pt", "not a model of PyTorch"]);
}
