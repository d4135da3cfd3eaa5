//! What `scripts/setup` may have installed, and what the system may allow. Where one is missing, the tests that need it
//! say so and are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Bench, skip};

/// The Python environment.
fn environment() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv")
}

/// Whether `scripts/setup --with torch` has run and built the program that runs libtorch.
pub fn has_libtorch(check: &str) -> bool {
    let there = environment().join("torch/bin/optorch").is_file();
    if !there {
        skip(check, "scripts/setup --with torch has not run");
    }
    there
}

/// Whether Python packages can be imported, as `scripts/setup dev` installs them: their names, separated by commas.
pub fn has_packages(names: &str, check: &str) -> bool {
    let mut python = Command::new(environment().join("bin/python"));
    python.args(["-P", "-c", &format!("import {names}")]);
    let there = python.output().is_ok_and(|output| output.status.success());
    if !there {
        skip(check, "scripts/setup dev has not run");
    }
    there
}

/// Whether counters count here, as `--counters` names them: containers may refuse `perf_event_open`.
///
/// # Panics
/// When the program refuses for another reason.
pub fn counts(counters: &str, check: &str) -> bool {
    let model = ["--modelsource", "simple", "--modelname", "softmax"];
    let asked = ["--counters", counters, "--dry-run"];
    let outcome = Bench::new().run(&[&model[..], &asked].concat());
    if outcome.code == Some(0) {
        return true;
    }
    let why = outcome.stderr.trim_end();
    assert!(why.contains("cannot be counted"), "{why}");
    skip(check, why);
    false
}

/// The folder of NVIDIA's compiler, if it is where `scripts/setup --with cuda` puts it.
pub fn nvrtc(check: &str) -> Option<PathBuf> {
    let toolkit = environment().join("cuda/nvidia/cu13");
    if !toolkit.join("lib/libnvrtc.so.13").is_file() {
        skip(check, "NVRTC is not installed (scripts/setup --with cuda)");
        return None;
    }
    Some(toolkit)
}
