//! oppredict on made-up logs, for the tests of its commands.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Bench, Outcome};

/// Runs oppredict to its end.
pub fn oppredict(bench: &Bench, args: &[&str]) -> Outcome {
    Outcome::of(command(bench, args))
}

/// oppredict beside opcollect, in the bench's folder.
pub fn command(bench: &Bench, args: &[&str]) -> Command {
    let opcollect = bench.command::<&str>([]);
    let mut command = Command::new(Path::new(opcollect.get_program()).with_file_name("oppredict"));
    command
        .args(args)
        .current_dir(bench.path())
        .env_remove("OPPREDICT_MODEL")
        .env("COLUMNS", "10000")
        .env_remove("RUST_BACKTRACE");
    command
}

/// What a program printed as JSON.
///
/// # Panics
/// It is no JSON.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A log of tiled convolutions: 14 shapes with 10 schedules each, whose times follow the tile and the work.
pub fn log(target: &str) -> String {
    log_of_machine(target, 1.0)
}

/// The same on a machine that takes `slower` times as long.
pub fn log_of_machine(target: &str, slower: f64) -> String {
    log_with_registers(target, slower, 64.0, 0.5)
}

/// The same on a machine where tiles of more than `registers` elements take longer, by the share `spill`.
pub fn log_with_registers(target: &str, slower: f64, registers: f64, spill: f64) -> String {
    let mut text = String::new();
    for shape in 0..14u64 {
        let channels = 32 << (shape % 4);
        let size = 7 + shape;
        for schedule in 0..10u64 {
            let (block, width) = (4 << (schedule % 4), 1 + schedule % 7);
            let work = (channels * channels * size * size * 9) as f64;
            let tile = (block * width) as f64;
            let cost = slower
                * work
                * 1e-11
                * (1.0 + 40.0 / tile + if tile > registers { spill } else { 0.0 });
            text.push_str(&format!(
                "{{\"input\": [\"{target}\", \"conv2d_NCHWc.x86\", [[\"TENSOR\", [1, {channels}, {size}, {size}], \"float32\"], \
                 [\"TENSOR\", [{channels}, {channels}, 3, 3], \"float32\"], [1, 1], [1, 1, 1, 1], [1, 1], \"NCHW\", \"NCHW\", \"float32\"], {{}}], \
                 \"config\": {{\"index\": {schedule}, \"entity\": [[\"tile_ic\", \"sp\", [-1, 8]], [\"tile_oc\", \"sp\", [-1, {block}]], \
                 [\"tile_ow\", \"sp\", [-1, {width}]], [\"unroll_kw\", \"ot\", true]]}}, \"result\": [[{cost:e}], 0, 1.0, 1660000000.0], \
                 \"version\": 0.2, \"tvm_version\": \"0.8.0\"}}\n"
            ));
        }
    }
    text
}

/// A bench with a log and the model `cpu.opm` trained on it. Training takes ten seconds, so the first test that needs the
/// model makes it for all; it is made again if the program is newer.
///
/// # Panics
/// Training fails, or a file cannot be written.
pub fn trained() -> Bench {
    let bench = Bench::new();
    bench.file("tune.jsonl", log("llvm"));
    let program = command(&bench, &[]).get_program().to_owned();
    let kept = Path::new(&program).with_file_name("e2e-trained.opm");
    // Held until the model is whole.
    let lock = File::create(kept.with_extension("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    let written = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    if written(&kept) < written(Path::new(&program)) {
        let mut train = command(&bench, &["train", "--import", "autotvm", "tune.jsonl"]);
        train.arg("--out").arg(&kept);
        Outcome::of(train).done();
    }
    std::fs::copy(kept, bench.path().join("cpu.opm")).expect("a copy of the model");
    bench
}

/// Tables of dense layers: on three GPUs that take what their figures say, on one more that is twice as fast; then the four's
/// figures.
#[must_use]
pub fn gpus() -> (String, String, String) {
    let devices = [
        ("Tesla a", 8e3, 300.0),
        ("Tesla b", 1e4, 700.0),
        ("Tesla c", 2e4, 900.0),
        ("Tesla d", 4e4, 1800.0),
    ];
    let (mut known, mut new) = (
        "device,m,n,k,time_ms\n".to_owned(),
        "device,m,n,k,time_ms\n".to_owned(),
    );
    let mut figures = "device,singleflops,mem_bw,num_sm,l2cache\n".to_owned();
    for (place, (name, gflops, gbytes)) in devices.into_iter().enumerate() {
        figures += &format!("{name},{gflops},{gbytes},40,4\n");
        for number in 0..60u32 {
            let (m, n, k) = (
                64 << (number % 5),
                128 << (number / 5 % 4),
                256 << (number / 20),
            );
            let (m, n, k) = (f64::from(m), f64::from(n), f64::from(k));
            let ns = 2.0 * m * n * k / gflops + 4.0 * (m * k + n * k + m * n) / gbytes + 3000.0;
            let line = format!("{name},{m},{n},{k},{}\n", ns / 1e6);
            if place < 3 {
                known += &line
            } else {
                new += &line
            }
        }
    }
    (known, new, figures)
}
