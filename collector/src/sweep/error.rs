//! Faults of a sweep, and their place in its file.

use std::path::{Path, PathBuf};

use opdata::line_of;
use opreport::nearest::did_you_mean;
use thiserror::Error;

/// Why a sweep cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SweepError {
    /// There is no such file.
    #[error(
        "there is no sweep `{name}`{}; `opcollect list sweeps` shows those that come with the program, and a path ends in .toml",
        near(nearest)
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// A name like it.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    #[error("cannot read the sweep {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file has a value that is not allowed.
    #[error("{}:{line}: {problem}; {next}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Description of the fault.
        problem: String,
        /// The remedy.
        next: String,
    },
}

/// ` (did you mean …?)`, or nothing.
pub(super) fn near(name: &Option<String>) -> String {
    did_you_mean(name.as_slice())
}

/// A file's text, for errors with lines.
pub(super) struct SweepText<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its text.
    pub text: &'a str,
}

impl SweepText<'_> {
    /// The line, from 1, of a byte offset of the text.
    pub(super) fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    /// The error `problem` at a byte offset of the text; `next` says what to do.
    pub(super) fn wrong(&self, offset: usize, problem: String, next: &str) -> SweepError {
        SweepError::Wrong {
            path: self.path.to_owned(),
            line: self.line(offset),
            problem,
            next: next.to_owned(),
        }
    }
}
