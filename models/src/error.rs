//! Everything that can go wrong on the way to a graph, as one enum.
//!
//! Each message says what is wrong, where, and what to do next. Kinds that the Python importer reports keep its name
//! (see `opbench_import/errors.py`).

use std::io;
use std::path::{Path, PathBuf};

/// The result of a step of an import.
pub type Result<T, E = ImportError> = std::result::Result<T, E>;

/// A failed import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No model of that name in the registry.
    #[error(
        "unknown model '{name}'{}; `opcollect list models` shows all of them",
        did_you_mean(nearest)
    )]
    UnknownModel {
        /// The user's text.
        name: String,
        /// The closest names, best first.
        nearest: Vec<String>,
    },
    /// No model of that name in an installed library of models.
    #[error("{message}")]
    NotInLibrary {
        /// The search, and the nearest names.
        message: String,
    },
    /// A package that this source of models needs, and that only set-up on request installs.
    #[error("{message}")]
    MissingExtra {
        /// Which, and how to install it.
        message: String,
    },
    /// A single-operator specification that cannot be read.
    #[error("simple operator '{spec}': {reason}")]
    BadSpec {
        /// The user's text.
        spec: String,
        /// Description of the fault, and a correct example.
        reason: String,
    },
    /// A file that should be there is not.
    #[error("{message}")]
    MissingFile {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        message: String,
    },
    /// A model file that cannot be read or contradicts itself.
    #[error("{message}")]
    CorruptModel {
        /// The fault and its place.
        message: String,
    },
    /// An operator that cannot be imported.
    #[error("{message}")]
    UnsupportedOperator {
        /// ONNX operator type.
        op: String,
        /// Name of the node, or of its first result where it has none.
        node: String,
        /// The fault, its place, and an alternative.
        message: String,
    },
    /// An import that computes something else than the model's own framework.
    #[error("{message}")]
    WrongImport {
        /// The framework, the first node that differs, and by how much.
        message: String,
    },
    /// A batch size, sequence length or input shape that does not fit.
    #[error("{message}")]
    BadShape {
        /// The fault and its place.
        message: String,
    },
    /// A table of composite operators that cannot be used.
    #[error("{message}")]
    BadComposites {
        /// The file and the line, the fault there, and a correct example.
        message: String,
    },
    /// An override of an input that the model does not have.
    #[error("the model has no input '{name}' (inputs: {})", inputs.join(", "))]
    UnknownInput {
        /// The user's text.
        name: String,
        /// The model's inputs.
        inputs: Vec<String>,
    },
    /// A file of another machine that cannot be had.
    #[error("{message}")]
    Remote {
        /// The address, the reason, and the way round.
        message: String,
    },
    /// The registry cannot be read.
    #[error("{}: {reason}", path.display())]
    BadRegistry {
        /// The registry file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left while writing {}; free some space or name another cache folder", path.display())]
    NoSpace {
        /// The file or folder being written.
        path: PathBuf,
    },
    /// The file system refused access.
    #[error("no permission for {}; change its owner or name another cache folder", path.display())]
    NoPermission {
        /// The file or folder.
        path: PathBuf,
    },
    /// Another failure of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The Python interpreter of the virtual environment is missing or does not start.
    #[error("cannot run Python at {}: {reason}; run scripts/setup, or name an interpreter with --python", path.display())]
    PythonMissing {
        /// The interpreter.
        path: PathBuf,
        /// Why it does not run.
        reason: String,
    },
    /// The importer ended without an answer.
    #[error("the importer failed ({status}): {last_lines}\nits whole output is in {}", log.display())]
    Crashed {
        /// How the process ended.
        status: String,
        /// The last lines of its standard error.
        last_lines: String,
        /// The file with all of the importer's output.
        log: PathBuf,
    },
    /// Ctrl-C reached the importer.
    #[error("import interrupted; nothing was kept")]
    Interrupted,
}

impl ImportError {
    /// Whether the user asked for something impossible (a usage error) rather than something going wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownModel { .. }
                | Self::NotInLibrary { .. }
                | Self::BadSpec { .. }
                | Self::BadShape { .. }
                | Self::BadComposites { .. }
                | Self::UnknownInput { .. }
        )
    }

    /// The error for a failed access to `path`.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NoPermission { path }
            }
            io::ErrorKind::NotFound => Self::MissingFile {
                message: format!("{}: no such file; check the path", path.display()),
                path,
            },
            _ => Self::Io { path, source },
        }
    }
}

/// ` (did you mean 'a' or 'b'?)`, or nothing without candidates.
pub(crate) fn did_you_mean<T: AsRef<str>>(candidates: &[T]) -> String {
    let quoted = candidates.iter().map(|c| format!("'{}'", c.as_ref()));
    opreport::nearest::did_you_mean(&quoted.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disks_and_refusals_have_their_own_kinds() {
        let path = Path::new("/cache");
        let full = ImportError::io(path, io::Error::from(io::ErrorKind::StorageFull));
        let refused = ImportError::io(path, io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(full, ImportError::NoSpace { .. }));
        assert!(matches!(refused, ImportError::NoPermission { .. }));
        assert!(refused.to_string().contains("/cache"));
    }

    #[test]
    fn unknown_models_name_their_neighbours() {
        let error = ImportError::UnknownModel {
            name: "resnet18x".into(),
            nearest: vec!["resnet-18".into()],
        };
        insta::assert_snapshot!(error, @"unknown model 'resnet18x' (did you mean 'resnet-18'?); `opcollect list models` shows all of them");
        assert!(error.is_usage());
    }
}
