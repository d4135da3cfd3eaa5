//! `--target cuda --compile-only` from the command line to the rows, on a machine without a GPU: what is compiled, swept,
//! kept, and what is said where it cannot be. Left out where NVRTC is not installed (`scripts/setup --with cuda`).

use std::path::Path;

use e2e::{Bench, skip};
use opdata::{Status, read_rows};

/// Whether NVRTC is where `scripts/setup --with cuda` puts it; says so where it is not.
fn has_compiler() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/cuda/nvidia/cu13");
    let there = root.join("lib/libnvrtc.so.13").is_file();
    if !there {
        skip(
            "compiling for CUDA",
            "NVRTC is not installed (scripts/setup --with cuda)",
        );
    }
    there
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
    bench.run(&[&args[..], &more].concat()).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
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
fn an_unknown_architecture_is_told_the_known_ones() {
    let bench = Bench::new();
    let args = ["--modelname", "mlp", "--target", "cuda -arch=sm_81"];
    let outcome = bench.run(&[&args[..], &["--compile-only"]].concat());
    outcome.failed(2, &["sm_81", "did you mean sm_80", "sm_121"]);
}
