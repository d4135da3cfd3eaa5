//! The parent's side: starts the program, gives orders, waits for answers.
//!
//! The program is a child process. A model that crashes or hangs in its framework ends its own process only, and nobody
//! needs the framework to start ours. What it says on standard error is kept in a file and quoted when it dies. Programs
//! of other frameworks that speak the same [`protocol`](crate::protocol) have the same client.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::protocol::{Answer, Cycle, Load, Order, PROTOCOL, RecordSpec};

/// How to get the program.
pub const SETUP: &str = "scripts/setup --with torch";
/// Longest loading of libtorch and a model.
const LOADING: Duration = Duration::from_secs(300);
/// Number of lines of the program's output that an error quotes.
const QUOTED_LINES: usize = 5;

/// Settings of glibc's allocator. A process reaches them by itself once it has freed blocks of these sizes. Python with
/// PyTorch has, by the time a model is built. A fresh process hands memory back to the system between operators, and
/// takes page faults in the next one. That is up to four times the time of an element-wise operator.
const MEMORY: [(&str, &str); 2] = [
    ("MALLOC_MMAP_THRESHOLD_", "33554432"),
    ("MALLOC_TRIM_THRESHOLD_", "67108864"),
];

/// Errors of the program.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The program is not installed.
    #[error(
        "--framework torch needs the extra torch, and {} is not there; run {SETUP} (580 MB to download, then a build of a minute)",
        .0.display()
    )]
    Missing(PathBuf),
    /// The program has another version.
    #[error("the program that runs {0} is of another version of this project; run {SETUP}")]
    OtherVersion(&'static str),
    /// The program refused the request.
    #[error("{framework}: {message}")]
    Refused {
        /// The framework of the program.
        framework: &'static str,
        /// Its message.
        message: String,
    },
    /// The program ended before it answered.
    #[error("the program that runs {framework} ended: {how}")]
    Died {
        /// The framework of the program.
        framework: &'static str,
        /// Its status, and the end of its output.
        how: String,
    },
    /// The program exceeded its time limit.
    #[error("{framework} gave no answer in {} s; --timeout allows longer runs", .limit.as_secs_f64())]
    TimedOut {
        /// The framework of the program.
        framework: &'static str,
        /// Its time limit.
        limit: Duration,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// A program that runs models of one framework.
#[derive(Debug)]
pub struct Program {
    /// The framework, for messages.
    pub framework: &'static str,
    /// The command that starts it.
    pub command: Command,
}

impl Program {
    /// The program of libtorch.
    ///
    /// # Errors
    /// Fails if it is not installed.
    pub fn libtorch(path: &Path) -> Result<Program, ClientError> {
        if !path.is_file() {
            return Err(ClientError::Missing(path.to_owned()));
        }
        let mut command = Command::new(path);
        command.envs(MEMORY);
        Ok(Program {
            framework: "libtorch",
            command,
        })
    }
}

/// The program with a model.
#[derive(Debug)]
pub struct Client {
    framework: &'static str,
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    talk: std::fs::File,
    /// Largest difference of an output to the expected one, over the largest expected value.
    pub error: f64,
    /// Version of the framework.
    pub version: String,
}

impl Client {
    /// Starts a program and loads a model.
    ///
    /// # Errors
    /// Fails if it is of another version, or the framework cannot load or run the model.
    pub fn start(program: Program, load: Load) -> Result<Client, ClientError> {
        let Program {
            framework,
            mut command,
        } = program;
        let name = command.get_program().to_string_lossy().into_owned();
        let io = |what: &str| {
            let what = format!("{name}: {what}");
            move |source| ClientError::Io { what, source }
        };
        let talk = tempfile::tempfile().map_err(io("a file for its messages"))?;
        let stderr = talk.try_clone().map_err(io("a file for its messages"))?;
        let mut child = command
            .env("OMP_NUM_THREADS", load.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(io("cannot be started"))?;
        let (Some(orders), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            let how = "it has no pipes".to_owned();
            return Err(ClientError::Died { framework, how });
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
            framework,
            child,
            orders,
            answers,
            talk,
            error: 0.0,
            version: String::new(),
        };
        match client.ask(&Order::Load(load), LOADING)? {
            Answer::Loaded {
                protocol: PROTOCOL,
                error,
                version,
            } => {
                client.error = error;
                client.version = version;
                Ok(client)
            }
            _ => Err(ClientError::OtherVersion(framework)),
        }
    }

    /// Runs the model unwatched; the time of each run in nanoseconds.
    ///
    /// # Errors
    /// Fails if the program dies or takes longer than `limit`.
    pub fn run(&mut self, runs: u32, limit: Duration) -> Result<Vec<u64>, ClientError> {
        match self.ask(&Order::Run { runs }, limit)? {
            Answer::Ran { ns } => Ok(ns),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs the model and records its operators.
    ///
    /// # Errors
    /// Fails as [`Client::run`] does, or if the trace cannot be written.
    pub fn record(&mut self, record: RecordSpec, limit: Duration) -> Result<Cycle, ClientError> {
        match self.ask(&Order::Record(record), limit)? {
            Answer::Recorded(cycle) => Ok(cycle),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs the model without and with the profiler by turns.
    ///
    /// # Errors
    /// Fails as [`Client::run`] does.
    pub fn pairs(
        &mut self,
        budget: Duration,
        limit: Duration,
    ) -> Result<Vec<(f64, f64)>, ClientError> {
        let budget_ns = budget.as_nanos() as u64;
        match self.ask(&Order::Pairs { budget_ns }, limit)? {
            Answer::Pairs { pairs } => Ok(pairs),
            other => Err(self.unexpected(&other)),
        }
    }

    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer, ClientError> {
        let line = serde_json::to_string(order).unwrap_or_default();
        // A program that died has closed its pipe; that it gives no answer tells more.
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        let answer = match self.answers.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                let framework = self.framework;
                return Err(ClientError::TimedOut { framework, limit });
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.last_words();
                return Err(self.died(how));
            }
        };
        match serde_json::from_str(&answer) {
            Ok(Answer::Failed { message }) => {
                let framework = self.framework;
                Err(ClientError::Refused { framework, message })
            }
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.died(format!("it answered `{answer}`"))),
        }
    }

    fn died(&self, how: String) -> ClientError {
        let framework = self.framework;
        ClientError::Died { framework, how }
    }

    fn unexpected(&self, answer: &Answer) -> ClientError {
        self.died(format!("its answer does not fit the order: {answer:?}"))
    }

    /// The program's end status, and the end of its output.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::protocol::Device;

    fn load() -> Load {
        Load {
            model: "m.pt".into(),
            tensors: "t.bin".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            threads: 1,
            device: Device::Cpu,
        }
    }

    /// A stand-in for the program: a shell script.
    fn start(script: &str) -> Result<Client, ClientError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("optorch");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Client::start(Program::libtorch(&path)?, load())
    }

    const LOADED: &str =
        r#"read order; echo '{"Loaded":{"protocol":2,"error":0.0,"version":"2.13.0"}}'"#;

    #[test]
    fn orders_are_answered_in_turn() {
        let script =
            format!("{LOADED}; read order; echo '{{\"Ran\":{{\"ns\":[5,6]}}}}'; read order");
        let mut client = start(&script).unwrap();
        assert_eq!(client.run(2, LOADING).unwrap(), [5, 6]);
        assert_eq!(client.version, "2.13.0");
    }

    #[test]
    fn what_can_go_wrong_is_distinguished() {
        let refused = start(r#"read order; echo '{"Failed":{"message":"no TorchScript"}}'"#);
        assert!(
            matches!(&refused, Err(ClientError::Refused { message, .. }) if message == "no TorchScript")
        );
        let died = start("read order; echo 'out of memory' >&2; exit 3").unwrap_err();
        assert!(died.to_string().contains("out of memory"), "{died}");
        let old = start(r#"read order; echo '{"Loaded":{"protocol":0,"error":0.0,"version":""}}'"#)
            .unwrap_err();
        assert!(old.to_string().contains(SETUP), "{old}");
        let mut slow = start(&format!("{LOADED}; exec sleep 60")).unwrap();
        let late = slow.run(1, Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("--timeout"), "{late}");
        let missing = Program::libtorch(Path::new("/no/such/optorch")).unwrap_err();
        assert!(missing.to_string().contains(SETUP), "{missing}");
    }
}
