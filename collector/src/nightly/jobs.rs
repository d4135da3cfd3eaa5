//! A job of a nightly run: the main job as a process of its own, stopped at the end of its time.
//!
//! [`JobRunner`] is the seam; [`ProcessRunner`] starts this program. Its output goes to a log in the folder of the nightly run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use opengine::interrupt::Interrupt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::lock::LockHandle;

/// Folder of the logs in that of the nightly run.
pub const LOGS: &str = "logs";

/// How often a job's process is polled.
const POLL: Duration = Duration::from_millis(100);
/// Time between the request to stop and the end by force. The point under way may compile and run to its own limits.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes at the end of a log that are searched for its last error.
const TAIL_BYTES: u64 = 16 * 1024;

/// The command of a job.
#[derive(Debug)]
pub struct JobCommand {
    /// Arguments of the main job.
    pub args: Vec<OsString>,
    /// File for its output.
    pub log: PathBuf,
    /// When to stop it.
    pub stop_after: Duration,
    /// The lock of the nightly run, which a job shares.
    pub lock: LockHandle,
}

/// How a job's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The process exited with this code.
    Exited(i32),
    /// This signal killed the process.
    Killed(i32),
    /// It was stopped because its time was over.
    OutOfTime,
}

/// Runs jobs.
pub trait JobRunner {
    /// Runs a job to its end.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    fn run(&mut self, command: &JobCommand, interrupt: &Interrupt) -> io::Result<JobEnd>;
}

/// Runs jobs as processes of a program.
#[derive(Debug)]
pub struct ProcessRunner {
    /// The program: this one.
    pub program: PathBuf,
}

impl JobRunner for ProcessRunner {
    fn run(&mut self, command: &JobCommand, interrupt: &Interrupt) -> io::Result<JobEnd> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&command.log)?;
        let child = Command::new(&self.program)
            .args(&command.args)
            .stdin(command.lock.as_stdin()?)
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own: Ctrl-C reaches it once, through us, and not twice.
            .process_group(0)
            .spawn()?;
        watch(child, command.stop_after, PATIENCE, interrupt)
    }
}

/// Waits for a job's end. Asks it to stop when its time is over or the user wants to, and kills it after `patience`.
fn watch(
    mut child: Child,
    stop_after: Duration,
    patience: Duration,
    interrupt: &Interrupt,
) -> io::Result<JobEnd> {
    let began = Instant::now();
    let pid = Pid::from_child(&child);
    let mut asked: Option<Instant> = None;
    let mut out_of_time = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match (out_of_time, status.code(), status.signal()) {
                (true, ..) => JobEnd::OutOfTime,
                (_, Some(code), _) => JobEnd::Exited(code),
                (_, None, signal) => JobEnd::Killed(signal.unwrap_or(0)),
            });
        }
        // If the process has ended already, the signal is not needed.
        match asked {
            None if interrupt.requested() || began.elapsed() >= stop_after => {
                out_of_time = !interrupt.requested();
                let _ = kill_process(pid, Signal::INT);
                asked = Some(Instant::now());
            }
            Some(since) if interrupt.urgent() || since.elapsed() >= patience => {
                // Its workers are in the same group.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            _ => {}
        }
        std::thread::sleep(POLL);
    }
}

/// The error that ended a job, from its log: the last line that begins with `error:`, or the last line.
pub fn last_words(log: &Path) -> String {
    let tail = tail(log).unwrap_or_default();
    let lines = || tail.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .rfind(|line| line.starts_with("error:"))
        .map(|line| line.trim_start_matches("error:").trim())
        .or_else(|| lines().next_back())
        .unwrap_or("it said nothing")
        .to_owned()
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = fs::metadata(log)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh")
            .args(["-c", script])
            .process_group(0)
            .spawn()
            .unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn ends_are_distinguished() {
        let end = |script| watch(shell(script), LONG, LONG, &Interrupt::default()).unwrap();
        assert_eq!(end("exit 4"), JobEnd::Exited(4));
        assert_eq!(end("kill -9 $$"), JobEnd::Killed(9));
    }

    #[test]
    fn time_that_is_over_ends_a_job_gently_then_by_force() {
        let calm = Interrupt::default();
        let end = watch(shell("exec sleep 600"), Duration::ZERO, LONG, &calm);
        assert_eq!(end.unwrap(), JobEnd::OutOfTime);
        let deaf = shell("trap '' INT; sleep 600 & wait; sleep 600");
        let end = watch(deaf, Duration::ZERO, Duration::ZERO, &calm);
        assert_eq!(end.unwrap(), JobEnd::OutOfTime);
    }

    #[test]
    fn the_users_wish_is_passed_on() {
        let interrupt = Interrupt::default();
        interrupt.request();
        let asked = shell("trap 'exit 130' INT; while :; do sleep 0.05; done");
        // The shell must have set its trap before it is asked.
        std::thread::sleep(Duration::from_millis(300));
        let end = watch(asked, LONG, LONG, &interrupt).unwrap();
        assert_eq!(end, JobEnd::Exited(130));
    }

    #[test]
    fn the_last_words_are_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "measure 1/2\nerror: no such model\nsee list\n").unwrap();
        assert_eq!(last_words(&log), "no such model");
        fs::write(&log, "measure 1/2\n\n").unwrap();
        assert_eq!(last_words(&log), "measure 1/2");
        assert_eq!(last_words(&folder.path().join("none")), "it said nothing");
    }
}
