//! A file of a dump and its bytes, which are asked for again and again: counters and commands stay in the file.
//!
//! Small files are read whole. Large ones are mapped, and pages already read are released from time to time
//! ([`SourceFile::release`]), so that memory does not grow with the dump.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::error::{Result, io_at};
use crate::input::container::outline;
use crate::input::regular::{open_regular, read_regular};

/// Files of at least this many bytes are mapped.
const LARGE: u64 = 32 << 20;

/// A file with its name and bytes.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Read(Vec<u8>),
    Mapped(Mmap),
}

impl SourceFile {
    /// Reads a file of blocks.
    ///
    /// # Errors
    /// Fails if it is not a regular file, cannot be read, or holds no blocks.
    pub fn read(path: &Path) -> Result<SourceFile> {
        outline(path)?;
        let (file, metadata) = open_regular(path)?;
        let bytes = if metadata.len() < LARGE {
            Bytes::Read(read_regular(path)?)
        } else {
            Bytes::Mapped(map(&file).map_err(io_at(path, "cannot map"))?)
        };
        Ok(SourceFile {
            path: path.to_path_buf(),
            bytes,
        })
    }

    /// A file without bytes.
    pub(crate) fn nothing(path: &Path) -> SourceFile {
        SourceFile {
            path: path.to_path_buf(),
            bytes: Bytes::Read(Vec::new()),
        }
    }

    /// The whole content.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }

    /// The bytes from an offset on, at most `length`.
    pub fn slice(&self, offset: u64, length: usize) -> &[u8] {
        let bytes = self.bytes();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        &bytes[start..start.saturating_add(length).min(bytes.len())]
    }

    /// Its name without folders.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Gives back the memory of a mapped file; it is read again when it is looked at again.
    pub fn release(&self) {
        if let Bytes::Mapped(map) = &self.bytes {
            release(map);
        }
    }
}

/// Maps a file to be read.
pub(crate) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: nothing is assumed of the bytes, which are looked at as plain numbers only. If somebody cuts the file
    // short meanwhile the process ends with SIGBUS; dumps are complete before anybody reads them.
    unsafe { Mmap::map(file) }
}

/// Gives back the memory of a map.
pub(crate) fn release(map: &Mmap) {
    // SAFETY: nothing is ever written through the map, so its pages come back as the file has them.
    // A system that refuses keeps the pages, which does no harm.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}
