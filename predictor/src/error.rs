//! The predictor's errors, worded for the person who has to act on them.

use std::path::PathBuf;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be evaluated, asked or suggested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A dataset or log could not be read.
    #[error(transparent)]
    Data(#[from] opdata::Error),
    /// Nothing could be learned, or XGBoost's library failed.
    #[error(transparent)]
    Learn(#[from] oplearn::Error),
    /// A model file that cannot be read.
    #[error("{}: {detail}; {next}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        detail: String,
        /// The action that mends it.
        next: &'static str,
    },
    /// A file of measurements that cannot be read as one.
    #[error("{0}")]
    File(String),
    /// A query that makes no sense or that the model cannot answer.
    #[error("{0}")]
    Query(String),
}
