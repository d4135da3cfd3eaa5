//! `doctor --calibrate`: measured, kept for the machine, recorded by runs; and every way in which that can go wrong.
//!
//! Each test has an installation of its own, made of links to this one, so that the machine's real calibration is not
//! touched.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use e2e::{Bench, Outcome};
use opdata::RunManifest;
use serde_json::Value;

const INTERRUPTED: i32 = 130;

/// A bench whose installation keeps calibrations of its own.
struct Installation {
    bench: Bench,
    home: tempfile::TempDir,
}

impl Installation {
    fn new() -> Self {
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let home = tempfile::tempdir().unwrap();
        for name in ["models", "scripts", "configs", ".venv"] {
            let link = std::fs::canonicalize(real.join(name)).unwrap();
            symlink(link, home.path().join(name)).unwrap();
        }
        // Imports are shared: they are the same for both.
        let imports = real.join(".cache/imports");
        std::fs::create_dir_all(&imports).unwrap();
        std::fs::create_dir(home.path().join(".cache")).unwrap();
        let imports = std::fs::canonicalize(imports).unwrap();
        symlink(imports, home.path().join(".cache/imports")).unwrap();
        Self {
            bench: Bench::new(),
            home,
        }
    }

    fn run(&self, args: &[&str]) -> Outcome {
        let mut command = self.bench.command(args);
        command.env("OPBENCH_HOME", self.home.path());
        Outcome::of(command)
    }

    /// Calibrates for one thread, as quickly as can be.
    fn calibrate(&self) -> Value {
        let quick = ["--calibrate", "--threads", "1", "--budget", "1ms"];
        let outcome = self.run(&[&["doctor", "--json"], &quick[..]].concat());
        serde_json::from_str(outcome.done()).unwrap()
    }

    /// The one check of `doctor` that is about the calibration.
    fn check(&self) -> Value {
        let outcome = self.run(&["doctor", "--json"]);
        let object: Value = serde_json::from_str(outcome.done()).unwrap();
        assert_eq!(object.get("calibration"), None, "nothing was measured");
        let mut checks = object["checks"].as_array().unwrap().iter();
        checks.find(|c| c["name"] == "calibration").unwrap().clone()
    }

    /// Runs the smallest main job into a folder.
    fn measure(&self, out: &str) -> (Outcome, RunManifest) {
        let mut args = vec!["--modelname", "mlp", "--threads", "1", "--out", out];
        args.extend(["--whole-model", "skip", "--budget", "1ms"]);
        let outcome = self.run(&args);
        outcome.done();
        let manifest = RunManifest::load(&self.bench.path().join(out)).unwrap();
        (outcome, manifest)
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join(".cache/calibrations")
    }
}

#[test]
fn it_is_kept_shown_and_recorded_by_later_runs() {
    let installation = Installation::new();
    let before = installation.check();
    assert_eq!(before["status"], "warn", "{before}");
    assert!(
        before["fix"].as_str().unwrap().contains("--calibrate"),
        "{before}"
    );
    let (_, without) = installation.measure("without");
    assert_eq!(without.environment.get("calibration"), None);

    let object = installation.calibrate();
    let calibration = &object["calibration"];
    let rates = calibration["rates"].as_array().unwrap();
    assert_eq!(rates.len(), 1, "{calibration}");
    assert_eq!(rates[0]["threads"], 1);
    let positive = |rate: &Value| {
        let (best, median) = (
            rate["best"].as_f64().unwrap(),
            rate["median"].as_f64().unwrap(),
        );
        assert!(best >= median && median > 0.0, "{rate}");
    };
    positive(&rates[0]["peak_gflops_per_s"]);
    let read = rates[0]["read_gbytes_per_s"].as_object().unwrap();
    read.values().for_each(positive);
    let file = PathBuf::from(object["calibration_file"].as_str().unwrap());
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(kept, *calibration);
    assert_eq!(file.parent(), Some(installation.folder().as_path()));

    let after = installation.check();
    let since = calibration["measured_at_utc"].as_str().unwrap();
    assert!(
        after["finding"].as_str().unwrap().contains(since),
        "{after}"
    );

    let (_, with) = installation.measure("with");
    assert_eq!(with.environment["calibration"], *calibration);
    assert_eq!(
        with.environment["env_hash"], without.environment["env_hash"],
        "calibrating does not make another machine"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_reported_and_the_run_goes_on() {
    let installation = Installation::new();
    installation.calibrate();
    let file = std::fs::read_dir(installation.folder()).unwrap();
    let file = file.last().unwrap().unwrap().path();
    let whole = std::fs::read_to_string(&file).unwrap();
    for (text, reason) in [
        (whole[..whole.len() / 3].to_owned(), "is damaged"),
        (
            whole.replace("\"env_hash\": \"", "\"env_hash\": \"0"),
            "another machine",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let run = reason.replace(' ', "-");
        let (outcome, manifest) = installation.measure(&run);
        let told = outcome.stderr.lines().find(|l| l.starts_with("warning:"));
        let told = told.unwrap_or_else(|| panic!("{}", outcome.stderr));
        assert!(
            told.contains(reason) && told.contains("--calibrate"),
            "{told}"
        );
        assert_eq!(manifest.environment.get("calibration"), None);
        let check = installation.check();
        assert_eq!(check["status"], "warn", "{check}");
        assert!(
            check["finding"].as_str().unwrap().contains(reason),
            "{check}"
        );
    }
    installation.calibrate();
    let (_, manifest) = installation.measure("mended");
    assert!(manifest.environment["calibration"].is_object());
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let installation = Installation::new();
    let mut command = installation
        .bench
        .command(["doctor", "--calibrate", "--budget", "60s"]);
    command.env("OPBENCH_HOME", installation.home.path());
    let mut started = Bench::start_command(command);
    started.wait_for_lines("calibrating", 1);
    started.group.signal(libc::SIGINT);
    let (code, rest) = started.end();
    assert_eq!(code, Some(INTERRUPTED), "{rest}");
    assert!(rest.contains("nothing was written"), "{rest}");
    assert!(!installation.folder().exists());
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    let installation = Installation::new();
    for (args, part) in [
        (
            &["doctor", "--calibrate", "--threads", "0"][..],
            "at least one thread",
        ),
        (&["doctor", "--calibrate", "--budget", "soon"], "duration"),
        (&["doctor", "--budget", "1s"], "--calibrate"),
    ] {
        installation.run(args).failed(2, &[part]);
    }
    let file = installation.home.path().join(".cache/calibrations");
    std::fs::write(&file, "in the way").unwrap();
    let quick = ["doctor", "--calibrate", "--threads", "1", "--budget", "1ms"];
    installation
        .run(&quick)
        .failed(1, &["calibrations", "not kept"]);
}
