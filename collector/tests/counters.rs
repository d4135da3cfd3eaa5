//! Counters of whole runs: rows, refusals, and callgrind against valgrind run by hand. Tests of
//! tools that are not installed are skipped, and listed as such.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use opdata::{Row, read_rows};

const PROGRAM: &str = env!("CARGO_BIN_EXE_opcollect");

/// The small product that all runs measure.
const MODEL: [&str; 4] = [
    "--modelsource",
    "simple",
    "--modelname",
    "dense:m=64,n=64,k=64",
];

/// Measured on one thread, and quickly.
const QUICK: [&str; 6] = [
    "--threads",
    "1",
    "--whole-model",
    "skip",
    "--budget",
    "20ms",
];

fn opcollect(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command.args(arguments).output().unwrap()
}

/// The row of a run with these counters on one thread.
fn measured(folder: &Path, counters: &str, more: &[&str]) -> Row {
    measured_model(&MODEL, folder, counters, more)
}

fn measured_model(model: &[&str], folder: &Path, counters: &str, more: &[&str]) -> Row {
    let out = folder.join("run");
    let out = out.to_str().unwrap();
    let own = ["--out", out, "--counters", counters];
    let arguments = [model, &QUICK, &own, more].concat();
    let output = opcollect(&arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut rows = read_rows(Path::new(out)).unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        optestkit::skip(program, "it is not installed");
    }
    found
}

#[test]
fn software_events_are_in_every_row_unless_counters_are_switched_off() {
    if !counts("perf:task-clock") {
        return;
    }
    // One thread, busy for the whole call. The calls take 0.1 ms in all, and the task clock of a virtual machine runs on
    // while its host runs another: so one of some runs has to agree.
    let mut found = Vec::new();
    let row = loop {
        let folder = tempfile::tempdir().unwrap();
        let row = measured(folder.path(), "auto", &[]);
        let task_clock = row.task_clock_ns.expect("the task clock counts here");
        found.push(task_clock / row.time_median_ns.unwrap());
        if (0.5..3.0).contains(found.last().unwrap()) {
            break row;
        }
        assert!(found.len() < 5, "task clock over time: {found:?}");
    };
    assert!(row.counter_sources.as_ref().unwrap().starts_with("perf"));
    let units = row.counter_units.as_ref().unwrap().as_str();
    assert!(units.contains(r#""perf:task-clock":"ns""#), "{units}");
    assert!(row.counter_overhead_ratio.is_some());

    let folder = tempfile::tempdir().unwrap();
    let row = measured(folder.path(), "none", &[]);
    assert_eq!((row.counters, row.task_clock_ns), (None, None));
}

/// Whether a counter counts here: containers may refuse `perf_event_open`.
fn counts(counter: &str) -> bool {
    let output = opcollect(&[&MODEL[..], &["--counters", counter, "--dry-run"]].concat());
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("cannot be counted"), "{why}");
        optestkit::skip(counter, why.trim_end());
    }
    output.status.success()
}

/// Every row of a sweep has counts. A replay counts the requested events, and shows them beside those of the row.
#[test]
fn sweeps_and_replays_count_too() {
    if !counts("perf:task-clock") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sweep = folder.path().join("s.toml");
    let text = "space = 'template'\ndraw = 'sobol'\nschedules = 2\n[vary]\ntile = 'all'\n";
    std::fs::write(&sweep, text).unwrap();
    let out = folder.path().join("run");
    let (sweep, out) = (sweep.to_str().unwrap(), out.to_str().unwrap());
    let clock = ["--counters", "perf:task-clock"];
    let files = ["--sweep", sweep, "--out", out];
    let output = opcollect(&[&MODEL[..], &clock, &QUICK, &files].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows = read_rows(Path::new(out)).unwrap();
    assert!(rows.len() >= 2, "{}", rows.len());
    assert!(
        rows.iter().all(|row| row.task_clock_ns > Some(0.0)),
        "{said}"
    );

    let counters = ["--counters", "perf:task-clock,perf:page-faults"];
    let replay = ["replay", &rows[0].row_id, "--run", out, "--json"];
    // Whether the time is the recorded one is the machine's affair.
    let output = opcollect(&[&replay[..], &counters].concat());
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = object["counters"].as_array().unwrap();
    let names: Vec<_> = counts.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["perf:task-clock", "perf:page-faults"], "{object}");
    let clock = &counts[0];
    assert!(clock["recorded"].as_f64() > Some(0.0), "{object}");
    assert!(clock["now"].as_f64() > Some(0.0), "{object}");
}

/// The same run under valgrind with another way of counting: the simulator is on from the start, and only the
/// kernel's function collects.
fn by_hand(kept: &Path) -> u64 {
    let file = |name: &str| -> PathBuf { kept.join(name) };
    let out = file("by-hand.out");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=__tvm_ffi_main"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args([PROGRAM, "worker", "simulate"])
        .env("TVM_NUM_THREADS", "1")
        .stdin(std::fs::File::open(file("run.json")).unwrap())
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let text = std::fs::read_to_string(out).unwrap();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals:"));
    totals
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn callgrind_counts_what_valgrind_by_hand_counts() {
    if !cfg!(target_arch = "x86_64") || !is_installed("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("kept");
    let model = [&MODEL[..3], &["dense:m=128,n=128,k=128"]].concat();
    let keeping = ["--keep-kernels", keep.to_str().unwrap()];
    let row = measured_model(&model, folder.path(), "callgrind", &keeping);
    let instructions = row
        .simulated_instructions
        .expect("instructions were simulated");
    assert_eq!(row.counter_sources.as_deref(), Some("callgrind"));
    assert!(row.simulated_cpu.as_ref().unwrap().starts_with("x86-64-v"));
    // 128³ multiply-adds, eight to an instruction with AVX2.
    assert!(
        (262_144.0..4_000_000.0).contains(&instructions),
        "{instructions}"
    );
    assert!(row.simulated_l1d_misses.unwrap() > 0.0);
    let kept: Vec<PathBuf> = std::fs::read_dir(&keep)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    // Not equal: the kernel calls the C library, whose few hundred instructions depend on the environment and on what the
    // process allocated before.
    let by_hand = by_hand(&kept[0]) as f64;
    assert!(
        (instructions / by_hand - 1.0).abs() < 5e-3,
        "{instructions} against {by_hand} by hand"
    );
}

#[test]
fn what_cannot_be_counted_is_refused_before_anything_is_measured() {
    for (counters, words) in [
        ("perf:page-fault", "did you mean page-faults?"),
        ("perv", "there is no source of counters `perv`"),
        ("auto,perf", "cannot be combined"),
        ("callgrind:cycles", "callgrind has no counter `cycles`"),
        ("papi:PAPI_NO_SUCH", "papi"),
    ] {
        let output = opcollect(&[&MODEL[..], &["--counters", counters, "--dry-run"]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{counters}: {text}");
        assert!(text.contains(words), "{counters}: {text}");
    }
}

#[test]
fn without_valgrind_the_message_says_how_to_get_it() {
    let arguments = [&MODEL[..], &["--counters", "callgrind", "--dry-run"]].concat();
    let nothing = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("PATH", nothing.path())
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("apt-get install valgrind"), "{text}");
}

#[test]
fn a_libpapi_that_is_none_is_named_with_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libpapi.so");
    std::fs::write(&file, "no library").unwrap();
    let output = Command::new(PROGRAM)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("OPBENCH_LIBPAPI", &file)
        .args(["list", "counters", "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(
        text.contains("OPBENCH_LIBPAPI") && text.contains("cannot be opened"),
        "{text}"
    );
}

/// Instructions of a loop of known length, through `perf_event_open` and PAPI on an emulated PMU. The script downloads the
/// guest's system at its first call, which a test does not.
#[test]
fn an_emulated_pmu_counts_instructions_exactly() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let is_here = root.join(".cache/pmu-guest/system/complete").exists();
    if !is_here || !is_installed("qemu-system-aarch64") || !is_installed("aarch64-linux-gnu-gcc") {
        optestkit::skip(
            "counting on an emulated PMU",
            "scripts/pmu-guest was not run here, or its programs are not installed",
        );
        return;
    }
    let output = Command::new(root.join("scripts/pmu-guest"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for source in ["perf", "papi"] {
        let line = text
            .lines()
            .find(|l| l.starts_with(&format!("{source} instructions")));
        let counted: f64 = line
            .unwrap()
            .split_whitespace()
            .nth(2)
            .unwrap()
            .parse()
            .unwrap();
        assert!((counted / 6e6 - 1.0).abs() < 1e-3, "{line:?}");
    }
}
