//! Every way to go wrong: one clear message with what, where and what next, the right exit code, nothing lost.

use std::path::Path;
use std::process::Command;

use e2e::{Bench, Disk, Node, Outcome, Tensor, model, opcollect, relu, skip};
use opdata::read_rows;

/// Exit codes of the manual.
const FAILED: i32 = 1;
const USAGE: i32 = 2;

const X: Tensor<'_> = Tensor {
    name: "x",
    shape: &[2, 8],
};
const Y: Tensor<'_> = Tensor {
    name: "y",
    shape: &[2, 8],
};

#[test]
fn the_error_for_an_unknown_model_suggests_similar_names() {
    Bench::new()
        .run(&["--modelname", "resnet18x"])
        .failed(USAGE, &["resnet18x", "resnet-18", "list models"]);
}

#[test]
fn no_model_at_all() {
    Bench::new().run(&[]).failed(USAGE, &["modelname"]);
}

#[test]
fn a_missing_onnx_file() {
    Bench::new()
        .run(&["--modelsource", "onnx", "--modelname", "nowhere.onnx"])
        .failed(FAILED, &["nowhere.onnx"]);
}

#[test]
fn a_corrupt_onnx_file() {
    let bench = Bench::new();
    let whole = relu(&[2, 8]);
    bench.file("torn.onnx", &whole[..whole.len() / 2]);
    bench.file("empty.onnx", "");
    bench.file("text.onnx", "this is no model\n");
    for name in ["torn.onnx", "empty.onnx", "text.onnx"] {
        bench
            .run(&["--modelsource", "onnx", "--modelname", name])
            .failed(FAILED, &[name]);
    }
}

#[test]
fn an_unsupported_operator_is_named_with_its_node() {
    let bench = Bench::new();
    let node = Node {
        op: "NoSuchOperator",
        name: "the_odd_one",
        inputs: &["x"],
        output: "y",
        ..Node::default()
    };
    bench.file("odd.onnx", model(&[X], &[node], Y));
    bench
        .run(&["--modelsource", "onnx", "--modelname", "odd.onnx"])
        .failed(FAILED, &["NoSuchOperator", "the_odd_one"]);
}

#[test]
fn devices_are_no_models() {
    let bench = Bench::new();
    bench
        .run(&["--modelsource", "onnx", "--modelname", "/dev/zero"])
        .failed(FAILED, &["/dev/zero", "not a regular file"]);
}

#[test]
fn a_python_that_is_not_there_is_refused_before_anything_is_imported() {
    let bench = Bench::new();
    let python = ["--modelname", "mlp", "--python", "no/such/python"];
    for command in [&["--dry-run"][..], &["plan"]] {
        let arguments: Vec<&str> = command.iter().chain(&python).copied().collect();
        bench
            .run(&arguments)
            .failed(FAILED, &["no/such/python", "--python"]);
    }
}

#[test]
fn targets_that_are_not_built_in() {
    let bench = Bench::new();
    for target in ["opencl", "vulkan"] {
        bench
            .run(&["--modelname", "mlp", "--target", target])
            .failed(USAGE, &[target, "llvm"]);
    }
    bench
        .run(&["--modelname", "mlp", "--target", "lvm"])
        .failed(USAGE, &["lvm", "llvm"]);
}

#[test]
fn shapes_that_do_not_fit() {
    let bench = Bench::new();
    let wrong = [
        ("data:1x3x0x224", "zero"),
        ("data:1x3", "data"),
        ("picture:1x3x224x224", "picture"),
        ("data", "data"),
        ("data:1x3x224x224:float99", "float99"),
    ];
    for (input, part) in wrong {
        bench
            .run(&["--modelname", "resnet-18", "--input", input])
            .failed(USAGE, &[part]);
    }
}

#[test]
fn numbers_that_make_no_sense() {
    let bench = Bench::new();
    let wrong = [
        ("--threads", "0"),
        ("--threads", "two"),
        ("--threads", "-1"),
        ("--batchsize", "0"),
        ("--seqlen", "0"),
        ("--ci", "0"),
        ("--budget", "soon"),
        ("--memory-limit", "many"),
        ("--cache", "warm"),
        ("--executor", "graph"),
        ("--max-failed", "2"),
    ];
    for (flag, value) in wrong {
        bench
            .run(&["--modelname", "mlp", flag, value])
            .failed(USAGE, &[flag.trim_start_matches('-'), value]);
    }
}

#[test]
fn unknown_flags_and_settings_name_the_nearest() {
    let bench = Bench::new();
    bench
        .run(&["--modelnmae", "mlp"])
        .failed(USAGE, &["--modelnmae", "--modelname"]);
    bench.file("my.toml", "thread = [1]\n");
    bench
        .run(&["--modelname", "mlp", "--config", "my.toml"])
        .failed(USAGE, &["my.toml", "thread", "threads"]);
    bench.file("bad.toml", "threads = [1\n");
    bench
        .run(&["--modelname", "mlp", "--config", "bad.toml"])
        .failed(USAGE, &["bad.toml"]);
}

#[test]
fn results_are_never_written_over() {
    let bench = Bench::new();
    let args = ["--modelname", "mlp", "--threads", "1", "--out", "run"];
    bench.measure(&args).done();
    let before = std::fs::read(bench.path().join("run/rows.csv")).unwrap();
    bench.measure(&args).failed(USAGE, &["run", "not empty"]);
    let after = std::fs::read(bench.path().join("run/rows.csv")).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_python_that_is_not_there() {
    let bench = Bench::new();
    bench.file("relu.onnx", relu(&[2, 8]));
    // A model of this test alone, which no cache has.
    let bench_shape = format!("x:{}x8", std::process::id());
    bench
        .run(&[
            "--modelsource",
            "onnx",
            "--modelname",
            "relu.onnx",
            "--input",
            &bench_shape,
            "--python",
            "/no/such/python",
        ])
        .failed(FAILED, &["/no/such/python"]);
}

#[test]
fn a_results_folder_that_cannot_be_made() {
    let bench = Bench::new();
    bench.file("taken", "a file");
    bench
        .measure(&["--modelname", "mlp", "--out", "taken/run"])
        .failed(FAILED, &["taken"]);
}

#[test]
fn files_that_never_end() {
    let bench = Bench::new();
    let pipe = bench.path().join("pipe.toml");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    bench.file(
        "zero.toml",
        "space = 'traces'\noperators = ['x']\ntraces = '/dev/zero'\n",
    );
    for file in ["pipe.toml", "/dev/zero"] {
        bench
            .run(&["--print-config", "--config", file])
            .failed(USAGE, &[file, "configuration"]);
        bench
            .run(&["nightly", "--dry-run", "--config", file])
            .failed(USAGE, &[file, "configuration"]);
    }
    for sweep in ["pipe.toml", "zero.toml"] {
        bench
            .run(&["--modelname", "mlp", "--dry-run", "--sweep", sweep])
            .failed(USAGE, &[sweep]);
    }
    // What a shell hands over as `<(…)` or as no file at all is read.
    bench
        .run(&["--print-config", "--config", "/dev/null"])
        .done();
    // A run whose files are pipes or devices.
    std::fs::create_dir(bench.path().join("run")).unwrap();
    std::fs::rename(&pipe, bench.path().join("run/run.json")).unwrap();
    bench
        .run(&["--resume", "run"])
        .failed(FAILED, &["run.json"]);
    std::fs::create_dir(bench.path().join("rows")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", bench.path().join("rows/rows.csv")).unwrap();
    bench
        .run(&["compare", "rows", "rows"])
        .failed(FAILED, &["rows.csv", "not a regular file"]);
}

#[test]
fn a_very_long_name_is_refused_at_once() {
    let name = "resnet-18".repeat(10_000);
    Bench::new()
        .run(&["--modelname", &name, "--dry-run"])
        .failed(USAGE, &["unknown model"]);
}

#[test]
fn no_place_for_temporary_files() {
    let bench = Bench::new();
    let mut command = bench.command(["--modelname", "mlp", "--dry-run"]);
    command.env("TMPDIR", "/no/such/folder");
    Outcome::of(command).failed(FAILED, &["/no/such/folder", "TMPDIR"]);
}

/// Runs the main job with its results on such a disk; gives its outcome and a copy of what was on the disk.
fn on_disk(bench: &Bench, disk: Disk) -> Option<Outcome> {
    let mount = bench.path().join("disk");
    let keep = bench.path().join("kept");
    std::fs::create_dir(&mount).unwrap();
    std::fs::create_dir(&keep).unwrap();
    let command = bench.command([
        "--modelname",
        "resnet-18",
        "--threads",
        "1",
        "--budget",
        "20ms",
        "--whole-model",
        "skip",
        "--out",
        "disk/run",
    ]);
    let command = disk.around(&command, &mount, &keep)?;
    Some(Outcome::of(command))
}

#[test]
fn a_disk_that_fills_up_loses_no_row_that_was_printed() {
    let bench = Bench::new();
    let Some(outcome) = on_disk(&bench, Disk::Small(40)) else {
        skip("a full disk", "this machine allows no mount namespaces");
        return;
    };
    outcome.failed(FAILED, &["no space left", "disk/run"]);
    let printed = printed_points(&outcome.stderr);
    let kept = rows_of(&bench.path().join("kept/run"));
    assert!(kept >= printed, "{kept} rows for {printed} lines");
}

#[test]
fn the_program_of_tpu_is_not_built() {
    let bench = Bench::new();
    let alone = bench.path().join("opcollect");
    std::fs::copy(opcollect(), &alone).expect("a copy of the program");
    let mut command = Command::new(alone);
    command.args(["tpu", "read", "dump"]);
    Outcome::of(command).failed(
        FAILED,
        &["opcollect-tpu", "scripts/setup --program=opcollect-tpu"],
    );
}

#[test]
fn a_disk_that_cannot_be_written() {
    let bench = Bench::new();
    let Some(outcome) = on_disk(&bench, Disk::ReadOnly) else {
        skip(
            "a read-only disk",
            "this machine allows no mount namespaces",
        );
        return;
    };
    outcome.failed(FAILED, &["disk/run"]);
    assert_eq!(
        printed_points(&outcome.stderr),
        0,
        "it was known before measuring"
    );
}

/// Points that the talk calls measured.
fn printed_points(stderr: &str) -> usize {
    stderr
        .lines()
        .filter(|line| line.starts_with("measure ") && line.contains('±'))
        .count()
}

fn rows_of(folder: &Path) -> usize {
    read_rows(&folder.join("rows.csv")).map_or(0, |rows| rows.len())
}
