//! A CRC-32 of the whole file, in its own metadata: a flipped bit is damage, never another value.
//!
//! The crate `parquet` 60.1 writes no page checksums, and those would not cover the footer. The key holds eight hex
//! digits. The sum is computed with zeros in their place, then written over them. Files of other writers have no such
//! key and are read unchecked.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crc32fast::Hasher;

/// The metadata key of the checksum.
pub(super) const KEY: &str = "opbench.crc32";
/// Stands in place of the digits while the sum is computed.
pub(super) const PLACEHOLDER: &str = "00000000";

/// Thrift's compact protocol: after the key comes the header of a binary field, then the length of its text.
const BEHIND_KEY: [u8; 2] = [0x18, PLACEHOLDER.len() as u8];
/// The footer's length and the magic bytes at the end of a file.
const TAIL: u64 = 8;
/// Bytes read at once.
const CHUNK: usize = 1 << 16;

/// Writes the checksum of a finished file over its placeholder.
///
/// # Errors
/// Fails if the file cannot be read or written, or has no placeholder.
pub(super) fn seal(file: &mut File) -> io::Result<()> {
    let at = digits_at(file)?
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no place for a checksum"))?;
    let sum = sum(file, at)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(format!("{sum:08x}").as_bytes())
}

/// Whether a file is as it was sealed; one without a checksum is.
///
/// # Errors
/// Fails if the file cannot be read.
pub(super) fn is_intact(file: &mut File) -> io::Result<bool> {
    let Some(at) = digits_at(file)? else {
        return Ok(true);
    };
    let mut stored = [0; PLACEHOLDER.len()];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut stored)?;
    let sum = sum(file, at)?;
    Ok(stored == format!("{sum:08x}").as_bytes())
}

/// Where the checksum's digits are: after the last occurrence of the key in the footer.
fn digits_at(file: &mut File) -> io::Result<Option<u64>> {
    let length = file.seek(SeekFrom::End(0))?;
    if length < TAIL {
        return Ok(None);
    }
    let mut tail = [0; 4];
    file.seek(SeekFrom::Start(length - TAIL))?;
    file.read_exact(&mut tail)?;
    let footer_bytes = u64::from(u32::from_le_bytes(tail)).min(length - TAIL);
    let footer_at = length - TAIL - footer_bytes;
    let mut footer = vec![0; footer_bytes as usize];
    file.seek(SeekFrom::Start(footer_at))?;
    file.read_exact(&mut footer)?;
    let pattern = [KEY.as_bytes(), &BEHIND_KEY].concat();
    let found = footer
        .windows(pattern.len() + PLACEHOLDER.len())
        .rposition(|window| window.starts_with(&pattern));
    Ok(found.map(|place| footer_at + (place + pattern.len()) as u64))
}

/// The sum of a file with zeros in place of the digits at `at`.
fn sum(file: &mut File, at: u64) -> io::Result<u32> {
    let mut hasher = Hasher::new();
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; CHUNK];
    let mut before = (&*file).take(at);
    feed(&mut hasher, &mut before, &mut buffer)?;
    hasher.update(PLACEHOLDER.as_bytes());
    file.seek(SeekFrom::Start(at + PLACEHOLDER.len() as u64))?;
    feed(&mut hasher, file, &mut buffer)?;
    Ok(hasher.finalize())
}

fn feed(hasher: &mut Hasher, reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match reader.read(buffer)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
