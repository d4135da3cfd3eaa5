//! The lines of a text file that may be gzipped, as JSON values with their numbers.

use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::faults::{Fault, Faults, Kind};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::values::json_fault;

/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// A longer line is not a record; reading it whole would only fill the memory.
const LONGEST_LINE_BYTES: u64 = 64 << 20;

/// Calls `each` with every JSON value of the file and its line, from 1. Blank lines are skipped. Lines that are not
/// JSON, and those that `each` refuses, are counted in `faults`.
///
/// # Errors
/// Fails if the file cannot be read, has lines longer than any record, or a strict import has a fault.
pub(super) fn for_each(
    path: &Path,
    faults: &mut Faults,
    mut each: impl FnMut(u64, Value) -> std::result::Result<(), Fault>,
) -> Result<()> {
    let mut reader = open(path)?;
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        match (&mut reader)
            .take(LONGEST_LINE_BYTES)
            .read_until(b'\n', &mut text)
        {
            Ok(0) => break,
            Ok(count) if count as u64 == LONGEST_LINE_BYTES => {
                return Err(Error::Record {
                    path: path.to_owned(),
                    line,
                    detail: "longer than any record is; is this the right file?".to_owned(),
                });
            }
            Ok(_) => {}
            // A killed copy or a full disk leaves such a compressed file.
            Err(error) if matches!(error.kind(), UnexpectedEof | InvalidData | InvalidInput) => {
                let detail = format!("the compressed data is damaged: {error}");
                let kind = Kind::Cut;
                return faults.add(path, line, Fault { kind, detail });
            }
            Err(source) => return Err(Error::io("read", path, source)),
        }
        let trimmed = text.trim_ascii();
        if trimmed.is_empty() {
            continue;
        }
        let result = parse(trimmed).and_then(|value| each(line, value));
        if let Err(fault) = result {
            faults.add(path, line, fault)?;
        }
    }
    Ok(())
}

fn parse(text: &[u8]) -> std::result::Result<Value, Fault> {
    if text.starts_with(b"#") || text.starts_with(b"//") {
        return Err(Fault {
            kind: Kind::Comment,
            detail: "a comment".to_owned(),
        });
    }
    serde_json::from_slice(text).map_err(|error| Fault {
        kind: Kind::Syntax,
        detail: format!("not JSON in one line: {}", json_fault(&error)),
    })
}

/// The file, decompressed if it is gzipped.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let io = |source| Error::io("read", path, source);
    let mut reader = BufReader::with_capacity(1 << 16, open_regular(path).map_err(io)?);
    let zipped = reader.fill_buf().map_err(io)?.starts_with(&GZIP_MAGIC);
    Ok(if zipped {
        Box::new(BufReader::with_capacity(
            1 << 16,
            MultiGzDecoder::new(reader),
        ))
    } else {
        Box::new(reader)
    })
}
