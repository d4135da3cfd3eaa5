//! One worker process, from the parent's side: start it, talk to it, find out how it ended.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::protocol::{Reply, Request, Setup};

/// How to start workers.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program; it is run with the one argument `worker`.
    pub program: PathBuf,
    /// File that collects what workers and TVM say on standard error.
    pub log: PathBuf,
}

/// A worker that runs.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
    log: PathBuf,
}

/// Why no reply came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// Nothing came in time; the worker is still there.
    #[error("no answer in time")]
    Silent,
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
    /// The worker has ended.
    #[error("{how}")]
    Ended {
        /// How, and its last words.
        how: String,
    },
    /// The worker said something that is no reply.
    #[error("a worker said what cannot be understood: {line}")]
    Garbled {
        /// What it said.
        line: String,
    },
    /// No worker can be started.
    #[error("cannot start a worker ({}): {reason}", program.display())]
    NoStart {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// Longest wait for a worker to load TVM and the module.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

impl Worker {
    /// Starts a worker and waits until it is ready.
    ///
    /// # Errors
    /// The program cannot be run, or its setup fails; the message has its last words.
    pub fn start(launcher: &Launcher, setup: &Setup) -> Result<Worker, WorkerError> {
        let no_start = |e: std::io::Error| WorkerError::NoStart {
            program: launcher.program.clone(),
            reason: e.to_string(),
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(&launcher.log)
            .map_err(|e| WorkerError::NoStart {
                program: launcher.log.clone(),
                reason: format!("its log cannot be written: {e}"),
            })?;
        let mut child = Command::new(&launcher.program)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A group of its own: Ctrl-C is for the parent, which lets the point end.
            .process_group(0)
            .spawn()
            .map_err(no_start)?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WorkerError::Ended {
                how: "a worker without pipes".to_owned(),
            });
        };
        let (send, replies) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut worker = Worker {
            child,
            requests,
            replies,
            log: launcher.log.clone(),
        };
        worker.send(&Request::Setup(setup.clone()))?;
        match worker.receive(SETUP_TIMEOUT)? {
            Reply::Ready => Ok(worker),
            other => Err(WorkerError::Garbled {
                line: format!("{other:?}"),
            }),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn send(&mut self, request: &Request) -> Result<(), WorkerError> {
        let line = serde_json::to_string(request).map_err(|e| WorkerError::Garbled {
            line: e.to_string(),
        })?;
        match writeln!(self.requests, "{line}").and_then(|()| self.requests.flush()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended()),
        }
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// See [`WorkerError`]; after [`WorkerError::Silent`] one may wait again.
    pub fn receive(&mut self, timeout: Duration) -> Result<Reply, WorkerError> {
        match self.replies.recv_timeout(timeout) {
            Ok(line) => serde_json::from_str(&line).map_err(|_| WorkerError::Garbled { line }),
            Err(RecvTimeoutError::Timeout) => Err(WorkerError::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// How the worker ended; it is killed if it only closed its pipes.
    fn ended(&mut self) -> WorkerError {
        // A crashing process closes its pipes a moment before it can be waited for.
        const GRACE: Duration = Duration::from_millis(500);
        const STEP: Duration = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if waited < GRACE => {
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
                _ => break None,
            }
        };
        let how = status.map_or_else(|| "the worker closed its pipes".to_owned(), describe);
        let how = match last_words(&self.log) {
            Some(words) => format!("{how}: {words}"),
            None => how,
        };
        WorkerError::Ended { how }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Killing what has ended fails, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGSEGV), _) => "the worker died of a bad memory access (SIGSEGV)".to_owned(),
        (Some(libc::SIGABRT), _) => "the worker aborted (SIGABRT)".to_owned(),
        (Some(libc::SIGILL), _) => {
            "the worker met an instruction this CPU lacks (SIGILL)".to_owned()
        }
        (Some(libc::SIGFPE), _) => "the worker died of a division by zero (SIGFPE)".to_owned(),
        (Some(libc::SIGKILL), _) => {
            "the worker was killed (SIGKILL): out of memory, or by hand".to_owned()
        }
        (Some(signal), _) => format!("the worker died of signal {signal}"),
        (None, Some(code)) => format!("the worker ended with code {code}"),
        (None, None) => "the worker ended".to_owned(),
    }
}

/// The last line of the log that says something.
fn last_words(log: &Path) -> Option<String> {
    const TAIL_BYTES: usize = 4096;
    let text = std::fs::read(log).ok()?;
    let tail = String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL_BYTES)..]).into_owned();
    let line = tail.lines().map(str::trim).rfind(|l| !l.is_empty())?;
    Some(line.chars().take(200).collect())
}
