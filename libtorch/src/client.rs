//! The parent's side: starts the program, gives orders, waits for answers.
//!
//! The program is a child process, so that a model that crashes or hangs in libtorch ends its own process only, and nobody
//! needs libtorch to start ours. What it says on standard error is kept in a file and quoted when it dies.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::protocol::{Answer, Cycle, Load, Order, PROTOCOL, Record};

/// How to get the program.
pub const SETUP: &str = "scripts/setup --with torch";
/// Longest loading of libtorch and a model.
const LOADING: Duration = Duration::from_secs(300);
/// Lines of the program's talk that an error quotes.
const QUOTED_LINES: usize = 5;

/// What went wrong with the program.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It is not installed.
    #[error(
        "--framework torch needs the extra torch, and {} is not there; run {SETUP} (580 MB to download, then a build of a minute)",
        .0.display()
    )]
    Missing(PathBuf),
    /// It is of another version.
    #[error("{} is of another version of this project; run {SETUP}", .0.display())]
    OtherVersion(PathBuf),
    /// It refused the order.
    #[error("libtorch: {0}")]
    Refused(String),
    /// It ended before it answered.
    #[error("the program that runs libtorch ended: {0}")]
    Died(String),
    /// It took longer than it may.
    #[error("libtorch gave no answer in {} s; --timeout allows longer runs", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// The program with a model.
#[derive(Debug)]
pub struct Client {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    talk: std::fs::File,
    /// Largest difference of an output to the expected one, over the largest expected value.
    pub error: f64,
}

impl Client {
    /// Starts the program and loads a model.
    ///
    /// # Errors
    /// It is not installed or of another version, or libtorch cannot load or run the model.
    pub fn start(program: &Path, load: Load) -> Result<Client, ClientError> {
        let io = |what: &str| {
            let what = format!("{}: {what}", program.display());
            move |source| ClientError::Io { what, source }
        };
        if !program.is_file() {
            return Err(ClientError::Missing(program.to_owned()));
        }
        let talk = tempfile::tempfile().map_err(io("a file for what it says"))?;
        let stderr = talk.try_clone().map_err(io("a file for what it says"))?;
        let mut child = Command::new(program)
            .env("OMP_NUM_THREADS", load.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(io("cannot be started"))?;
        let (Some(orders), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ClientError::Died("it has no pipes".to_owned()));
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut client = Client {
            child,
            orders,
            answers,
            talk,
            error: 0.0,
        };
        match client.ask(&Order::Load(load), LOADING)? {
            Answer::Loaded { protocol, error } if protocol == PROTOCOL => {
                client.error = error;
                Ok(client)
            }
            _ => Err(ClientError::OtherVersion(program.to_owned())),
        }
    }

    /// Runs the model unwatched; the time of each run in nanoseconds.
    ///
    /// # Errors
    /// The program dies or takes longer than `limit`.
    pub fn run(&mut self, runs: u32, limit: Duration) -> Result<Vec<u64>, ClientError> {
        match self.ask(&Order::Run { runs }, limit)? {
            Answer::Ran { ns } => Ok(ns),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs the model and records its operators.
    ///
    /// # Errors
    /// As [`Client::run`]; the trace cannot be written.
    pub fn record(&mut self, record: Record, limit: Duration) -> Result<Cycle, ClientError> {
        match self.ask(&Order::Record(record), limit)? {
            Answer::Recorded(cycle) => Ok(cycle),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs the model without and with the profiler by turns.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub fn pairs(
        &mut self,
        budget: Duration,
        limit: Duration,
    ) -> Result<Vec<(f64, f64)>, ClientError> {
        let budget_ns = budget.as_nanos() as u64;
        match self.ask(&Order::Pairs { budget_ns }, limit)? {
            Answer::Pairs { pairs } => Ok(pairs),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer, ClientError> {
        let line = serde_json::to_string(order).unwrap_or_default();
        // A program that died has closed its pipe; that it gives no answer tells more.
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        let answer = match self.answers.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return Err(ClientError::TimedOut(limit)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ClientError::Died(self.last_words()));
            }
        };
        match serde_json::from_str(&answer) {
            Ok(Answer::Failed { message }) => Err(ClientError::Refused(message)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(ClientError::Died(format!("it answered `{answer}`"))),
        }
    }

    /// How the program ended, and the end of what it said.
    fn last_words(&mut self) -> String {
        let status = self.child.wait();
        let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        let mut text = Vec::new();
        let _ = self
            .talk
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.talk.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let end = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
        format!("{status}\n{}", end.join("\n"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It has nothing to save; one that has ended already cannot be killed, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unexpected(answer: &Answer) -> ClientError {
    ClientError::Died(format!("it gave another answer than asked for: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A stand-in for the program: a shell script.
    fn start(script: &str) -> Result<Client, ClientError> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("optorch");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let load = Load {
            model: "m.pt".into(),
            tensors: "t.bin".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            threads: 1,
        };
        Client::start(&program, load)
    }

    const LOADED: &str = r#"read order; echo '{"Loaded":{"protocol":1,"error":0.0}}'"#;

    #[test]
    fn orders_are_answered_in_turn() {
        let script =
            format!("{LOADED}; read order; echo '{{\"Ran\":{{\"ns\":[5,6]}}}}'; read order");
        let mut client = start(&script).unwrap();
        assert_eq!(client.run(2, LOADING).unwrap(), [5, 6]);
    }

    #[test]
    fn what_can_go_wrong_is_told_apart() {
        let refused = start(r#"read order; echo '{"Failed":{"message":"no TorchScript"}}'"#);
        assert!(matches!(&refused, Err(ClientError::Refused(m)) if m == "no TorchScript"));
        let died = start("read order; echo 'out of memory' >&2; exit 3").unwrap_err();
        assert!(died.to_string().contains("out of memory"), "{died}");
        let old = start(r#"read order; echo '{"Loaded":{"protocol":0,"error":0.0}}'"#).unwrap_err();
        assert!(old.to_string().contains(SETUP), "{old}");
        let mut slow = start(&format!("{LOADED}; exec sleep 60")).unwrap();
        let late = slow.run(1, Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("--timeout"), "{late}");
        let load = Load {
            model: "m.pt".into(),
            tensors: "t.bin".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            threads: 1,
        };
        let missing = Client::start(Path::new("/no/such/optorch"), load).unwrap_err();
        assert!(missing.to_string().contains(SETUP), "{missing}");
    }
}
