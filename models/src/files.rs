//! Checks files that a user names: only regular files of a plausible size are read.
//!
//! A device or a pipe could be read for ever, and a file beyond every bound would fill the memory first.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{ImportError, Result};

/// Largest ONNX file: what a protobuf message can hold.
const LARGEST_MODEL: u64 = (2 << 30) - 1;
/// Largest file of text.
const LARGEST_TEXT: u64 = 16 << 20;

/// Whether `path` can be an ONNX file, by its kind and size.
pub(crate) fn require_model(path: &Path) -> Result<()> {
    let bytes = regular(path, "an ONNX file")?;
    if bytes > LARGEST_MODEL {
        let reason = "export the model with external data (its weights beside it)";
        return Err(ImportError::CorruptModel {
            message: format!(
                "{}: {bytes} bytes are more than an ONNX file can have; {reason}",
                path.display()
            ),
        });
    }
    Ok(())
}

/// Whether `path` can be a file that the importer reads; `wanted` is what it should be.
pub(crate) fn require_file(path: &Path, wanted: &str) -> Result<()> {
    regular(path, wanted).map(|_| ())
}

/// Reads a file of text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = regular(path, "a text file")?;
    if bytes > LARGEST_TEXT {
        let message = format!(
            "{}: {bytes} bytes are too many for a text file",
            path.display()
        );
        return Err(ImportError::MissingFile {
            path: path.to_path_buf(),
            message,
        });
    }
    std::fs::read_to_string(path).map_err(|e| ImportError::io(path, e))
}

/// Adds a file's content to a hash without holding it in memory. Returns the number of bytes.
pub(crate) fn hash(hash: &mut Sha256, path: &Path) -> Result<u64> {
    let failed = |e| ImportError::io(path, e);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            return Ok(bytes);
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// The size of a regular file.
fn regular(path: &Path, wanted: &str) -> Result<u64> {
    let found = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    let other = if found.is_dir() {
        format!("{} is a folder, not {wanted}", path.display())
    } else if !found.is_file() {
        format!(
            "{} is a device or a pipe, not a regular file; copy {wanted} out of it first",
            path.display()
        )
    } else {
        return Ok(found.len());
    };
    Err(ImportError::MissingFile {
        path: path.to_path_buf(),
        message: other,
    })
}
