//! The import cache: one folder an import, moved into place when complete.
//!
//! `<root>/<key>/` holds the importer's files and `entry.json`, written last: sizes of all files and hashes of the two
//! JSON files. An entry that does not match it is damaged and imported again. `<root>/.lock-<key>` keeps two processes
//! from importing the same model at once; readers need no lock, because a complete entry never changes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{ImportError, Result};
use crate::graph::Graph;
use crate::hex::hex;

/// Name of the file that makes an entry complete.
const MANIFEST: &str = "entry.json";
/// Format of entry.json.
const FORMAT: u32 = 1;

/// Where imports are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// The contents of entry.json.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: BTreeMap<String, FileFacts>,
}

/// Facts that a file must match.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileFacts {
    bytes: u64,
    /// Given only for JSON files: hashing gigabytes of weights at each start would cost more than it protects.
    sha256: Option<String>,
}

/// A folder under construction; removed unless it is moved into place.
#[derive(Debug)]
pub(crate) struct Staging {
    folder: PathBuf,
}

impl Cache {
    /// A cache in `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder of all entries.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of one entry.
    pub(crate) fn entry(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// The log file of a failed import.
    pub(crate) fn log(&self, key: &str) -> PathBuf {
        self.root.join(format!("{key}.log"))
    }

    /// Reads the graph of a complete entry. Fails with the reason if it cannot.
    pub(crate) fn read(&self, key: &str) -> Result<Graph, String> {
        Graph::read(&self.complete(key)?.join("graph.json"))
    }

    /// The folder of a complete entry, or why it is incomplete.
    pub(crate) fn complete(&self, key: &str) -> Result<PathBuf, String> {
        let folder = self.entry(key);
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if manifest.format != FORMAT {
            return Err(format!("{}: format {}", path.display(), manifest.format));
        }
        for (name, expected) in &manifest.files {
            let found = facts(&folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
            if found != *expected {
                return Err(format!("{}: {name} has changed", folder.display()));
            }
        }
        Ok(folder)
    }

    /// Waits until no other process imports `key`; the lock ends with the returned file.
    pub(crate) fn lock(&self, key: &str) -> Result<File> {
        std::fs::create_dir_all(&self.root).map_err(|e| ImportError::io(&self.root, e))?;
        let path = self.root.join(format!(".lock-{key}"));
        let failed = |e| ImportError::io(&path, e);
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// An empty folder for the importer; leftovers of killed imports of the same key go. Call with the lock held.
    pub(crate) fn stage(&self, key: &str) -> Result<Staging> {
        let folder = self.root.join(format!(".new-{key}"));
        remove(&folder)?;
        std::fs::create_dir(&folder).map_err(|e| ImportError::io(&folder, e))?;
        Ok(Staging { folder })
    }

    /// Completes a staged entry and moves it into place. Call with the lock held.
    pub(crate) fn publish(&self, key: &str, staging: &Staging) -> Result<()> {
        let folder = &staging.folder;
        let mut files = BTreeMap::new();
        for item in std::fs::read_dir(folder).map_err(|e| ImportError::io(folder, e))? {
            let item = item.map_err(|e| ImportError::io(folder, e))?;
            let found = facts(&item.path()).map_err(|e| ImportError::io(&item.path(), e))?;
            files.insert(item.file_name().to_string_lossy().into_owned(), found);
        }
        let text = serde_json::to_string_pretty(&Manifest {
            format: FORMAT,
            files,
        })
        .unwrap_or_default();
        let path = folder.join(MANIFEST);
        write_synced(&path, text.as_bytes()).map_err(|e| ImportError::io(&path, e))?;
        let target = self.entry(key);
        remove(&target)?;
        std::fs::rename(folder, &target).map_err(|e| ImportError::io(&target, e))
    }
}

impl Staging {
    /// The folder to write to.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After publishing there is nothing left to remove, and a failed removal is cleaned up by the next import.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes a folder if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(ImportError::io(folder, e)),
        _ => Ok(()),
    }
}

/// Size, and hash where it is cheap.
fn facts(path: &Path) -> std::io::Result<FileFacts> {
    let bytes = std::fs::metadata(path)?.len();
    let is_json = path.extension().is_some_and(|x| x == "json");
    let sha256 = is_json
        .then(|| std::fs::read(path))
        .transpose()?
        .map(|text| hex(&Sha256::digest(text)));
    Ok(FileFacts { bytes, sha256 })
}

/// Writes a file and waits for the disk.
fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests_sample;

    fn publish(cache: &Cache, key: &str) {
        let _lock = cache.lock(key).unwrap();
        let staging = cache.stage(key).unwrap();
        std::fs::write(staging.folder().join("graph.json"), tests_sample()).unwrap();
        std::fs::write(staging.folder().join("module.json"), "{}").unwrap();
        std::fs::write(staging.folder().join("params.bin"), [0; 128]).unwrap();
        cache.publish(key, &staging).unwrap();
    }

    #[test]
    fn published_entries_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("imports"));
        assert!(cache.read("a").is_err());
        publish(&cache, "a");
        assert_eq!(cache.read("a").unwrap().model, "tiny");
        assert!(!cache.root().join(".new-a").exists());
    }

    #[test]
    fn damaged_entries_are_noticed_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        for (file, damage) in [
            ("graph.json", "{"),
            ("module.json", "[]"),
            ("params.bin", "short"),
            ("entry.json", ""),
        ] {
            publish(&cache, "a");
            std::fs::write(cache.entry("a").join(file), damage).unwrap();
            assert!(cache.read("a").is_err(), "{file}");
        }
        publish(&cache, "a");
        std::fs::remove_file(cache.entry("a").join("params.bin")).unwrap();
        assert!(cache.read("a").is_err());
        publish(&cache, "a");
        assert!(cache.read("a").is_ok());
    }

    #[test]
    fn abandoned_imports_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let _lock = cache.lock("a").unwrap();
        let staging = cache.stage("a").unwrap();
        let place = staging.folder().to_path_buf();
        std::fs::write(place.join("module.json"), "half").unwrap();
        drop(staging);
        assert!(!place.exists() && cache.read("a").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_root_that_is_a_file_is_reported_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("taken");
        std::fs::write(&file, "").unwrap();
        let error = Cache::new(file.join("imports"))
            .lock("a")
            .unwrap_err()
            .to_string();
        assert!(error.contains("taken"), "{error}");
    }
}
