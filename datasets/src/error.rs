//! Errors of a dataset's files, worded for the person who has to act on them: what, where, and the
//! next thing to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::schema::SCHEMA_VERSION;

/// The result of everything here that touches a file.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A row that may not be part of a dataset.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("row `{row_id}`: column `{column}`: {detail}")]
pub struct InvalidRow {
    /// The row.
    pub row_id: String,
    /// The column at fault.
    pub column: &'static str,
    /// Description of the fault.
    pub detail: String,
}

/// Why a dataset could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder without a run in it.
    #[error("{} holds no run; a run's folder has rows.csv or rows.parquet in it", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A word that counts back from the newest run, further than there are runs.
    #[error("{word}: there are not as many runs in {}; `opcollect list runs` shows them", folder.display())]
    NoSuchRun {
        /// The word.
        word: String,
        /// The folder that was searched for runs.
        folder: PathBuf,
    },
    /// The disk (or quota) is full. Rows written before are whole.
    #[error("no space left to write {}; free some and resume the run: all rows written before are whole", path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The file has reached the limit that the shell or the file system sets. Rows written before are whole.
    #[error("{} has reached the limit for the size of a file; raise it (`ulimit -f`) and resume the run: all rows written before are whole", path.display())]
    SizeLimit {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The user may not read or write there.
    #[error("no permission to {action} {}; change its mode or owner, or choose another folder", path.display())]
    Permission {
        /// The action that failed: `read`, `write`, `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// A new run would write over an old one.
    #[error("{} already holds a run; choose another folder or resume that run", path.display())]
    RunExists {
        /// The file of the old run.
        path: PathBuf,
    },
    /// The file or folder is not there.
    #[error("{} does not exist; check the path", path.display())]
    NotFound {
        /// The file or folder.
        path: PathBuf,
    },
    /// Any other failure of the operating system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed: `read`, `write`, `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file whose name does not show its format.
    #[error("{} is not a dataset by its name; rows are in .csv, .parquet or .jsonl files or in a run's folder", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A cell that its column cannot hold.
    #[error("{}:{line}: column `{column}`: {detail}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line that the row begins on, or its number in a Parquet file; both from 1.
        line: u64,
        /// The column.
        column: String,
        /// Description of the fault, with the offending text.
        detail: String,
    },
    /// A row that cannot be taken apart into cells.
    #[error("{}:{line}: {detail}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line that the row begins on, from 1.
        line: u64,
        /// Description of the fault.
        detail: String,
    },
    /// The columns differ from the schema's.
    #[error("{}: not the columns of schema version {SCHEMA_VERSION}: {}", path.display(), columns_detail(missing, unknown))]
    Header {
        /// The file.
        path: PathBuf,
        /// Columns of the schema that the file lacks.
        missing: Vec<String>,
        /// Columns of the file that the schema lacks, or that are there twice.
        unknown: Vec<String>,
    },
    /// The columns are right but not in the order that appending needs.
    #[error("{}: the columns are not in the schema's order, so rows cannot be appended; convert the file first", path.display())]
    ColumnOrder {
        /// The file.
        path: PathBuf,
    },
    /// Another process writes the run.
    #[error("{}: another process is writing this run; wait for it, or end it first", path.display())]
    Busy {
        /// The file of rows.
        path: PathBuf,
    },
    /// There is not even a header.
    #[error("{} is empty; a dataset has a header at least", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The rows are of another version of the schema.
    #[error("{}: rows of schema version {found}, this program reads version {SCHEMA_VERSION}; {}", path.display(), version_hint(*found))]
    SchemaVersion {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
    },
    /// A Parquet file of another writer, compressed in a way that this build cannot undo.
    #[error("{}: compressed with {codec}, which this program cannot read; write it with Snappy or uncompressed", path.display())]
    Compression {
        /// The file.
        path: PathBuf,
        /// The compression.
        codec: String,
    },
    /// A file that is damaged as a whole.
    #[error("{} is damaged: {detail}; {fix}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        detail: String,
        /// How to mend the file.
        fix: &'static str,
    },
    /// A manifest of another format.
    #[error("{}: run format {found}, this program reads format {supported}; use the version of the tool that made it", path.display())]
    ManifestVersion {
        /// The file.
        path: PathBuf,
        /// The format in the file.
        found: u64,
        /// The format this build reads.
        supported: u64,
    },
    /// A record beside the rows that is of another format, or damaged.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault of the record.
        source: FormatError,
    },
    /// A row that the dataset must not hold. Nothing was written.
    #[error(transparent)]
    InvalidRow(#[from] InvalidRow),
    /// A row that the run holds already. Nothing was written.
    #[error("{}: row `{row_id}` is there already; number the points of a run without repeats", path.display())]
    DuplicateRow {
        /// The file.
        path: PathBuf,
        /// The row.
        row_id: String,
    },
}

impl Error {
    /// The error of an operation on `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            io::ErrorKind::FileTooLarge if action != "read" => Self::SizeLimit { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { action, path }
            }
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }
}

fn columns_detail(missing: &[String], unknown: &[String]) -> String {
    [("missing ", missing), ("unknown or repeated ", unknown)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(label, names)| format!("{label}{}", name_list(names)))
        .collect::<Vec<_>>()
        .join("; ")
}

/// The names, or the first of many: a file that is not a dataset lacks them all.
fn name_list(names: &[String]) -> String {
    const MOST: usize = 8;
    match names.get(..MOST) {
        Some(first) if names.len() > MOST => {
            format!("{} and {} more", first.join(", "), names.len() - MOST)
        }
        _ => names.join(", "),
    }
}

fn version_hint(found: u64) -> &'static str {
    if found > SCHEMA_VERSION {
        "use a newer version of the program"
    } else {
        "convert them with the version of the program that wrote them"
    }
}

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The record has another format.
    #[error(
        "{what} has format {found}{}, and this program reads format {supported}; {}",
        written_by(writer.as_deref()),
        if found > supported { "use a newer version of the program" } else { "use the version that wrote it, or measure again" }
    )]
    Other {
        /// The record.
        what: &'static str,
        /// Its format.
        found: u64,
        /// The format of this build.
        supported: u64,
        /// Version of the program that wrote it, if it says so.
        writer: Option<String>,
    },
    /// The content does not follow the record's format.
    #[error("{what} is damaged: {detail}; restore it from a copy, or measure again")]
    Damaged {
        /// The record.
        what: &'static str,
        /// Description of the fault.
        detail: String,
    },
}

impl FormatError {
    /// A record that does not deserialise.
    pub(crate) fn damaged(what: &'static str, error: &serde_json::Error) -> Self {
        Self::Damaged {
            what,
            detail: error.to_string(),
        }
    }
}

fn written_by(writer: Option<&str>) -> String {
    writer.map_or_else(String::new, |version| {
        format!(" (written by opcollect {version})")
    })
}
