//! Reading files that users name: regular ones of a bounded size, so that no device or pipe is read for ever.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Checks that `path` is a regular file.
///
/// # Errors
/// Fails if it is not a regular file, or if its properties cannot be read.
pub(crate) fn check_regular(path: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(path)?;
    match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// Fails if it is larger, is not text, or cannot be read.
pub fn read_file(path: &Path, limit: u64) -> Result<String> {
    let bytes = check_regular(path)?;
    if bytes > limit {
        let what = format!("it has {bytes} bytes, more than the {limit} that are read");
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    std::fs::read_to_string(path)
}
