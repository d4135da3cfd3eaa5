//! Errors of reading, matching and exporting dumps.
//!
//! Each names the place (file and byte offset if there is one), what was found and expected, and the remedy. Losses
//! that leave the rest usable are not errors but entries of the [`crate::report::Report`]; `--strict` turns those into
//! [`Error::Strict`].

use std::io;
use std::path::{Path, PathBuf};

/// The fault, with its place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {action}: {reason}{}", path.display(), hint(reason))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The action that failed, e.g. "cannot read".
        action: &'static str,
        /// The system's reason; part of the message, so not its source as well.
        reason: io::Error,
    },
    /// The folder is not a dump this crate reads.
    #[error("{}: {what}; {next}", path.display())]
    NotADump {
        /// The folder.
        path: PathBuf,
        /// The missing or different part.
        what: String,
        /// The remedy.
        next: &'static str,
    },
    /// A line of `global.profile` has no sense.
    #[error("{}:{line}: {what}", path.display())]
    Global {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The fault, and the expected value.
        what: String,
    },
    /// Bytes of a profile file break its format.
    #[error("{}: at byte {offset}: {found}; expected {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Byte offset from the start of the file.
        offset: u64,
        /// The value found.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// A JSON file (host trace, layer file, exported profile) cannot be used.
    #[error("{}: {what}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where in the file, and what is wrong there.
        what: String,
    },
    /// `--strict` was given and the dump is not whole.
    #[error(
        "{}: {count} problem{} and --strict was given; the first: {first}",
        path.display(),
        if *count == 1 { "" } else { "s" }
    )]
    Strict {
        /// The dump.
        path: PathBuf,
        /// Number of findings in the report.
        count: usize,
        /// The first finding.
        first: String,
    },
    /// An option has a value that makes no sense.
    #[error("{option}: {what}")]
    Option {
        /// The option as typed.
        option: &'static str,
        /// The fault, and the allowed values.
        what: String,
    },
    /// The spreadsheet library refused.
    #[error("{}: cannot write the workbook: {what}", path.display())]
    Workbook {
        /// The file.
        path: PathBuf,
        /// The library's reason.
        what: String,
    },
    /// The dataset's library refused.
    #[error(transparent)]
    Dataset(#[from] Box<opdata::Error>),
    /// The recorded command could not be run, or wrote nothing.
    #[error("{what}; {next}")]
    Record {
        /// The fault.
        what: String,
        /// The remedy.
        next: String,
    },
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; free some space or choose another --out",
        io::ErrorKind::PermissionDenied => "; check its owner and permissions",
        io::ErrorKind::NotFound => "; check the path",
        _ => "",
    }
}

/// Adds the path and the action to an I/O error.
pub(crate) fn io_at(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |reason| Error::Io {
        path,
        action,
        reason,
    }
}
