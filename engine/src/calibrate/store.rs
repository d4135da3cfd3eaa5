//! Where calibrations are kept: one JSON file a machine, in a folder of the installation's cache.
//!
//! A file is replaced as a whole, so it is never half written. A reader can distinguish a missing file from an unusable
//! one, with the reason. Neither stops a run.

use std::path::{Path, PathBuf};

use opdata::contract::{CALIBRATION_FORMAT, Calibration};

/// How to replace a file that cannot be used.
const AGAIN: &str = "`opcollect doctor --calibrate` writes it anew";

/// Why a calibration could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there but cannot be read.
    #[error("the calibration {} cannot be read: {source}; make it readable, or remove it and calibrate again", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not a valid calibration.
    #[error("the calibration {} is damaged ({reason}); {AGAIN}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The file is of another version of the program.
    #[error("the calibration {} has format {found}, this program reads format {CALIBRATION_FORMAT}; {AGAIN}", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file says that it is another machine's.
    #[error("the calibration {} is of another machine ({found}); {AGAIN}", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
        /// The machine's name in the file.
        found: String,
    },
    /// The folder cannot be made.
    #[error("cannot create {}: {source}; the calibration is not kept: make the folder writable, or name another installation by OPBENCH_HOME", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("the calibration is not kept: {source}")]
    NotWritten {
        /// Why; it names the file.
        source: opdata::Error,
    },
}

/// A folder of calibrations, which need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The calibrations in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store {
            folder: folder.into(),
        }
    }

    /// The file of a machine.
    pub fn file(&self, env_hash: &str) -> PathBuf {
        self.folder.join(format!("{env_hash}.json"))
    }

    /// The calibration of a machine, if there is one.
    ///
    /// # Errors
    /// Fails if there is one that cannot be used.
    pub fn load(&self, env_hash: &str) -> Result<Option<Calibration>, StoreError> {
        let path = self.file(env_hash);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Unreadable { path, source }),
        };
        let calibration = read(&path, &text)?;
        if calibration.env_hash != env_hash {
            let found = calibration.env_hash;
            return Err(StoreError::OtherMachine { path, found });
        }
        Ok(Some(calibration))
    }

    /// Keeps a calibration in place of the one before it; returns its file.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn save(&self, calibration: &Calibration) -> Result<PathBuf, StoreError> {
        std::fs::create_dir_all(&self.folder).map_err(|source| StoreError::NoFolder {
            path: self.folder.clone(),
            source,
        })?;
        let path = self.file(&calibration.env_hash);
        let text = serde_json::to_string_pretty(calibration).map_err(|e| StoreError::Damaged {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        opdata::write_atomically(&path, format!("{text}\n").as_bytes())
            .map_err(|source| StoreError::NotWritten { source })?;
        Ok(path)
    }
}

fn read(path: &Path, text: &[u8]) -> Result<Calibration, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|e| damaged(e.to_string()))?;
    match value["format"].as_u64() {
        Some(found) if found != u64::from(CALIBRATION_FORMAT) => {
            let path = path.to_owned();
            return Err(StoreError::OtherFormat { path, found });
        }
        Some(_) => {}
        None => return Err(damaged("it has no format".to_owned())),
    }
    let calibration: Calibration =
        serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
    match calibration.complaint() {
        None => Ok(calibration),
        Some(reason) => Err(damaged(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::testing::calibration;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("calibrations"));
        (folder, store)
    }

    #[test]
    fn what_was_saved_is_loaded_for_its_machine_alone() {
        let (_folder, store) = store();
        let here = calibration("here");
        assert_eq!(store.load("here").unwrap(), None);
        assert_eq!(store.save(&here).unwrap(), store.file("here"));
        assert_eq!(store.load("here").unwrap(), Some(here));
        assert_eq!(store.load("there").unwrap(), None);
        let files = std::fs::read_dir(&store.folder).unwrap().count();
        assert_eq!(files, 1, "no temporary file stays");
    }

    #[test]
    fn what_cannot_be_used_says_why_and_what_next() {
        let (_folder, store) = store();
        store.save(&calibration("m")).unwrap();
        let whole = std::fs::read_to_string(store.file("m")).unwrap();
        let cases = [
            (whole[..whole.len() / 2].to_owned(), "is damaged (EOF"),
            (String::new(), "is damaged"),
            ("[]".to_owned(), "it has no format"),
            (
                whole.replace("\"format\": 1", "\"format\": 7"),
                "has format 7",
            ),
            (
                whole.replace("\"env_hash\": \"m\"", "\"env_hash\": \"n\""),
                "another machine (n)",
            ),
            (
                whole.replace("\"threads\": 1", "\"threads\": 0"),
                "no threads",
            ),
            (
                whole.replace("\"best\": 100.0", "\"best\": -1.0"),
                "not a positive number",
            ),
            (
                whole.replace("\"best\": 100.0", "\"best\": null"),
                "is damaged",
            ),
        ];
        for (text, reason) in cases {
            assert_ne!(text, whole, "{reason}");
            std::fs::write(store.file("m"), text).unwrap();
            let error = store.load("m").unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.contains("doctor --calibrate"), "{error}");
        }
    }

    #[test]
    fn folders_in_the_way_are_named() {
        let (folder, store) = store();
        std::fs::create_dir_all(store.file("m")).unwrap();
        let error = store.load("m").unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Store::new(file.join("x"))
            .save(&calibration("m"))
            .unwrap_err();
        assert!(matches!(error, StoreError::NoFolder { .. }), "{error}");
    }
}
