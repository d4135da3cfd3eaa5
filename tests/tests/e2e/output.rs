//! What both programs do when standard output cannot take their data. A reader that has gone away ends them in silence,
//! a full disk is a failure with one line.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::Bench;

/// A program beside opcollect, in the bench's folder.
fn command(bench: &Bench, program: &str, args: &[&str]) -> Command {
    let opcollect = bench.command::<&str>([]);
    let mut command = Command::new(Path::new(opcollect.get_program()).with_file_name(program));
    command.args(args).current_dir(bench.path());
    command
}

/// Exit code and standard error with a standard output of its own.
fn with_output(mut command: Command, stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let done = command.stdout(stdout).output().unwrap();
    (
        done.status.code(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    )
}

/// A pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    pipe.into()
}

const PRINTING: [(&str, &[&str]); 10] = [
    ("oppredict", &["features"]),
    ("oppredict", &["--help"]),
    ("oppredict", &["--version"]),
    ("oppredict", &["predict", "--help"]),
    ("opcollect", &["--help"]),
    ("opcollect", &["--version"]),
    ("opcollect", &["list", "--help"]),
    ("opcollect", &["list", "models"]),
    ("opcollect", &["completions", "bash"]),
    ("opcollect", &["man"]),
];

#[test]
fn a_closed_pipe_is_no_failure() {
    let bench = Bench::new();
    for (program, args) in PRINTING {
        let end = with_output(command(&bench, program, args), closed_pipe());
        assert_eq!(end, (Some(0), String::new()), "{program} {args:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure_with_one_line() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let bench = Bench::new();
    for (program, args) in PRINTING {
        let full: File = full.try_clone().unwrap();
        let (code, said) = with_output(command(&bench, program, args), full);
        assert_eq!(code, Some(1), "{program} {args:?}");
        assert!(
            said.contains("cannot write to standard output") && said.lines().count() == 1,
            "{program} {args:?}: {said}"
        );
    }
}
