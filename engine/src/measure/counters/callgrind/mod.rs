//! `callgrind`: instructions, cache misses and branches of one run of a kernel in valgrind's simulator, for machines
//! without counters.
//!
//! The scheduled kernel is compiled once more, for a processor that valgrind knows, and linked into a shared library. A
//! child process under valgrind loads it with TVM's runtime alone, fills the same seeded arguments and calls it once on
//! one thread. The simulator is switched on right before the call, with empty caches. It collects from the first to the
//! last instruction of the kernel's function and its callees. References are left out: valgrind counts a wide load
//! several times.

mod child;
mod output;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tvm_bridge::Target;
use tvm_bridge::compile::{Asserts, Lowered};

use super::tools::find_program;
use super::{Counter, CounterError, Program, Simulated, Simulator};

use child::Run;
pub use child::serve as serve_kernel;
use output::Totals;

/// The kind.
#[derive(Clone, Copy)]
pub(super) struct Callgrind;

const NAME: &str = "callgrind";
/// The word after `worker` that makes this program the child under valgrind.
pub const CHILD: &str = "simulate";
/// Symbol of the kernel in its library.
const KERNEL: &str = "__tvm_ffi_main";
/// A simulated kernel takes about this many times as long.
const SLOWDOWN: u32 = 500;
/// Longest simulation of a kernel.
const LIMIT: Duration = Duration::from_secs(25);

/// A counter, its unit, and the events of callgrind whose sum it is.
type Event = (&'static str, &'static str, &'static [&'static str]);

const EVENTS: [Event; 6] = [
    ("instructions", "instructions", &["Ir"]),
    ("l1i-misses", "events", &["I1mr"]),
    ("l1d-misses", "events", &["D1mr", "D1mw"]),
    ("llc-misses", "events", &["ILmr", "DLmr", "DLmw"]),
    ("branches", "events", &["Bc", "Bi"]),
    ("branch-misses", "events", &["Bcm", "Bim"]),
];

/// The processor that kernels are compiled for: valgrind supports AVX2, but not AVX-512.
fn processor() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let wide = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        Some(if wide { "x86-64-v3" } else { "x86-64-v2" })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn problem(reason: impl Into<String>, next: &str) -> CounterError {
    CounterError::new(NAME, reason, next)
}

/// valgrind and the other programs needed.
fn tools() -> Result<(PathBuf, &'static str), CounterError> {
    let cpu = processor().ok_or_else(|| {
        problem(
            format!("kernels for {} are not simulated", std::env::consts::ARCH),
            "use an x86-64 machine",
        )
    })?;
    let valgrind = find_program(&["valgrind"]).ok_or_else(|| {
        problem(
            "valgrind is not installed",
            "Debian, Ubuntu: apt-get install valgrind",
        )
    })?;
    match find_program(&["cc"]) {
        Some(_) => Ok((valgrind, cpu)),
        None => Err(problem(
            "there is no C compiler (cc), which links kernels",
            "Debian, Ubuntu: apt-get install gcc libc6-dev",
        )),
    }
}

impl Simulator for Callgrind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "one run in valgrind's simulator"
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |(name, unit, _): &Event| Counter::new(*name, *unit);
        EVENTS.iter().map(counter).collect()
    }

    fn available(&self) -> Result<String, CounterError> {
        let (path, cpu) = tools()?;
        Ok(format!(
            "{}; kernels are compiled for {cpu}",
            path.display()
        ))
    }

    fn count(&self, program: &Program<'_>) -> Result<Simulated, CounterError> {
        let (valgrind, cpu) = tools()?;
        let expected = program.one_thread * SLOWDOWN;
        if expected > LIMIT {
            return Err(problem(
                format!(
                    "the simulation would take about {} s, more than {} s",
                    expected.as_secs(),
                    LIMIT.as_secs()
                ),
                "simulate a smaller operator",
            ));
        }
        let scratch = tempfile::tempdir().map_err(|error| {
            problem(
                format!("no temporary folder: {error}"),
                "set TMPDIR to a folder that can be written",
            )
        })?;
        let folder = match program.keep {
            Some(keep) => keep.join(format!("{NAME}-{}", program.name)),
            None => scratch.path().to_owned(),
        };
        let library = build(program, cpu, &folder)?;
        let run = Run {
            library,
            arguments: program.arguments.to_vec(),
            seed: program.seed,
        };
        let totals = simulate(&valgrind, &run, &folder)?;
        let value = |(.., parts): &Event| {
            let sum = totals.sum(parts);
            sum.map_err(|missing| format!("valgrind gave no {missing}"))
        };
        Ok(Simulated {
            values: EVENTS.iter().map(value).collect(),
            cpu: Some(cpu),
        })
    }
}

/// The shared library of a kernel, compiled for `cpu`.
fn build(program: &Program<'_>, cpu: &str, folder: &Path) -> Result<PathBuf, CounterError> {
    let failed = |what: &str, reason: String| {
        problem(
            format!("{what}: {reason}"),
            "count without callgrind, and report this operator",
        )
    };
    let compiled = |error: tvm_bridge::Error| failed("it cannot be compiled", error.to_string());
    std::fs::create_dir_all(folder)
        .map_err(|error| failed("its folder cannot be made", error.to_string()))?;
    let object = folder.join("kernel.o");
    let library = folder.join("kernel.so");
    let dictionary = json!({ "kind": "llvm", "mcpu": cpu, "num-cores": 1 });
    let target = Target::new(&dictionary).map_err(compiled)?;
    Lowered::new(program.module, &target, Asserts::Dropped)
        .and_then(Lowered::generate)
        .and_then(|generated| generated.write_object(&object))
        .map_err(compiled)?;
    let linked = Command::new("cc")
        .arg("-shared")
        .arg("-o")
        .args([&library, &object])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed("cc cannot be run", error.to_string()))?;
    match linked.status.success() {
        true => Ok(library),
        false => {
            let text = String::from_utf8_lossy(&linked.stderr);
            let line = text.lines().next().unwrap_or("cc gives no reason");
            Err(failed("it cannot be linked", line.to_owned()))
        }
    }
}

/// Runs this program as a child under valgrind, and reads what it counted.
fn simulate(valgrind: &Path, run: &Run, folder: &Path) -> Result<Totals, CounterError> {
    let failed = |reason: String| {
        problem(
            format!("the run under valgrind fails: {reason}"),
            "try `valgrind --tool=callgrind true`; valgrind 3.19 or later is needed",
        )
    };
    let io = |error: std::io::Error| failed(error.to_string());
    let request = folder.join("run.json");
    let out = folder.join("callgrind.out");
    let log = folder.join("valgrind.log");
    let text = serde_json::to_string(run).map_err(|error| failed(error.to_string()))?;
    std::fs::write(&request, text).map_err(io)?;
    let program = std::env::current_exe().map_err(io)?;
    let mut child = Command::new(valgrind)
        .args([
            "--tool=callgrind",
            "--instr-atstart=no",
            "--cache-sim=yes",
            "--branch-sim=yes",
        ])
        .arg(format!("--toggle-collect={KERNEL}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(format!("--log-file={}", log.display()))
        .arg(program)
        .args(["worker", CHILD])
        .env("TVM_NUM_THREADS", "1")
        .stdin(std::fs::File::open(&request).map_err(io)?)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("child.log")).map_err(io)?)
        .spawn()
        .map_err(io)?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(io)? {
            Some(status) => break status,
            None if begin.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it took more than {} s", LIMIT.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        let words = std::fs::read_to_string(folder.join("child.log")).unwrap_or_default();
        let last = words.lines().last().unwrap_or_default();
        return Err(failed(format!("{status} {last}")));
    }
    let text = std::fs::read_to_string(&out).map_err(io)?;
    Totals::parse(&text).map_err(failed)
}

#[cfg(test)]
mod tests;
