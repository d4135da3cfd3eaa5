//! Standard output for data and standard error for messages.
//!
//! A closed pipe (`| head`) is no error; a full disk is one. Nothing here panics, unlike `print!`.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use crate::safe::{printable, printable_json};
use crate::{Colour, Style};

/// Form of the data on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
}

/// Amount of talk on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Progress and warnings.
    Normal,
    /// Errors, progress, warnings and details.
    Verbose,
}

/// How results and progress are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Form of the data on standard output.
    pub format: OutputFormat,
    /// Amount of talk on standard error.
    pub verbosity: Verbosity,
}

/// Prints an object as JSON, or its text, ending with one line break. Only the requested form is made.
///
/// # Errors
/// Fails if standard output cannot be written, other than because its reader has gone away.
pub fn show<T: Serialize>(
    view: View,
    object: impl FnOnce() -> T,
    text: impl FnOnce(Style) -> String,
) -> io::Result<()> {
    let data = match view.format {
        OutputFormat::Text => {
            let style = Style::for_stdout();
            printable(&text(style), style.colour).into_owned()
        }
        OutputFormat::Json => printable_json(&serde_json::to_string(&object())?).into_owned(),
    };
    print(format!("{}\n", data.trim_end()).as_bytes())
}

/// Writes bytes to standard output and flushes it.
///
/// # Errors
/// Fails as [`show`] does.
pub fn print(data: &[u8]) -> io::Result<()> {
    print_to(&mut io::stdout().lock(), data)
}

fn print_to(out: &mut impl Write, data: &[u8]) -> io::Result<()> {
    settled(out.write_all(data).and_then(|()| out.flush()))
}

fn settled(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(worded),
    }
}

fn worded(error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot write to standard output: {error}"),
    )
}

/// Data that comes piece by piece, to standard output.
#[derive(Debug)]
pub struct Stream<W: Write = io::Stdout>(io::BufWriter<W>);

impl Stream {
    /// Output to the process's standard output.
    pub fn stdout() -> Self {
        Self(io::BufWriter::new(io::stdout()))
    }
}

impl<W: Write> Stream<W> {
    /// Writes a piece.
    ///
    /// # Errors
    /// Fails with [`StreamError::ReaderGone`], or if standard output cannot be written for another reason.
    pub fn write(&mut self, data: &[u8]) -> Result<(), StreamError> {
        Ok(self.0.write_all(data)?)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn finish(mut self) -> Result<(), StreamError> {
        Ok(self.0.flush()?)
    }
}

/// Why a stream ended early.
#[derive(Debug)]
pub enum StreamError {
    /// Its reader closed the pipe: no fault, but a reason to stop.
    ReaderGone,
    /// The output cannot be written.
    Refused(io::Error),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::Refused(worded(error))
        }
    }
}

impl Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ReaderGone => f.write_str("the reader of standard output is gone"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {}

/// Makes a file that reaches the limit of `ulimit -f` an error of the write. Otherwise the signal SIGXFSZ ends the process
/// without a word.
pub fn limit_file_sizes_by_errors() {
    // SAFETY: ignoring a signal installs no handler, and nothing here relies on its default action.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The result of text that the command line's parser printed by itself: a closed pipe is no error.
///
/// # Errors
/// Fails if standard output cannot be written.
pub fn printed(result: io::Result<()>) -> io::Result<()> {
    settled(result.and_then(|()| io::stdout().flush()))
}

/// Writes a line of talk to standard error.
pub fn say(message: &str) {
    // There is no other place for an error message.
    let _ = writeln!(io::stderr(), "{}", printable(message, Colour::Off));
}

/// An error with its causes in one line, leaving out causes that the message before them repeats.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// Writes an error message to standard error.
pub fn complain(message: &str) {
    let mut stderr = io::stderr();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let label = if colour {
        "\u{1b}[1;31merror:\u{1b}[0m"
    } else {
        "error:"
    };
    // There is no other place for an error message.
    let _ = writeln!(stderr, "{label} {}", printable(message, Colour::Off));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_but_a_full_disk_is() {
        assert!(print_to(&mut Refusing(ErrorKind::BrokenPipe), b"x").is_ok());
        let gone = |kind| {
            let mut stream = Stream(io::BufWriter::new(Refusing(kind)));
            stream.write(b"x").unwrap();
            matches!(stream.finish(), Err(StreamError::ReaderGone))
        };
        assert!(gone(ErrorKind::BrokenPipe) && !gone(ErrorKind::StorageFull));
        let error = print_to(&mut Refusing(ErrorKind::StorageFull), b"x").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write to standard output: ")
        );
    }

    #[test]
    fn no_cause_is_said_twice() {
        #[derive(Debug)]
        struct Outer(&'static str, io::Error);
        impl Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.1)
            }
        }
        let full = || io::Error::other("full");
        assert_eq!(with_causes(&Outer("/x: full", full())), "/x: full");
        assert_eq!(with_causes(&Outer("/x", full())), "/x: full");
    }
}
