//! Number of descriptors in bytes that cannot be read.
//!
//! Descriptors have no ids: they are counted. The records say how many there were, unless some of those are lost as
//! well. Then what follows the bytes keeps its likely number and is marked as uncounted.

use crate::input::nodes::{Command, CommandKind, Origin};
use crate::matching::order::Record;

/// Bytes of the shortest descriptor.
const SHORTEST: u32 = 16;

/// Two gaps at most this many commands apart have only fragments between them, which look like commands by accident.
const NEAR: usize = 5;

/// Maximum length of a section of records that frames a program.
const FRAME: usize = 2;

/// The descriptors with as many unreadable ones as the records show, numbered again. `lengths` are the possible lengths of
/// the unit's descriptors, in bytes. `is_whole` says whether a record can belong to the last command of a block.
pub(super) fn counted(
    descriptors: &[Command],
    records: &[Record],
    lengths: &[usize],
    is_whole: impl Fn(&[Command], &Record) -> bool,
) -> Vec<Command> {
    let unreadable = |c: &Command| matches!(c.kind, CommandKind::Unreadable { .. });
    if !descriptors.iter().any(unreadable) {
        return descriptors.to_vec();
    }
    let blocks: Vec<&[Command]> = descriptors.chunk_by(|a, b| b.id > a.id).collect();
    let programs: Vec<&[Record]> = records
        .chunk_by(|a, b| b.id > a.id)
        .filter(|section| section.len() > FRAME)
        .collect();
    let known = programs.len() == blocks.len();
    let mut list = Vec::with_capacity(descriptors.len());
    for (number, block) in blocks.into_iter().enumerate() {
        let have = if known {
            let last = programs[number].last();
            last.filter(|r| is_whole(block, r))
                .map(|r| r.id as usize + 1)
        } else {
            None
        };
        list.extend(counted_block(block, have, lengths));
    }
    list
}

/// One block; `have` is how many commands it had, if records say.
fn counted_block(block: &[Command], have: Option<usize>, lengths: &[usize]) -> Vec<Command> {
    let gaps: Vec<(usize, u32)> = block
        .iter()
        .enumerate()
        .filter_map(|(at, command)| match command.kind {
            CommandKind::Unreadable { bytes } => Some((at, bytes)),
            _ => None,
        })
        .collect();
    let read = block.len() - gaps.len();
    let most: usize = gaps
        .iter()
        .map(|&(_, bytes)| (bytes / SHORTEST).max(1) as usize)
        .sum();
    let lost = have
        .and_then(|have| have.checked_sub(read))
        .filter(|lost| (gaps.len()..=most).contains(lost));
    let mut list: Vec<Command> = Vec::with_capacity(block.len());
    let mut extra = lost.map_or(0, |lost| lost - gaps.len());
    // Gaps of one descriptor each are certain. A longer gap may belong to other lost descriptors anywhere. The first
    // gap gets them, and everything is only likely. Where records are lost as well, only what stands before the gaps is
    // certain.
    let single = |&(_, bytes): &(usize, u32)| lengths.contains(&(bytes as usize));
    let all_single = gaps.iter().all(single);
    let certain = lost == Some(gaps.len()) && all_single;
    // One more may be a neighbour that cannot be distinguished from the damage, unless each gap is of one descriptor.
    let many = lost.is_some_and(|lost| lost > gaps.len() + usize::from(!all_single));
    let uncounted = match gaps.first() {
        Some(_) if many => 0..block.len(),
        Some(first) if !certain => first.0..block.len(),
        _ => 0..0,
    };
    for (at, command) in block.iter().enumerate() {
        let between = gaps.windows(2).any(|w| {
            let fragment = w[0].1.min(w[1].1) <= SHORTEST;
            fragment && (w[0].0..w[1].0).contains(&at) && w[1].0 - w[0].0 <= NEAR
        });
        let copies = match command.kind {
            CommandKind::Unreadable { .. } => 1 + std::mem::take(&mut extra),
            _ => 1,
        };
        for _ in 0..copies {
            let origin = if between || uncounted.contains(&at) {
                Origin::Uncounted
            } else {
                command.origin
            };
            let id = list.len() as u32;
            list.push(Command {
                id,
                origin,
                ..*command
            });
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::nodes::Tags;

    /// Commands by letters: `.` is read, a digit is unreadable of this many times 16 bytes.
    fn block(text: &str) -> Vec<Command> {
        let command = |(id, letter): (usize, char)| Command {
            kind: match letter.to_digit(10) {
                Some(units) => CommandKind::Unreadable { bytes: units * 16 },
                None => CommandKind::Descriptor(id as u32),
            },
            id: id as u32,
            order: 0,
            tags: Tags::NONE,
            origin: Origin::Recorded,
        };
        text.chars().enumerate().map(command).collect()
    }

    fn shown(text: &str, have: usize) -> String {
        let letter = |c: &Command| match (c.kind, c.origin) {
            (CommandKind::Unreadable { .. }, _) => '#',
            (_, Origin::Uncounted) => '?',
            _ => '.',
        };
        counted_block(&block(text), Some(have), &[16, 32, 96])
            .iter()
            .map(letter)
            .collect()
    }

    #[test]
    fn records_count_what_cannot_be_read() {
        assert_eq!(shown("..6..", 5), "..#..");
        assert_eq!(shown("..6..", 7), "??###??");
        assert_eq!(shown("..6.6..", 7), "..#.#..");
        assert_eq!(shown("..6.6..", 9), "??###?#??");
        // Too few or too many commands: records are lost as well, or commands of other programs ran.
        assert_eq!(shown("..6..", 4), "..#??");
        assert_eq!(shown("..2..", 9), "..#??");
    }
}
