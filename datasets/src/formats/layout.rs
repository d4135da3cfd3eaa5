//! Where the schema's columns are in a file that may hold them in another order.

use std::path::Path;

use crate::error::{Error, Result};
use crate::schema::COLUMNS;

/// For each column of the schema, its position in the file.
///
/// # Errors
/// The names of the columns that are missing, unknown or repeated.
pub(super) fn positions(path: &Path, names: &[&str]) -> Result<Vec<usize>> {
    let found: Vec<Option<usize>> = COLUMNS
        .iter()
        .map(|column| names.iter().position(|name| *name == column.name))
        .collect();
    let missing: Vec<String> = COLUMNS
        .iter()
        .zip(&found)
        .filter(|(_, position)| position.is_none())
        .map(|(column, _)| column.name.to_owned())
        .collect();
    let unknown: Vec<String> = names
        .iter()
        .enumerate()
        .filter(|(position, _)| !found.contains(&Some(*position)))
        .map(|(_, name)| (*name).to_owned())
        .collect();
    if missing.is_empty() && unknown.is_empty() {
        Ok(found.into_iter().flatten().collect())
    } else {
        Err(Error::Header {
            path: path.to_owned(),
            missing,
            unknown,
        })
    }
}
