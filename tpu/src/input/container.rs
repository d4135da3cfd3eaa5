//! The container of `.profile` files: little-endian blocks of `u32 type, u32 length, payload`.
//!
//! Checks that each block is of a known type and whole; every fault names the byte where it shows.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result, io_at};
use crate::input::regular::open_regular;

/// Types of blocks, by their numbers in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// TIU PMU records.
    Tiu,
    /// GDMA PMU records.
    Gdma,
    /// SDMA PMU records.
    Sdma,
    /// CDMA PMU records.
    Cdma,
    /// Command nodes.
    Nodes,
    /// Details of command nodes.
    Extra,
    /// TIU descriptors of a compiled model.
    DesTiu,
    /// GDMA descriptors of a compiled model.
    DesGdma,
    /// SDMA descriptors of a compiled model.
    DesSdma,
    /// Descriptors that nodes refer to.
    DesMap,
    /// Known, but of no use here (logs, summaries, …).
    Other,
}

impl BlockKind {
    fn of(number: u32) -> Option<BlockKind> {
        Some(match number {
            3 => BlockKind::Tiu,
            4 => BlockKind::Gdma,
            5 => BlockKind::Nodes,
            6 => BlockKind::Extra,
            11 => BlockKind::Sdma,
            12 => BlockKind::Cdma,
            13 => BlockKind::DesTiu,
            14 => BlockKind::DesGdma,
            15 => BlockKind::DesSdma,
            17 => BlockKind::DesMap,
            1 | 2 | 7..=10 | 16 | 100 => BlockKind::Other,
            _ => return None,
        })
    }
}

/// One block.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The kind of its contents.
    pub kind: BlockKind,
    /// Byte offset of its payload in the file.
    pub offset: u64,
    /// The payload.
    pub payload: &'a [u8],
}

/// Kinds of a file's blocks, from their headers alone, so that a file of another format costs no memory.
pub fn outline(path: &Path) -> Result<Vec<BlockKind>> {
    let (mut file, metadata) = open_regular(path)?;
    let length = metadata.len();
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < length {
        let mut header = [0; 8];
        let have = (length - at).min(8) as usize;
        file.seek(SeekFrom::Start(at))
            .and_then(|_| file.read_exact(&mut header[..have]))
            .map_err(io_at(path, "cannot read"))?;
        let (kind, size) = block_header(&header[..have], at, length, path)?;
        kinds.push(kind);
        at += 8 + size;
    }
    if kinds.is_empty() {
        return Err(empty(path));
    }
    Ok(kinds)
}

/// Kind and length of the block whose header lies at `at` in a file of `length` bytes.
fn block_header(header: &[u8], at: u64, length: u64, path: &Path) -> Result<(BlockKind, u64)> {
    let fault = |offset: u64, found: String, expected: String| Error::Format {
        path: path.to_path_buf(),
        offset,
        found,
        expected,
    };
    let &[a, b, c, d, e, f, g, h] = header else {
        return Err(fault(
            at,
            format!("{} bytes and the end of the file", header.len()),
            "a block's header of 8 bytes; the file is cut off".into(),
        ));
    };
    let number = u32::from_le_bytes([a, b, c, d]);
    let size = u64::from(u32::from_le_bytes([e, f, g, h]));
    let kind = BlockKind::of(number).ok_or_else(|| {
        fault(
            at,
            format!("block type {number}"),
            "a type of 1 to 17 or 100; these are not blocks".into(),
        )
    })?;
    let left = length - at - 8;
    if size > left {
        return Err(fault(
            at + 8,
            format!("{left} bytes and the end of the file"),
            format!("the {size} bytes of a block of type {number}; the file is cut off"),
        ));
    }
    Ok((kind, size))
}

fn empty(path: &Path) -> Error {
    Error::Format {
        path: path.to_path_buf(),
        offset: 0,
        found: "an empty file".into(),
        expected: "at least one block; the dump was not written to its end".into(),
    }
}

/// The blocks of a file's bytes; `path` is for errors only.
pub fn blocks<'a>(bytes: &'a [u8], path: &Path) -> Result<Vec<Block<'a>>> {
    if bytes.is_empty() {
        return Err(empty(path));
    }
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = &bytes[at..bytes.len().min(at + 8)];
        let (kind, size) = block_header(header, at as u64, bytes.len() as u64, path)?;
        let start = at + 8;
        let end = start + size as usize;
        blocks.push(Block {
            kind,
            offset: start as u64,
            payload: &bytes[start..end],
        });
        at = end;
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(bytes: &[u8]) -> String {
        blocks(bytes, Path::new("c")).unwrap_err().to_string()
    }

    #[test]
    fn whole_blocks() {
        let bytes = [3, 0, 0, 0, 2, 0, 0, 0, 9, 8, 100, 0, 0, 0, 0, 0, 0, 0];
        let blocks = blocks(&bytes, Path::new("c")).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(
            (blocks[0].kind, blocks[0].offset, blocks[0].payload),
            (BlockKind::Tiu, 8, &[9u8, 8][..])
        );
        assert_eq!(blocks[1].kind, BlockKind::Other);
    }

    #[test]
    fn faults_name_the_byte() {
        insta::assert_snapshot!(fault(&[]), @"c: at byte 0: an empty file; expected at least one block; the dump was not written to its end");
        insta::assert_snapshot!(fault(&[3, 0, 0]), @"c: at byte 0: 3 bytes and the end of the file; expected a block's header of 8 bytes; the file is cut off");
        insta::assert_snapshot!(fault(&[3, 0, 0, 0, 4, 0, 0, 0, 1]), @"c: at byte 8: 1 bytes and the end of the file; expected the 4 bytes of a block of type 3; the file is cut off");
        insta::assert_snapshot!(fault(&[99, 0, 0, 0, 0, 0, 0, 0]), @"c: at byte 0: block type 99; expected a type of 1 to 17 or 100; these are not blocks");
    }
}
