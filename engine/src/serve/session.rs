//! One session: a process of its own with the connection as its standard input, a folder of its own, and limits.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use opdata::contract::Software;
use tvm_bridge::rpc::server::{Answer, serve};

use super::sandbox;
use crate::device::remote::ENVIRONMENT;
use crate::device::remote::counters::{OPEN, START, STOP, Served};
use crate::env::{Root, capture, versions};
use crate::interrupt::Interrupt;

/// The word that makes the program a session's process.
pub const SESSION: &str = "session";
/// Variable with the most memory of a session, MiB.
const MEMORY: &str = "OPBENCH_SESSION_MIB";

/// Limits of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub time: Duration,
    pub memory_mib: u64,
}

/// Runs a session to its end, and describes that end in words.
pub(super) fn run(
    program: &Path,
    stream: TcpStream,
    limits: Limits,
    interrupt: &Interrupt,
) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("a folder for the session")?;
    let mut talk = tempfile::tempfile().context("a file for a session's talk")?;
    let cores = crate::env::Cores::read(&Root::system()).usable();
    let mut command = Command::new(program);
    command
        .args(["worker", SESSION])
        .current_dir(folder.path())
        .env(MEMORY, limits.memory_mib.to_string())
        // On x86, TVM takes half of the processors otherwise.
        .env("TVM_NUM_THREADS", cores.to_string())
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::null())
        .stderr(talk.try_clone()?)
        .process_group(0);
    let mut child = command.spawn().context("cannot start a session")?;
    let deadline = Instant::now() + limits.time;
    let end = loop {
        if let Some(status) = child.try_wait().context("a session's process")? {
            break match (status.success(), status.signal()) {
                (true, _) => "ended by the client".to_owned(),
                (false, Some(signal)) => format!("killed by signal {signal}"),
                (false, None) => format!("failed ({status}): {}", last_words(&mut talk)),
            };
        }
        let late = Instant::now() >= deadline;
        if late || interrupt.requested() {
            break match late {
                true => format!("stopped after {} s", limits.time.as_secs()),
                false => "stopped with the server".to_owned(),
            };
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // SAFETY: a plain system call; the group is the child's own, and has ended or is to end.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let _ = child.wait();
    Ok(end)
}

/// The last line that a session's process has written.
fn last_words(talk: &mut File) -> String {
    /// Bytes read from the end of a session's log, enough for its last line.
    const END: u64 = 1024;
    let length = talk.metadata().map_or(0, |metadata| metadata.len());
    let mut end = Vec::new();
    let read = talk
        .seek(SeekFrom::Start(length.saturating_sub(END)))
        .and_then(|_| talk.take(END).read_to_end(&mut end));
    let end = String::from_utf8_lossy(&end);
    let line = end.lines().rev().find(|line| !line.trim().is_empty());
    match (read, line) {
        (Ok(_), Some(line)) => line.chars().filter(|c| !c.is_control()).collect(),
        _ => "it said nothing".to_owned(),
    }
}

/// The process of a session: serves the client at its standard input until it leaves.
///
/// # Errors
/// Fails if TVM cannot be loaded, or the limits cannot be set.
pub fn serve_session() -> anyhow::Result<()> {
    let memory = std::env::var(MEMORY).ok().and_then(|mib| mib.parse().ok());
    let memory: u64 = memory.context("a session is started by serve-device")?;
    let environment = capture(
        &Root::system(),
        Software {
            versions: versions(),
            ..Software::default()
        },
    );
    let environment = serde_json::to_string(&environment)?;
    let folder = std::env::current_dir().context("the session's folder")?;
    tvm_bridge::Libraries::load_runtime()?;
    let mut answers = Vec::new();
    for device in crate::device::ALL {
        answers.extend(device.serve()?);
    }
    sandbox::enter(memory)?;
    let answer = |name, says: Box<dyn Fn(&str) -> String>| Answer { name, says };
    let served = Rc::new(Served::default());
    let counted = |act: fn(&Served, &str) -> String| {
        let served = Rc::clone(&served);
        Box::new(move |text: &str| act(&served, text)) as Box<dyn Fn(&str) -> String>
    };
    answers.extend([
        answer(ENVIRONMENT, Box::new(move |_| environment.clone())),
        answer(OPEN, counted(Served::open)),
        answer(START, counted(Served::start)),
        answer(STOP, counted(Served::stop)),
    ]);
    serve(libc::STDIN_FILENO, &folder, answers)?;
    Ok(())
}
