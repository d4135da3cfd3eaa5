//! Outcomes of kernels and points: built, a duplicate, or a failure with its status and reason.

use opdata::Status;

use super::transport::WorkerError;
use crate::protocol::{Built, Reply};

/// Why a kernel was not built or a point not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status of the point in the dataset.
    pub status: Status,
    /// The reason, in one line.
    pub reason: String,
}

impl Failure {
    /// The user stopped the run before the point.
    pub fn interrupted() -> Failure {
        Failure {
            status: Status::Skipped,
            reason: "the run was interrupted before this point".to_owned(),
        }
    }

    /// Whether the point was interrupted, so that it still has to be measured.
    pub fn is_interruption(&self) -> bool {
        *self == Failure::interrupted()
    }

    /// The failure of a worker that answered a request with a reply to another.
    pub(super) fn unexpected(reply: &Reply) -> Failure {
        Failure {
            status: Status::Crashed,
            reason: format!("the worker gave an answer to another question: {reply:?}"),
        }
    }
}

impl From<&WorkerError> for Failure {
    fn from(error: &WorkerError) -> Failure {
        match error {
            WorkerError::Interrupted => Failure::interrupted(),
            other => Failure {
                status: Status::Crashed,
                reason: other.to_string(),
            },
        }
    }
}

/// The outcome of a build.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// A kernel.
    New(Box<Built>),
    /// Nothing: the program is that of an earlier kernel.
    Duplicate {
        /// The kernel with the same program.
        of: u64,
    },
}
