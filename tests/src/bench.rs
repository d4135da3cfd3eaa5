//! A folder and the programs to run in it.
//!
//! No setting of the caller reaches them: variables that start with `OPCOLLECT_` are taken away.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{Group, Outcome};

/// Longest time that a test waits for something to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Settings that make measuring short; the tests look at what is recorded, not at how precise it is.
const SHORT: [&str; 10] = [
    "--budget",
    "50ms",
    "--warmup",
    "1",
    "--min-samples",
    "6",
    "--max-samples",
    "50",
    // Tests disturb each other.
    "--remeasure-budget",
    "0",
];

/// A folder of its own for one test.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    /// An empty folder.
    ///
    /// # Panics
    /// When the system has no place for temporary files.
    #[must_use]
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder, with these contents.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, contents).expect("a file in the temporary folder");
        path
    }

    /// opcollect, to be run in this folder.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(opcollect());
        command
            .args(args)
            .current_dir(self.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OPCOLLECT_") {
                command.env_remove(name);
            }
        }
        command.env_remove("RUST_BACKTRACE").env("NO_COLOR", "1");
        // Tests look for columns in one line a row.
        command.env("COLUMNS", "10000");
        command
    }

    /// Runs opcollect to its end.
    pub fn run(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.command(args))
    }

    /// Runs the main job with short measurements.
    pub fn measure(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.command(args.iter().chain(&SHORT)))
    }

    /// Starts the main job and does not wait for it.
    ///
    /// # Panics
    /// When the program does not start.
    pub fn start(&self, args: &[&str]) -> Started {
        Self::start_command(self.command(args))
    }

    /// Starts a command and does not wait for it.
    ///
    /// # Panics
    /// When the program does not start.
    #[must_use]
    pub fn start_command(mut command: Command) -> Started {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut group = Group::start(command);
        let stderr = BufReader::new(group.0.stderr.take().expect("a pipe"));
        Started { group, stderr }
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

/// A main job under way.
#[derive(Debug)]
pub struct Started {
    /// The program with its workers.
    pub group: Group,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Started {
    /// Reads its talk until this many lines hold `text`; gives all lines so far.
    ///
    /// # Panics
    /// When it ends before that.
    pub fn wait_for_lines(&mut self, text: &str, wanted: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines
            .iter()
            .filter(|line: &&String| line.contains(text))
            .count()
            < wanted
        {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).expect("text on stderr");
            assert!(read > 0, "it ended after saying {lines:#?}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// Waits until the program and its workers have ended. Returns the exit code and the rest of the output.
    ///
    /// # Panics
    /// Panics if the program or one of its workers does not end within the time limit.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.group.0.try_wait().expect("its exit status") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        // Workers hold the other end of the pipe, so reading comes after their end.
        while self.group.has_members() {
            assert!(start.elapsed() < PATIENCE, "workers outlive their run");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut rest = String::new();
        self.stderr
            .read_to_string(&mut rest)
            .expect("text on stderr");
        (status.code(), rest)
    }
}

/// The program under test.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn opcollect() -> PathBuf {
    let folder = std::env::var_os("OPBENCH_BINARIES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release"),
        PathBuf::from,
    );
    let path = folder.join("opcollect");
    assert!(
        path.is_file(),
        "there is no {}: run scripts/setup first",
        path.display()
    );
    path
}
