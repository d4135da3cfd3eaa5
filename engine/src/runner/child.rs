//! Workers that are child processes of this one: starting them, and finding out how they ended.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use super::transport::{Launch, LineChannel, Transport, WorkerError};
use crate::protocol::{Contents, Reply, Request};

/// How often a thread of TVM's pool looks for work before it sleeps, unless the user has set it. It takes some milliseconds,
/// longer than any pause inside a model. TVM's own 300,000 take a tenth of a second: the processors of a virtual machine then
/// never fall idle between points. The host leaves them where they are, far from each other or on one core.
const SPIN_COUNT: (&str, &str) = ("TVM_THREAD_POOL_SPIN_COUNT", "20000");

/// Starts workers as child processes.
#[derive(Debug, Clone)]
pub struct ChildLauncher {
    /// The program; it is run with the one argument `worker`.
    pub program: PathBuf,
    /// File that collects the standard error of workers and TVM.
    pub log: PathBuf,
    /// Folder with the files that workers read.
    pub contents: PathBuf,
}

/// Spawns a child from a thread that lives as long as this process. A worker is killed when the thread that spawned it ends
/// (`PR_SET_PDEATHSIG` is about threads). Points are measured on threads that end with their batch.
fn spawn(command: Command) -> std::io::Result<Child> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, received) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in received {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let gone = || std::io::Error::other("the thread that starts workers has ended");
    let (answer, child) = channel();
    let orders = spawner.lock().map_err(|_| gone())?;
    orders.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

impl Launch for ChildLauncher {
    fn launch(&self) -> Result<Box<dyn Transport>, WorkerError> {
        let no_start = |e: std::io::Error| WorkerError::NoStart {
            program: self.program.clone(),
            reason: e.to_string(),
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(|e| WorkerError::NoStart {
                program: self.log.clone(),
                reason: format!("its log cannot be written: {e}"),
            })?;
        let log_start = log.metadata().map_or(0, |m| m.len());
        let (spin_count, usual) = SPIN_COUNT;
        let mut command = Command::new(&self.program);
        command
            .arg("worker")
            .env(Contents::VARIABLE, &self.contents)
            .env(
                spin_count,
                std::env::var_os(spin_count).unwrap_or_else(|| usual.into()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A group of its own: Ctrl-C is for the parent, which lets the point end.
            .process_group(0);
        let mut child = spawn(command).map_err(no_start)?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WorkerError::Ended {
                how: "a worker without pipes".to_owned(),
            });
        };
        Ok(Box::new(ChildProcess {
            child,
            lines: LineChannel::new(requests, output),
            log: self.log.clone(),
            log_start,
        }))
    }
}

/// A worker that is a child process, reached through its standard input and output.
struct ChildProcess {
    child: Child,
    lines: LineChannel,
    log: PathBuf,
    /// Length of the log when the worker was started. Text before it is from other workers.
    log_start: u64,
}

impl Transport for ChildProcess {
    fn send(&mut self, request: &Request) -> Result<(), WorkerError> {
        self.lines.send(request)?.ok_or_else(|| self.ended())
    }

    fn receive(&mut self, timeout: Duration) -> Result<Reply, WorkerError> {
        self.lines.receive(timeout)?.ok_or_else(|| self.ended())
    }
}

impl ChildProcess {
    /// How the worker ended; it is killed if it only closed its pipes.
    fn ended(&mut self) -> WorkerError {
        // A crashing process closes its pipes shortly before it can be waited for.
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
        let how = match last_words(&self.log, self.log_start) {
            Some(words) => format!("{how}: {words}"),
            None => how,
        };
        WorkerError::Ended { how }
    }
}

impl Drop for ChildProcess {
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

/// The message at the end of the log after `start`: its last line that is not part of a stack trace.
fn last_words(log: &Path, start: u64) -> Option<String> {
    const TAIL_BYTES: usize = 16 << 10;
    let text = std::fs::read(log).ok()?;
    let own = text.get(usize::try_from(start).ok()?..)?;
    let tail = String::from_utf8_lossy(&own[own.len().saturating_sub(TAIL_BYTES)..]).into_owned();
    cause(&tail)
}

/// The last line of a text that is not part of a stack trace. If memory ran out, the message says so.
fn cause(text: &str) -> Option<String> {
    let line = text
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !is_trace(line))?;
    let line: String = line.chars().take(200).collect();
    let is_memory = [
        "bad_alloc",
        "memory allocation of",
        "Cannot allocate memory",
    ]
    .iter()
    .any(|sign| line.contains(sign));
    Some(if is_memory {
        format!("it ran out of the memory that --memory-limit allows ({line})")
    } else {
        line
    })
}

/// Whether a line is part of a stack trace, or of the text around one, as Rust, the C++ library and TVM print them.
fn is_trace(line: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "File \"",
        "at ",
        "<unknown>",
        "0x",
        "note: ",
        "stack backtrace",
        "Stack trace",
        "Traceback",
        "!!!",
    ];
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    BEGINNINGS.iter().any(|b| line.starts_with(b))
        || (number.len() < line.len() && number.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_cause_and_no_stack_trace() {
        let trace = "  0: 0x7f01 - std::backtrace\n             at /rustc/lib.rs:3\n!!!!!!! Segfault encountered !!!!!!!\n  File \"<unknown>\", in raise\n  <unknown>\nnote: run with `RUST_BACKTRACE=1`\n";
        let of = |words: &str| cause(&format!("{words}\n{trace}")).unwrap();
        assert_eq!(
            of("InternalError: no such thing"),
            "InternalError: no such thing"
        );
        assert_eq!(
            of("memory allocation of 7200000000 bytes failed"),
            "it ran out of the memory that --memory-limit allows (memory allocation of 7200000000 bytes failed)"
        );
        assert_eq!(
            of("terminate called\n  what():  std::bad_alloc"),
            "it ran out of the memory that --memory-limit allows (what():  std::bad_alloc)"
        );
        assert_eq!(cause(trace), None);
    }

    #[test]
    fn words_of_an_earlier_worker_are_not_this_ones() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("worker.log");
        std::fs::write(&log, "the first died of this\n").unwrap();
        let start = std::fs::metadata(&log).unwrap().len();
        assert_eq!(last_words(&log, start), None);
        assert_eq!(
            last_words(&log, 0).as_deref(),
            Some("the first died of this")
        );
    }
}
