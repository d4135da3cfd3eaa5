//! The process that NVRTC runs in, and its messages to and from its parent.
//!
//! The parent writes one JSON line a request. The child answers with one JSON line, and the cubin's bytes after it. A
//! compilation that takes too long ends the child by the alarm that it has set itself, so nothing has to watch it. A
//! child whose parent is gone finds the end of its input.

use std::io::{BufRead, Write};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::library::Library;
use super::toolkit::Toolkit;

/// The source to compile, with options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    /// The architecture, e.g. `sm_80`.
    pub arch: String,
    /// CUDA source.
    pub source: String,
    /// Longest time that it may take.
    pub limit_s: u32,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Messages of the compiler and the assembler.
    pub log: String,
    /// The fault, if there is one.
    pub problem: Option<String>,
    /// Bytes of the cubin, which follow this line.
    pub cubin_bytes: usize,
}

/// The first line of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// NVRTC's version, major and minor.
    pub version: (i32, i32),
}

/// Compiles the sources that `input` brings, until `input` ends.
///
/// # Errors
/// Fails if there is no NVRTC in the toolkit, or the parent cannot be understood or is gone.
pub(crate) fn serve(
    toolkit: &Toolkit,
    input: impl BufRead,
    mut output: impl Write,
) -> anyhow::Result<()> {
    let library = Library::open(toolkit)?;
    let greeting = Greeting {
        version: library.version(),
    };
    say(&mut output, &greeting, &[])?;
    let include = format!("-I{}", toolkit.include().display());
    for line in input.lines() {
        let request: Request = serde_json::from_str(&line?).context("not a request")?;
        let options = [
            format!("--gpu-architecture={}", request.arch),
            include.clone(),
            // The assembler's report of registers and memory comes with the log.
            "--ptxas-options=-v".to_owned(),
        ];
        // SAFETY: the system calls have no preconditions. The signal's default action ends this process.
        unsafe { libc::alarm(request.limit_s.max(1)) };
        let compiled = library.compile(&request.source, &options);
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
        let compiled = compiled?;
        let cubin = compiled.cubin.as_deref().unwrap_or_default();
        let answer = Answer {
            log: compiled.log,
            problem: compiled.cubin.as_ref().err().cloned(),
            cubin_bytes: cubin.len(),
        };
        say(&mut output, &answer, cubin)?;
    }
    Ok(())
}

/// The version of a toolkit's NVRTC, major and minor, asked in this process.
///
/// # Errors
/// Fails if it cannot be loaded.
pub(crate) fn version(toolkit: &Toolkit) -> anyhow::Result<(i32, i32)> {
    Ok(Library::open(toolkit)?.version())
}

fn say(output: &mut impl Write, line: &impl Serialize, bytes: &[u8]) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.write_all(bytes)?;
    Ok(output.flush()?)
}
