//! `--target cuda --compile-only` from the command line to the rows, on a machine without a GPU: what is compiled,
//! swept and kept, and the messages where it cannot be. Also measuring on a stand-in for a GPU, whose kernels fail as a
//! script says. Left out where NVRTC is not installed (`scripts/setup --with cuda`).

use std::process::Command;

use e2e::installed::nvrtc;
use e2e::{Bench, Node, Outcome, StandInGpu, Tensor, model, relu};
use opdata::{Status, read_rows};

fn has_compiler() -> bool {
    nvrtc("compiling for CUDA").is_some()
}

#[test]
fn a_model_is_compiled_for_two_architectures_and_its_kernels_are_kept() {
    if !has_compiler() {
        return;
    }
    let bench = Bench::new();
    let args = ["--modelname", "mlp", "--target", "cuda", "--compile-only"];
    let more = [
        "--arch",
        "sm_80,sm_90",
        "--keep-kernels",
        "kernels",
        "--out",
        "run",
    ];
    let outcome = bench.run(&[&args[..], &more].concat());
    let text = outcome.done();
    let lines_with = |arch: &str| text.lines().filter(|l| l.contains(arch)).count();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    // A line for each operator and architecture, and one that names both.
    assert_eq!(lines_with(" sm_80 "), rows.len() / 2, "{text}");
    assert_eq!(lines_with(" sm_90 "), rows.len() / 2, "{text}");
    let operators = format!("{} operators, {} points", rows.len() / 2, rows.len());
    assert!(text.contains(&operators), "{text}");
    assert!(
        rows.len() >= 4 && rows.len().is_multiple_of(2),
        "{}",
        rows.len()
    );
    for row in &rows {
        assert_eq!((row.status, row.time_median_ns), (Status::Compiled, None));
        assert!(row.registers_per_thread.is_some() && row.occupancy_limiter.is_some());
        let arch = row.target_cpu.as_deref().unwrap();
        let name = format!(
            "{}-{}-{arch}",
            row.op_symbol.as_deref().unwrap(),
            row.program_hash.as_deref().unwrap()
        );
        for extension in ["cu", "cubin"] {
            let kept = bench.path().join(format!("kernels/{name}.{extension}"));
            assert!(
                kept.metadata().is_ok_and(|m| m.len() > 0),
                "{}",
                kept.display()
            );
        }
    }
}

#[test]
fn a_sweep_of_the_templates_keeps_a_row_of_each_schedule() {
    if !has_compiler() {
        return;
    }
    let bench = Bench::new();
    bench.file(
        "small.toml",
        "space = 'template'\ndraw = 'sobol'\nschedules = 6\n[vary]\nblock-tile = 'all'\nunroll = 'all'\n",
    );
    let model = [
        "--modelsource",
        "simple",
        "--modelname",
        "matmul:m=64,n=64,k=64",
    ];
    let args = [
        "--target",
        "cuda",
        "--compile-only",
        "--sweep",
        "small.toml",
        "--out",
        "run",
    ];
    bench.run(&[&model[..], &args].concat()).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let compiled = rows.iter().filter(|row| row.status == Status::Compiled);
    let mut programs: Vec<_> = compiled
        .filter_map(|row| row.program_hash.clone())
        .collect();
    programs.sort_unstable();
    programs.dedup();
    assert!(programs.len() >= 4, "{rows:?}");
}

#[test]
fn the_error_for_an_unknown_architecture_lists_the_known_ones() {
    let bench = Bench::new();
    let args = ["--modelname", "mlp", "--target", "cuda -arch=sm_81"];
    let outcome = bench.run(&[&args[..], &["--compile-only"]].concat());
    outcome.failed(2, &["sm_81", "did you mean sm_80", "sm_121"]);
}

#[test]
fn a_remainder_of_halves_is_compiled() {
    if !has_compiler() {
        return;
    }
    let tensor = |name| Tensor {
        name,
        shape: &[33, 65],
    };
    // Element types 1 and 10 are float32 and float16.
    let cast = |input: &'static [&'static str], output, to: &'static [(&'static str, u64)]| Node {
        op: "Cast",
        name: output,
        inputs: input,
        output,
        attributes: to,
    };
    let remainder = Node {
        op: "Mod",
        name: "remainder",
        inputs: &["a", "b"],
        output: "c",
        attributes: &[("fmod", 1)],
    };
    let nodes = [
        cast(&["x"], "a", &[("to", 10)]),
        cast(&["z"], "b", &[("to", 10)]),
        remainder,
        cast(&["c"], "y", &[("to", 1)]),
    ];
    let bench = Bench::new();
    let file = model(&[tensor("x"), tensor("z")], &nodes, tensor("y"));
    bench.file("mod.onnx", file);
    let args = ["--modelsource", "onnx", "--modelname", "mod.onnx"];
    let job = ["--target", "cuda", "--compile-only", "--out", "run"];
    bench.run(&[&args[..], &job].concat()).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(rows.iter().all(|row| row.status == Status::Compiled));
}

/// The main job on a model of one rectifier, with a row for each size of its blocks.
fn sweep_of_block_sizes(gpu: &StandInGpu, bench: &Bench, settings: &[(&str, &str)]) -> Outcome {
    let command = command_of_sweep(bench, &[]);
    Outcome::of(gpu.around(command, settings))
}

/// The command of that job, with more arguments.
fn command_of_sweep(bench: &Bench, more: &[&str]) -> Command {
    bench.file("relu.onnx", relu(&[64, 1024]));
    bench.file(
        "sizes.toml",
        "space = 'template'\ndraw = 'grid'\nschedules = 8\n[vary]\nblock-size = [32, 64, 128, 256, 512]\n",
    );
    let model = ["--modelsource", "onnx", "--modelname", "relu.onnx"];
    let job = ["--target", "cuda", "--sweep", "sizes.toml", "--out", "run"];
    let limits = ["--budget", "5ms", "--timeout", "8s", "--max-failed", "1"];
    bench.command([&model[..], &job, &limits, more].concat())
}

/// What became of the point with blocks of this many threads.
fn point(rows: &[opdata::Row], threads: u64) -> (Status, &str) {
    let of_size = |row: &&opdata::Row| row.threads_per_block == Some(threads);
    // A kernel that was not built twice is described once; each size is one point.
    let found: Vec<_> = rows.iter().filter(of_size).collect();
    assert_eq!(found.len(), 1, "{threads} threads");
    (found[0].status, found[0].reason.as_deref().unwrap_or(""))
}

#[test]
fn a_fault_of_the_gpu_costs_its_point_and_the_run_goes_on() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let faults = ("FAULTS", "64=sticky,128=memory,512=hang");
    sweep_of_block_sizes(&gpu, &bench, &[faults]).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let (status, reason) = point(&rows, 64);
    assert_eq!(status, Status::Crashed);
    assert!(
        reason.contains("error 700 (an illegal memory access)"),
        "{reason}"
    );
    let (status, reason) = point(&rows, 128);
    assert_eq!(status, Status::Crashed);
    assert!(reason.contains("out of memory"), "{reason}");
    assert_eq!(point(&rows, 512).0, Status::TimedOut);
    for threads in [32, 256] {
        assert_eq!(point(&rows, threads), (Status::Measured, ""));
    }
    // Each of the stand-in's events lies a quarter of a millisecond after the one before.
    let times = rows.iter().filter_map(|row| row.time_median_ns);
    assert!(times.clone().count() == 2 && times.clone().all(|ns| ns == 250_000.0));
}

#[test]
fn rows_have_the_state_of_the_gpu_and_the_energy_that_was_asked_for() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let command = command_of_sweep(&bench, &["--counters", "nvml"]);
    Outcome::of(gpu.around(command, &[])).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(!rows.is_empty());
    for row in &rows {
        assert_eq!(row.device_clock_mhz, Some(1410));
        assert_eq!(row.device_temperature_c, Some(41));
        assert_eq!(row.device_held_back_by.as_deref(), Some("none"));
        assert!(row.device_late_samples.is_some());
        // Half a second of calls of a quarter of a millisecond each take the joule that the stand-in's meter rises by.
        assert_eq!(row.energy_uj, Some(1e6 / 2000.0));
        assert_eq!(row.counter_sources.as_deref(), Some("nvml"));
    }
}

#[test]
fn the_state_and_energy_of_a_board_are_not_called_those_of_its_slice() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let slices = [("SLICES", "1")];
    let refused = gpu.around(command_of_sweep(&bench, &["--counters", "nvml"]), &slices);
    Outcome::of(refused).failed(2, &["slice of a board"]);
    Outcome::of(gpu.around(command_of_sweep(&bench, &[]), &slices)).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(rows.iter().all(|row| row.device_clock_mhz.is_none()));
}

#[test]
fn counters_of_the_processor_count_no_kernels_of_a_gpu() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let command = command_of_sweep(&bench, &["--counters", "perf"]);
    let says = ["threads of this machine", "for this target there are nvml"];
    Outcome::of(gpu.around(command, &[])).failed(2, &says);
    let job = [
        "--modelname",
        "mlp",
        "--target",
        "llvm",
        "--counters",
        "nvml",
    ];
    bench.run(&job).failed(2, &["work of a GPU", "perf, papi"]);
}

#[test]
fn two_gpus_share_the_points_and_one_that_fails_costs_its_own() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let settings = [("GPUS", "2"), ("FAULTS", "128=sticky")];
    sweep_of_block_sizes(&gpu, &bench, &settings).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert_eq!(point(&rows, 128).0, Status::Crashed);
    for threads in [32, 64, 256, 512] {
        assert_eq!(point(&rows, threads), (Status::Measured, ""));
    }
}

#[test]
fn the_error_for_an_old_driver_names_what_is_needed_and_doctor_knows_it() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let old = [("DRIVER_CUDA", "12040")];
    let job = bench.command(["--modelname", "mlp", "--target", "cuda"]);
    let needs = ["CUDA 12.4", "580 or later", "--compile-only"];
    Outcome::of(gpu.around(job, &old)).failed(1, &needs);
    let outcome = Outcome::of(gpu.around(bench.command(["doctor"]), &old));
    assert!(outcome.stdout.contains("CUDA 12.4"), "{}", outcome.stdout);
}

#[test]
fn a_gpu_of_a_generation_that_nothing_is_compiled_for_is_named() {
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    let job = bench.command(["--modelname", "mlp", "--target", "cuda"]);
    let says = ["Stand-in GPU is sm_70", "sm_75", "--compile-only"];
    Outcome::of(gpu.around(job, &[("CAPABILITY", "70")])).failed(1, &says);
}
