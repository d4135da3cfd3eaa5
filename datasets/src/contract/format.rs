//! Format numbers of records.

use serde_json::Value;

use crate::error::FormatError;

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
) -> Result<(), FormatError> {
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
