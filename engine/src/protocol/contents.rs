//! The files of an import that a worker reads, named by their content instead of their path.
//!
//! The parent says in its setup which module it means ([`ContentId`]). Whoever starts the worker makes sure that the
//! files are where the worker runs. A child on this machine gets their folder, a worker elsewhere gets copies. A worker
//! refuses a module with other bytes.

use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use opmodels::graph;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The operators' functions, as TVM's JSON.
const MODULE: &str = "module.json";
/// Values of weights that came with the model.
pub const PARAMETERS: &str = "params.bin";
/// Reference inputs and outputs that came with the model.
pub const REFERENCES: &str = "refs.bin";

/// A file's content: its SHA-256 in hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentId(String);

impl ContentId {
    /// The identity of some bytes.
    pub fn of(bytes: &[u8]) -> ContentId {
        let digits = Sha256::digest(bytes);
        ContentId(digits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The identity of the module in a folder.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn of_module(folder: &Path) -> anyhow::Result<ContentId> {
        let path = folder.join(MODULE);
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(ContentId::of(&bytes))
    }
}

/// A worker's copy of the files of an import.
#[derive(Debug, Clone)]
pub struct Contents {
    folder: PathBuf,
}

impl Contents {
    /// Names the folder to a worker that is started on this machine.
    pub const VARIABLE: &str = "OPBENCH_WORKER_FILES";

    /// The files in a folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Contents {
        Contents {
            folder: folder.into(),
        }
    }

    /// The files in the folder that this process was started with; by default those of the working folder.
    pub fn of_environment() -> Contents {
        let folder = std::env::var_os(Contents::VARIABLE);
        Contents::in_folder(folder.as_deref().unwrap_or(OsStr::new(".")))
    }

    /// The module that `id` names.
    ///
    /// # Errors
    /// Fails if it is missing, or has other bytes.
    pub fn module(&self, id: &ContentId) -> anyhow::Result<String> {
        let path = self.folder.join(MODULE);
        let json = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            ContentId::of(json.as_bytes()) == *id,
            "{} is not the module of this run: it has changed since the run began; import the model again",
            path.display()
        );
        Ok(json)
    }

    /// A part of [`PARAMETERS`] or [`REFERENCES`].
    ///
    /// # Errors
    /// Fails if the file is missing, or is shorter.
    pub fn read(&self, name: &str, place: graph::ByteRange) -> anyhow::Result<Vec<u8>> {
        let path = self.folder.join(name);
        let mut bytes = vec![0; place.bytes as usize];
        let mut file = std::fs::File::open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        file.seek(SeekFrom::Start(place.offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .with_context(|| {
                let end = place.offset + place.bytes;
                format!("{} ends before byte {end}", path.display())
            })?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_known_by_its_bytes_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text| std::fs::write(folder.path().join(MODULE), text).unwrap();
        write("{}");
        let id = ContentId::of_module(folder.path()).unwrap();
        // SHA-256 of `{}`.
        assert!(id.0.starts_with("44136fa355b3678a"), "{id:?}");
        let contents = Contents::in_folder(folder.path());
        assert_eq!(contents.module(&id).unwrap(), "{}");
        write("[]");
        let error = contents.module(&id).unwrap_err().to_string();
        assert!(error.contains("is not the module of this run"), "{error}");
    }
}
