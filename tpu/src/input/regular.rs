//! Files that are read whole: regular ones that hold what their length says.
//!
//! A FIFO would wait for a writer for ever, and a device has no end. A sparse file takes its whole length in memory for
//! nothing.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result, io_at};

/// Opens a file if it is a regular one.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let failed = || io_at(path, "cannot read");
    // Checked before the file is opened, because opening a FIFO blocks.
    if !std::fs::metadata(path).map_err(failed())?.is_file() {
        return Err(not_regular(path));
    }
    let file = File::open(path).map_err(failed())?;
    let metadata = file.metadata().map_err(failed())?;
    if !metadata.is_file() {
        return Err(not_regular(path));
    }
    if is_mostly_holes(&metadata) {
        return Err(Error::NotADump {
            path: path.to_path_buf(),
            what: format!(
                "{} bytes long, but nearly nothing of it was ever written",
                metadata.len()
            ),
            next: "copy the dump again, or profile again",
        });
    }
    Ok((file, metadata))
}

/// Reads a regular file as a whole.
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>> {
    let (mut file, metadata) = open_regular(path)?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.read_to_end(&mut bytes)
        .map_err(io_at(path, "cannot read"))?;
    Ok(bytes)
}

fn not_regular(path: &Path) -> Error {
    Error::NotADump {
        path: path.to_path_buf(),
        what: "not a regular file".to_string(),
        next: "give the folder as the runtime wrote it",
    }
}

/// Whether a large file has disk blocks for less than a sixteenth of its length.
#[cfg(unix)]
fn is_mostly_holes(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    const LARGE: u64 = 64 << 20;
    metadata.len() > LARGE && metadata.blocks() * 512 < metadata.len() / 16
}

#[cfg(not(unix))]
fn is_mostly_holes(_: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn neither_devices_nor_holes_are_read() {
        let message = |path: &Path| read_regular(path).unwrap_err().to_string();
        assert!(message(Path::new("/dev/zero")).contains("not a regular file"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("holes");
        File::create(&path).unwrap().set_len(1 << 32).unwrap();
        assert!(message(&path).contains("nearly nothing of it was ever written"));
    }
}
