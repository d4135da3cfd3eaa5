//! Format numbers of records.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, FormatError, Result};

/// The format of records that have no number yet.
pub(super) fn first_format() -> u32 {
    1
}

/// Refuses a record whose `format` is not `supported`; a missing number counts as the first format.
pub(super) fn check_format(
    what: &'static str,
    format: &Value,
    supported: u32,
    writer: Option<&str>,
) -> std::result::Result<(), FormatError> {
    let found = match format {
        Value::Null => Some(u64::from(first_format())),
        number => number.as_u64(),
    };
    match found {
        Some(found) if found == u64::from(supported) => Ok(()),
        Some(found) => Err(FormatError::Other {
            what,
            found,
            supported: supported.into(),
            writer: writer.map(str::to_owned),
        }),
        None => Err(FormatError::Damaged {
            what,
            detail: format!("`{format}` is no format number"),
        }),
    }
}

/// Reads a record of a file of its own; `fix` is what to do about a damaged one.
///
/// # Errors
/// Fails if the file cannot be read, is of another format, or is damaged.
pub(super) fn load_record<T: DeserializeOwned>(
    path: &Path,
    what: &'static str,
    supported: u32,
    fix: &'static str,
) -> Result<T> {
    let bytes = crate::read_bytes(path).map_err(|source| Error::io("read", path, source))?;
    let damaged = |error: serde_json::Error| Error::Damaged {
        path: path.to_owned(),
        detail: error.to_string(),
        fix,
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    check_format(what, &value["format"], supported, None).map_err(|source| Error::Format {
        path: path.to_owned(),
        source,
    })?;
    T::deserialize(value).map_err(damaged)
}
