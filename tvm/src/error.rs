//! Errors between this program and TVM, as one type.
//!
//! TVM's own messages carry C++ backtraces and, for schedules, the whole program text. They are cut down here, once,
//! to the part that says what happened; the full text stays available in [`Error::detail`].

use std::path::PathBuf;

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of loading TVM or of a call into it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// TVM's libraries were not found in any of these folders.
    #[error("TVM's libraries were not found (looked in {}); run scripts/setup, or set OPBENCH_SITE_PACKAGES to the site-packages folder of a virtual environment that has apache-tvm",
        looked.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotFound {
        /// The folders that were searched, in order.
        looked: Vec<PathBuf>,
    },
    /// The libraries found are of another version than this program was built for.
    #[error("{package} {found} is installed in {}, but this program needs {wanted}; run scripts/setup", site.display())]
    WrongVersion {
        /// Distribution name, for example `apache-tvm`.
        package: &'static str,
        /// Version that is installed.
        found: String,
        /// Version that is needed.
        wanted: &'static str,
        /// The site-packages folder searched.
        site: PathBuf,
    },
    /// A library is there but the dynamic loader refuses it.
    #[error("cannot load {}: {reason}", path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's own words.
        reason: String,
    },
    /// TVM's runtime does not reach a device.
    #[error(
        "there is no device {device}: this machine does not have it, or TVM's runtime for it is not loaded"
    )]
    NoDevice {
        /// The requested device, as TVM writes it: `cuda(0)`.
        device: String,
    },
    /// A call into TVM failed.
    #[error("{call}: {message}")]
    Tvm {
        /// The global function or method that was called.
        call: String,
        /// The essential sentence of TVM's message.
        message: String,
        /// TVM's message in full.
        detail: String,
    },
    /// A value came back with another type or shape than the call promises.
    #[error("{call} returned something unexpected: {reason}")]
    Unexpected {
        /// The call.
        call: String,
        /// The fault of its result.
        reason: String,
    },
}

impl Error {
    pub(crate) fn from_tvm(call: &str, error: &tvm_ffi::Error) -> Self {
        let detail = error.message().to_owned();
        Error::Tvm {
            call: call.to_owned(),
            message: essential(&detail),
            detail,
        }
    }

    pub(crate) fn unexpected(call: &str, reason: impl ToString) -> Self {
        Error::Unexpected {
            call: call.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// TVM's full message, where there is one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Error::Tvm { detail, .. } => Some(detail),
            _ => None,
        }
    }
}

/// The sentence of a TVM message that says what happened.
///
/// A schedule error ends with `Error message: …` after the program text; every other message starts with its point.
fn essential(detail: &str) -> String {
    let text = match detail.split_once("Error message:") {
        Some((_, after)) => after.trim(),
        None => detail.trim(),
    };
    let line = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.ends_with(OF_REMOTE))
        .unwrap_or("no message");
    let mut line = line.to_owned();
    if line.len() > MAX_MESSAGE {
        let cut = (0..=MAX_MESSAGE)
            .rev()
            .find(|&i| line.is_char_boundary(i))
            .unwrap_or(0);
        line.truncate(cut);
        line.push('…');
    }
    line
}

/// The line before the message of another machine.
const OF_REMOTE: &str = "Error caught from RPC call:";

/// Longest message kept, in bytes: a row's reason is one line.
const MAX_MESSAGE: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_errors_are_cut_to_their_point() {
        let text = "ScheduleError: An error occurred\n# from tvm.script import …\nclass Module:\n  …\nError message: The loops can't be fused.\n";
        assert_eq!(essential(text), "The loops can't be fused.");
    }

    #[test]
    fn the_message_of_another_machine_is_its_own() {
        let text = "RPCError: Error caught from RPC call:\nno such file\n";
        assert_eq!(essential(text), "no such file");
    }

    #[test]
    fn long_messages_are_cut_on_a_character_boundary() {
        let text = "é".repeat(MAX_MESSAGE);
        let cut = essential(&text);
        assert!(cut.ends_with('…') && cut.len() <= MAX_MESSAGE + '…'.len_utf8());
    }
}
