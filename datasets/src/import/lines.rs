//! The lines of a text file that may be gzipped, as JSON values with their numbers.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::values::json_fault;

/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// A longer line is no record; reading it whole would only fill the memory.
const LONGEST_LINE_BYTES: u64 = 64 << 20;

/// Calls `each` with every JSON value of the file and its line, from 1. Blank lines are skipped.
pub(super) fn for_each(path: &Path, mut each: impl FnMut(u64, Value) -> Result<()>) -> Result<()> {
    let io = |source| Error::io("read", path, source);
    let mut reader = open(path)?;
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let count = (&mut reader)
            .take(LONGEST_LINE_BYTES)
            .read_until(b'\n', &mut text)
            .map_err(io)?;
        if count == 0 {
            break;
        }
        let damaged = |detail: String| record_error(path, line, detail);
        if count as u64 == LONGEST_LINE_BYTES {
            return Err(damaged(
                "longer than any record is; is this the right file?".to_owned(),
            ));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let value = serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("not JSON in one line: {}", json_fault(&error))))?;
        each(line, value)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let io = |source| Error::io("read", path, source);
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
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

/// A line that is not what the format asks for.
pub(super) fn record_error(path: &Path, line: u64, detail: String) -> Error {
    Error::Record {
        path: path.to_owned(),
        line,
        detail,
    }
}
