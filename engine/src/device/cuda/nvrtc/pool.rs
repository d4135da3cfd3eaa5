//! The parent's side of NVRTC: child processes that wait for work, and the reading of their answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::child::{Answer, Greeting, Request};
use super::toolkit::Toolkit;
use crate::device::TooLong;

/// Machine code of all kernels of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cubin {
    /// An ELF file.
    pub bytes: Vec<u8>,
    /// The assembler's messages about its kernels.
    pub log: String,
}

/// NVRTC in child processes: one for each thread that compiles at the same time.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    toolkit: Toolkit,
    /// Path of this program, which is run with `worker cuda` and the toolkit's folder.
    program: PathBuf,
    limit: Duration,
    idle: Mutex<Vec<Compiler>>,
}

impl Nvrtc {
    /// A compiler of this toolkit with a time limit for each source. Processes are started when they are needed.
    ///
    /// # Errors
    /// Fails if the program does not find itself.
    pub fn new(toolkit: Toolkit, limit: Duration) -> anyhow::Result<Nvrtc> {
        Ok(Nvrtc {
            toolkit,
            program: std::env::current_exe().context("the path of this program")?,
            limit,
            idle: Mutex::default(),
        })
    }

    /// The toolkit.
    pub fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// Compiles a source for an architecture.
    ///
    /// # Errors
    /// Fails if the compiler refuses it, in its words; it takes longer than it may ([`TooLong`]); or it ends.
    pub fn compile(&self, arch: &str, source: &str) -> anyhow::Result<Cubin> {
        let mut compiler = self.take()?;
        let limit_s = u32::try_from(self.limit.as_secs().max(1)).unwrap_or(u32::MAX);
        let request = Request {
            arch: arch.to_owned(),
            source: source.to_owned(),
            limit_s,
        };
        let Ok((answer, bytes)) = compiler.ask(&request) else {
            return Err(compiler.ended(u64::from(limit_s)));
        };
        self.put_back(compiler);
        match answer.problem {
            None => Ok(Cubin {
                bytes,
                log: answer.log,
            }),
            Some(problem) => bail!("NVRTC: {}", first_error(&answer.log).unwrap_or(problem)),
        }
    }

    fn take(&self) -> anyhow::Result<Compiler> {
        let waiting = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        waiting.map_or_else(|| Compiler::start(&self.program, &self.toolkit), Ok)
    }

    fn put_back(&self, compiler: Compiler) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(compiler);
        }
    }
}

/// A child process.
#[derive(Debug)]
struct Compiler {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Compiler {
    fn start(program: &PathBuf, toolkit: &Toolkit) -> anyhow::Result<Compiler> {
        let mut process = Command::new(program)
            .args(["worker", "cuda"])
            .arg(toolkit.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("NVRTC's process cannot be started")?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("NVRTC's process has no pipes");
        };
        let mut compiler = Compiler {
            process,
            requests,
            answers: BufReader::new(answers),
        };
        let Greeting { .. } = compiler.line().context("NVRTC's process does not begin")?;
        Ok(compiler)
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<(Answer, Vec<u8>)> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.requests.write_all(&line)?;
        self.requests.flush()?;
        let answer: Answer = self.line()?;
        let mut cubin = vec![0; answer.cubin_bytes];
        self.answers.read_exact(&mut cubin)?;
        Ok((answer, cubin))
    }

    fn line<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Why there was no answer.
    fn ended(mut self, limit_s: u64) -> anyhow::Error {
        let status = self.process.wait();
        match status {
            Ok(status) if status.signal() == Some(libc::SIGALRM) => anyhow::Error::new(TooLong {
                compiler: "NVRTC",
                seconds: limit_s,
            }),
            Ok(status) => anyhow::anyhow!("NVRTC's process ended: {status}"),
            Err(error) => anyhow::anyhow!("NVRTC's process ended: {error}"),
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The first line of a log with an error.
fn first_error(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("error"))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_a_log_is_its_reason() {
        let log = "kernel.cu(1): warning: unused\nkernel.cu(3): error: identifier \"floaat\" is undefined\n\n1 error detected";
        let reason = first_error(log).unwrap();
        assert_eq!(
            reason,
            "kernel.cu(3): error: identifier \"floaat\" is undefined"
        );
        assert_eq!(first_error("ptxas info    : 0 bytes gmem"), None);
    }
}
