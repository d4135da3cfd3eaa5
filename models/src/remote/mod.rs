//! Model files of other machines: fetched once, kept under the cache of imports, checked by their hash.
//!
//! `downloads/<hash of the address>/` holds the file, an archive's unpacked `model/`, and `download.json`, written last.
//! A fetch that was cut short goes on where it stopped.

mod fetch;
pub(crate) mod hub;
mod unpack;

use std::fmt;
use std::path::{Path, PathBuf};

use opdata::safe_file_name;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::{self, Cache};
use crate::error::{ImportError, Result};
use crate::files;
use crate::hex::hex;

/// Name of the file that makes a download complete.
const RECORD: &str = "download.json";
/// Folder of an archive's files.
const UNPACKED: &str = "model";
/// Characters of the address's hash in a folder name.
const DIGITS: usize = 16;

/// The file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// `http` or `https` address.
    pub url: String,
    /// SHA-256 that the file must have, in hexadecimal.
    pub sha256: Option<String>,
}

/// The progress of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes that are there.
    pub done: u64,
    /// Bytes of the whole, where the server says so.
    pub total: Option<u64>,
}

impl fmt::Display for Transfer {
    /// `12.5 of 97.8 MB`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        match self.total {
            Some(total) => write!(
                f,
                "{:.1} of {:.1} MB",
                megabytes(self.done),
                megabytes(total)
            ),
            None => write!(f, "{:.1} MB", megabytes(self.done)),
        }
    }
}

/// Called for about every megabyte that arrives.
pub type Watch<'a> = dyn FnMut(Transfer) + 'a;

/// The record of a finished download.
#[derive(Debug, Serialize, Deserialize)]
struct DownloadRecord {
    format: u32,
    url: String,
    sha256: String,
    bytes: u64,
}

/// Fetches a file, unless it is there already, and unpacks it if it is an archive: the ONNX file.
///
/// # Errors
/// Fails with [`ImportError::Remote`] if the server cannot be reached or has no such file, and names the path for a
/// file fetched otherwise. Fails with [`ImportError::CorruptModel`] for another hash than expected, or for an archive
/// that is damaged, hostile, or holds not exactly one ONNX file.
pub(crate) fn file(wanted: &Wanted, cache: &Cache, watch: &mut Watch<'_>) -> Result<PathBuf> {
    let folder = cache
        .root()
        .join("downloads")
        .join(folder_name(&wanted.url));
    std::fs::create_dir_all(&folder).map_err(|e| ImportError::io(&folder, e))?;
    let _lock = cache.lock(&folder_name(&wanted.url))?;
    let path = folder.join(file_name(&wanted.url));
    if !is_complete(&folder, &path, wanted) {
        // A file of that name without a record was put there by a user, or is of an interrupted hash.
        if !path.exists() {
            fetch::fetch(&wanted.url, &path, watch)?;
        }
        let record = check(wanted, &path)?;
        cache::remove(&folder.join(UNPACKED))?;
        let text = serde_json::to_vec(&record).unwrap_or_default();
        let place = folder.join(RECORD);
        std::fs::write(&place, text).map_err(|e| ImportError::io(&place, e))?;
    }
    if !is_archive(&path) {
        return Ok(path);
    }
    let unpacked = folder.join(UNPACKED);
    if !unpacked.exists() {
        unpack::unpack(&path, &unpacked)?;
    }
    unpack::only_model(&unpacked, &path)
}

/// `<name>-<hash>`: the name for people, the hash for certainty.
fn folder_name(url: &str) -> String {
    let hash = hex(&Sha256::digest(url.as_bytes()));
    format!(
        "{}-{}",
        safe_file_name(&file_name(url), 40),
        &hash[..DIGITS]
    )
}

/// The last part of an address's path.
pub(crate) fn file_name(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let name = path.rsplit('/').find(|part| !part.is_empty());
    safe_file_name(name.unwrap_or("model"), 80)
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

/// Whether the record fits the file and the request.
fn is_complete(folder: &Path, path: &Path, wanted: &Wanted) -> bool {
    let text = std::fs::read(folder.join(RECORD)).unwrap_or_default();
    let Ok(record) = serde_json::from_slice::<DownloadRecord>(&text) else {
        return false;
    };
    let same_size = std::fs::metadata(path).is_ok_and(|facts| facts.len() == record.bytes);
    let same_hash = wanted
        .sha256
        .as_ref()
        .is_none_or(|hash| *hash == record.sha256);
    record.format == 1 && same_size && same_hash
}

/// Hashes a fetched file; one with another hash than wanted is removed.
fn check(wanted: &Wanted, path: &Path) -> Result<DownloadRecord> {
    let mut hash = Sha256::new();
    let bytes = files::hash(&mut hash, path)?;
    let sha256 = hex(&hash.finalize());
    if let Some(expected) = &wanted.sha256
        && *expected != sha256
    {
        std::fs::remove_file(path).map_err(|e| ImportError::io(path, e))?;
        return Err(ImportError::CorruptModel {
            message: format!(
                "{}: its SHA-256 is {sha256}, not {expected}; the file was removed: fetch it again, or from elsewhere",
                wanted.url
            ),
        });
    }
    Ok(DownloadRecord {
        format: 1,
        url: wanted.url.clone(),
        sha256,
        bytes,
    })
}

#[cfg(test)]
mod tests;
