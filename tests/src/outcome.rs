//! What a program left behind: exit code, output, talk; and what every error must look like.

use std::process::Command;

/// Words that only a crash prints.
const CRASH_WORDS: [&str; 6] = [
    "panicked at",
    "RUST_BACKTRACE",
    "stack backtrace",
    "Traceback (most recent call last)",
    "Segmentation fault",
    "!!!!!!! TVM FFI encountered",
];

/// The end of a program.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn of(mut command: Command) -> Self {
        let output = command.output().expect("the program starts");
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Checks that all went well and gives the standard output.
    ///
    /// # Panics
    /// When the exit code is not 0 or something crashed on the way.
    pub fn done(&self) -> &str {
        self.assert_no_crash();
        assert_eq!(self.code, Some(0), "stderr: {}", self.stderr);
        &self.stdout
    }

    /// Checks that it ended with this code and one error message, which holds all of `parts`.
    ///
    /// # Panics
    /// When there is another code, no message or more than one, a part missing, or a crash.
    pub fn failed(&self, code: i32, parts: &[&str]) {
        self.assert_no_crash();
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        let errors = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("error:"))
            .count();
        assert_eq!(errors, 1, "not one error message: {}", self.stderr);
        let message = self.message();
        for part in parts {
            assert!(message.contains(part), "no '{part}' in: {message}");
        }
    }

    /// The error message: from the line that starts with `error:` to the end.
    #[must_use]
    pub fn message(&self) -> &str {
        let start = self
            .stderr
            .match_indices("error:")
            .map(|(at, _)| at)
            .find(|at| *at == 0 || self.stderr.as_bytes()[at - 1] == b'\n');
        start.map_or("", |at| &self.stderr[at..])
    }

    fn assert_no_crash(&self) {
        for word in CRASH_WORDS {
            for text in [&self.stdout, &self.stderr] {
                assert!(!text.contains(word), "'{word}' in: {text}");
            }
        }
    }
}
