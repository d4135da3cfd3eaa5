//! Runs the importer: one Python child process, a JSON request on stdin, a JSON line on stdout.
//!
//! Everything that the child writes to stderr is kept; when it breaks, the log stays on disk and the error quotes its
//! end. The child gets no network settings or user site packages, so that only the pinned environment counts.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{ImportError, Result};

/// Number of lines of the importer's output that a crash report quotes.
const QUOTED_LINES: usize = 6;

/// The tools of an import, besides the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tooling {
    /// Python interpreter of the virtual environment.
    pub python: PathBuf,
    /// Folder that holds the package `opbench_import`.
    pub importer: PathBuf,
    /// Pinned requirements of the virtual environment; part of the cache key.
    pub requirements: PathBuf,
}

impl Tooling {
    /// Names the three places.
    pub fn new(
        python: impl Into<PathBuf>,
        importer: impl Into<PathBuf>,
        requirements: impl Into<PathBuf>,
    ) -> Self {
        Self {
            python: python.into(),
            importer: importer.into(),
            requirements: requirements.into(),
        }
    }

    /// Runs a Python package beside the importer, with only the pinned environment in its path.
    pub fn command(&self, package: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", package])
            .env("PYTHONPATH", &self.importer)
            .env("PYTHONNOUSERSITE", "1")
            // A folder called `torch` in the working folder must not count as a package.
            .env("PYTHONSAFEPATH", "1")
            .env("PYTHONIOENCODING", "utf-8")
            .env_remove("PYTHONHOME")
            .env_remove("PYTHONSTARTUP");
        command
    }

    /// Whether the interpreter can be started, without starting it.
    ///
    /// # Errors
    /// Fails with [`ImportError::PythonMissing`].
    pub fn check(&self) -> Result<()> {
        // A bare name is looked for as a shell would.
        let found = if self.python.components().count() > 1 {
            is_program(&self.python)
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_program(&folder.join(&self.python)))
        };
        if found {
            return Ok(());
        }
        Err(ImportError::PythonMissing {
            path: self.python.clone(),
            reason: "there is no program of that name".to_owned(),
        })
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let facts = std::fs::metadata(path);
    facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// The importer's answer.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(serde::de::IgnoredAny),
    Error(Failure),
}

/// The importer's description of a failure.
#[derive(Deserialize)]
struct Failure {
    kind: String,
    message: String,
    #[serde(default)]
    op: String,
    #[serde(default)]
    node: String,
    #[serde(default)]
    path: PathBuf,
    #[serde(default)]
    name: String,
    #[serde(default)]
    inputs: Vec<String>,
}

/// Runs one import and waits for it; `log` is written only when the importer breaks.
pub(crate) fn run(tooling: &Tooling, request: &Value, log: &Path) -> Result<()> {
    let child = spawn(tooling)?;
    let (status, stdout, stderr) =
        talk(child, request).map_err(|e| ImportError::io(&tooling.python, e))?;
    if interrupted(status) {
        return Err(ImportError::Interrupted);
    }
    let answer = stdout
        .lines()
        .last()
        .and_then(|line| serde_json::from_str::<Answer>(line).ok());
    match answer {
        Some(Answer::Ok(_)) if status.success() => Ok(()),
        Some(Answer::Error(failure)) if status.success() => Err(failure.into_error()),
        _ => Err(crashed(status, &stderr, log)),
    }
}

/// Starts the child.
fn spawn(tooling: &Tooling) -> Result<Child> {
    let missing = |reason: String| ImportError::PythonMissing {
        path: tooling.python.clone(),
        reason,
    };
    if !tooling.importer.join("opbench_import").is_dir() {
        let path = tooling.importer.join("opbench_import");
        let message = format!(
            "{}: the importer is not there; the installation is incomplete",
            path.display()
        );
        return Err(ImportError::MissingFile { path, message });
    }
    tooling
        .command("opbench_import")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| missing(e.to_string()))
}

/// Sends the request and collects both streams; a thread reads stderr, so that neither pipe can fill up.
fn talk(mut child: Child, request: &Value) -> std::io::Result<(ExitStatus, String, String)> {
    let collector = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    });
    if let Some(mut stdin) = child.stdin.take() {
        // A child that died at once has closed the pipe; its exit status tells more than this error would.
        let _ = stdin.write_all(request.to_string().as_bytes());
    }
    let mut stdout = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_end(&mut stdout)?;
    }
    let status = child.wait()?;
    let stderr = collector
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    Ok((
        status,
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    ))
}

/// Whether Ctrl-C ended the child.
fn interrupted(status: ExitStatus) -> bool {
    /// The shell's convention for a program that ended on SIGINT; the importer follows it.
    const INTERRUPTED: i32 = 130;
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        const SIGINT: i32 = 2;
        if status.signal() == Some(SIGINT) {
            return true;
        }
    }
    status.code() == Some(INTERRUPTED)
}

/// The error of a child that gave no answer.
fn crashed(status: ExitStatus, stderr: &str, log: &Path) -> ImportError {
    let lines: Vec<&str> = stderr.lines().filter(|l| !l.trim().is_empty()).collect();
    let last_lines = if stderr.contains("No module named") {
        let line = lines
            .iter()
            .rev()
            .find(|l| l.contains("No module named"))
            .unwrap_or(&"");
        format!(
            "{}; run scripts/setup to complete the virtual environment",
            line.trim()
        )
    } else if stderr.contains("Traceback (most recent call last)") {
        // A backtrace is for the log; its last line is the error itself.
        lines.last().map_or_else(String::new, |l| (*l).to_owned())
    } else {
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    };
    ImportError::Crashed {
        status: status.to_string(),
        last_lines,
        log: keep(log, stderr),
    }
}

/// Writes the log. A failure to write must not hide the error that the log belongs to.
fn keep(log: &Path, text: &str) -> PathBuf {
    let _ = std::fs::write(log, text);
    log.to_path_buf()
}

impl Failure {
    /// The error of the same kind.
    fn into_error(self) -> ImportError {
        let Self {
            kind,
            message,
            op,
            node,
            path,
            name,
            inputs,
        } = self;
        match kind.as_str() {
            "missing_extra" => ImportError::MissingExtra { message },
            "unknown_model" => ImportError::NotInLibrary { message },
            "missing_file" => ImportError::MissingFile { path, message },
            "unsupported_operator" => ImportError::UnsupportedOperator { op, node, message },
            "bad_composites" => ImportError::BadComposites { message },
            "wrong_import" => ImportError::WrongImport { message },
            "bad_shape" => ImportError::BadShape { message },
            "unknown_input" => ImportError::UnknownInput { name, inputs },
            "no_space" => ImportError::NoSpace { path },
            "no_permission" => ImportError::NoPermission { path },
            _ => ImportError::CorruptModel { message },
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A stand-in for the interpreter: a shell script.
    fn tooling(folder: &Path, script: &str) -> Tooling {
        std::fs::create_dir_all(folder.join("opbench_import")).unwrap();
        let python = folder.join("python");
        std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        Tooling::new(python, folder, folder.join("requirements.txt"))
    }

    fn answer(script: &str) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        run(
            &tooling(folder.path(), script),
            &serde_json::json!({"source": "onnx"}),
            &log,
        )
    }

    #[test]
    fn answers_become_results_and_errors() {
        assert!(answer("cat >/dev/null; echo talk; echo '{\"ok\": {}}'").is_ok());
        let refused = answer(
            r#"cat >/dev/null; echo '{"error": {"kind": "unsupported_operator", "message": "operator Foo", "op": "Foo", "node": "n1"}}'"#,
        );
        let Err(ImportError::UnsupportedOperator { op, node, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((op.as_str(), node.as_str()), ("Foo", "n1"));
    }

    #[test]
    fn crashes_quote_the_end_of_the_log_and_keep_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script =
            "cat >/dev/null; for i in 1 2 3 4 5 6 7 8 9; do echo line $i >&2; done; exit 3";
        let error = run(
            &tooling(folder.path(), script),
            &serde_json::json!({}),
            &log,
        )
        .unwrap_err();
        let ImportError::Crashed { last_lines, .. } = &error else {
            panic!("{error}")
        };
        assert!(
            last_lines.starts_with("line 4") && last_lines.ends_with("line 9"),
            "{last_lines}"
        );
        assert!(std::fs::read_to_string(&log).unwrap().starts_with("line 1"));
        let script = "cat >/dev/null; printf 'Traceback (most recent call last):\\n  File x\\nValueError: no\\n' >&2; exit 1";
        let broken = run(
            &tooling(folder.path(), script),
            &serde_json::json!({}),
            &log,
        );
        let Err(ImportError::Crashed { last_lines, .. }) = broken else {
            panic!("{broken:?}")
        };
        assert_eq!(last_lines, "ValueError: no");
        assert!(error.to_string().contains("exit status: 3"));
    }

    #[test]
    fn interruption_and_missing_interpreters_are_their_own_errors() {
        assert!(matches!(answer("exit 130"), Err(ImportError::Interrupted)));
        assert!(matches!(
            answer("kill -INT $$"),
            Err(ImportError::Interrupted)
        ));
        let folder = tempfile::tempdir().unwrap();
        let mut broken = tooling(folder.path(), "exit 0");
        broken.python = folder.path().join("nowhere");
        let ran = run(&broken, &serde_json::json!({}), &folder.path().join("log"));
        for error in [ran.unwrap_err(), broken.check().unwrap_err()] {
            assert!(
                matches!(error, ImportError::PythonMissing { .. }),
                "{error}"
            );
        }
        assert!(tooling(folder.path(), "exit 0").check().is_ok());
        assert!(Tooling::new("sh", "", "").check().is_ok(), "by PATH");
        assert!(Tooling::new("no-such-python", "", "").check().is_err());
        assert!(Tooling::new(folder.path(), "", "").check().is_err());
    }
}
