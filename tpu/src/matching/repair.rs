//! Puts right what lost command nodes do to the sections of commands.
//!
//! A reset that is lost joins two sections; a command that was restored from its details may stand on the wrong side
//! of one. The records say where ids fell: where a stretch of commands is as long as the records opposite, their
//! borders are taken. Never touches lists that correspond.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::input::nodes::{Command, CommandKind, Origin};
use crate::matching::sections::{CommandSection, Pair, RecordSection};

/// Sections of commands with the borders that the records say; `None` if there is nothing to mend.
pub(super) fn repartition(
    records: &[RecordSection],
    commands: &[Command],
    sections: &[CommandSection],
    pairs: &[Pair],
    base: u32,
) -> Option<Vec<CommandSection>> {
    let extent = |r: usize| u64::from(records[r].high.saturating_sub(base)) + 1;
    let fits = |pair: &&Pair| extent(pair.records) == sections[pair.commands].count;
    let end = (records.len(), sections.len());
    let borders: Vec<(usize, usize)> = pairs
        .iter()
        .filter(fits)
        .map(|pair| (pair.records, pair.commands))
        .chain([end])
        .collect();
    let lengths: Vec<u64> = (0..records.len()).map(extent).collect();
    let mut mended = Vec::with_capacity(sections.len());
    let mut changed = false;
    let (mut r, mut c) = (0, 0);
    let mut at = 0;
    while at < borders.len() {
        // Sections that fit may do so by accident, between two that were mixed up: then the next border is tried.
        let group = |&(next_r, next_c): &(usize, usize)| {
            regroup(commands, &sections[c..next_c], &lengths[r..next_r])
        };
        let reach = &borders[at..borders.len().min(at + REACH)];
        let found = reach
            .iter()
            .enumerate()
            .find_map(|(n, b)| Some((n, group(b)?)));
        let skipped = match found {
            Some((skipped, group)) => {
                changed = true;
                mended.extend(group);
                skipped
            }
            None => {
                mended.extend_from_slice(&sections[c..borders[at].1]);
                0
            }
        };
        let (next_r, next_c) = borders[at + skipped];
        mended.extend(sections.get(next_c).cloned());
        (r, c) = (next_r + 1, next_c + 1);
        at += skipped + 1;
    }
    changed.then_some(mended)
}

/// This many pairs that fit may lie between sections that were mixed up.
const REACH: usize = 8;

/// Other borders for a stretch of sections that does not correspond to records of these lengths.
fn regroup(
    commands: &[Command],
    sections: &[CommandSection],
    lengths: &[u64],
) -> Option<Vec<CommandSection>> {
    let (first, last) = (sections.first()?, sections.last()?);
    let plain = |s: &CommandSection| {
        s.first == 0 && !matches!(commands[s.range.start].kind, CommandKind::Reference { .. })
    };
    // Records that were lost leave sections too short: nothing to mend. Too long or too many they cannot become.
    let too_long = lengths.iter().zip(sections).any(|(&n, s)| n > s.count);
    if !sections.iter().all(plain) || lengths.is_empty() {
        return None;
    }
    if lengths.len() <= sections.len() && !too_long {
        return None;
    }
    let all = first.range.start..last.range.end;
    let starts: Vec<usize> = if lengths.iter().sum::<u64>() == all.len() as u64 {
        lengths
            .iter()
            .scan(all.start, |at, &n| {
                let start = *at;
                *at += n as usize;
                Some(start)
            })
            .collect()
    } else {
        // Records are lost as well: a kernel's name marks where ids began again.
        let begins = |&at: &usize| commands[at].tags.scope != commands[at - 1].tags.scope;
        let starts: Vec<usize> = std::iter::once(all.start)
            .chain((all.start + 1..all.end).filter(begins))
            .collect();
        let ends = starts.iter().skip(1).copied().chain([all.end]);
        let room = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| (end - start) as u64);
        if starts.len() != lengths.len() || !room.zip(lengths).all(|(room, &n)| n <= room) {
            return None;
        }
        starts
    };
    let ends = starts.iter().skip(1).copied().chain([all.end]);
    let sections = starts.iter().zip(ends).map(|(&start, end)| CommandSection {
        range: start..end,
        count: (end - start) as u64,
        first: 0,
        sure: known_border(commands, sections, start, all.clone())
            && known_border(commands, sections, end, all.clone())
            && !spans_border(commands, sections, start..end),
    });
    Some(sections.collect())
}

/// Whether a new border is more than likely: it was one, a kernel begins there, or all that was moved over it had been
/// restored without knowing its side.
fn known_border(
    commands: &[Command],
    old: &[CommandSection],
    at: usize,
    all: Range<usize>,
) -> bool {
    if at == all.start || at == all.end || old.iter().any(|s| s.range.start == at) {
        return true;
    }
    let restored = |range: Range<usize>| {
        !range.is_empty() && commands[range].iter().all(|c| c.origin == Origin::Restored)
    };
    let moved = old
        .iter()
        .map(|s| s.range.start)
        .any(|border| restored(border.min(at)..border.max(at)));
    moved || commands[at].tags.scope != commands[at - 1].tags.scope
}

/// Whether a reset that was recorded lies within a new section, and more than restored commands on both sides of it.
fn spans_border(commands: &[Command], old: &[CommandSection], section: Range<usize>) -> bool {
    let restored =
        |range: Range<usize>| commands[range].iter().all(|c| c.origin == Origin::Restored);
    old.iter()
        .map(|s| s.range.start)
        .filter(|&border| section.start < border && border < section.end)
        .any(|border| !restored(section.start..border) && !restored(border..section.end))
}

/// Gives restored commands whose kernel has no other command in their section the kernel of their neighbours there, with
/// what is known of its name.
pub(super) fn adopt(commands: &mut [Command], sections: &[CommandSection]) {
    for section in sections {
        let list = &mut commands[section.range.clone()];
        let recorded = |c: &&Command| c.origin != Origin::Restored;
        let Some(mut near) = list.iter().find(recorded).copied() else {
            continue;
        };
        let scopes: BTreeSet<u32> = list.iter().filter(recorded).map(|c| c.tags.scope).collect();
        for command in list {
            match command.origin {
                Origin::Restored if !scopes.contains(&command.tags.scope) => {
                    command.tags = near.tags;
                    if near.origin == Origin::Unnamed {
                        command.origin = Origin::Unnamed;
                    }
                }
                _ => near = *command,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::nodes::{NONE, Tags};

    /// Commands of kernels of these lengths; those in `restored` are.
    fn commands(kernels: &[u32], restored: &[usize]) -> Vec<Command> {
        let mut list = Vec::new();
        for (scope, &count) in kernels.iter().enumerate() {
            for id in 0..count {
                let origin = if restored.contains(&list.len()) {
                    Origin::Restored
                } else {
                    Origin::Recorded
                };
                list.push(Command {
                    kind: CommandKind::Node {
                        word: 1,
                        detail: NONE,
                    },
                    id,
                    order: 0,
                    tags: Tags {
                        scope: scope as u32,
                        ..Tags::NONE
                    },
                    origin,
                });
            }
        }
        list
    }

    fn sections(counts: &[usize]) -> Vec<CommandSection> {
        let mut start = 0;
        let section = |&count: &usize| {
            let range = start..start + count;
            start += count;
            CommandSection {
                range,
                count: count as u64,
                first: 0,
                sure: true,
            }
        };
        counts.iter().map(section).collect()
    }

    fn mend(lengths: &[u64], counts: &[usize], commands: &[Command]) -> Option<Vec<(u64, bool)>> {
        regroup(commands, &sections(counts), lengths)
            .map(|list| list.iter().map(|s| (s.count, s.sure)).collect())
    }

    #[test]
    fn a_lost_reset_is_put_back() {
        let list = commands(&[3, 4], &[]);
        assert_eq!(mend(&[3, 4], &[7], &list), Some(vec![(3, true), (4, true)]));
        // The last record of the first kernel is lost too: the kernel's name tells.
        assert_eq!(mend(&[2, 4], &[7], &list), Some(vec![(3, true), (4, true)]));
        // Without names it is only likely.
        let nameless = commands(&[7], &[]);
        assert_eq!(
            mend(&[3, 4], &[7], &nameless),
            Some(vec![(3, false), (4, false)])
        );
        assert_eq!(mend(&[2, 4], &[7], &nameless), None);
    }

    #[test]
    fn restored_commands_move_to_their_side() {
        let list = commands(&[2, 5], &[2]);
        assert_eq!(
            mend(&[3, 4], &[2, 5], &list),
            Some(vec![(3, true), (4, true)])
        );
        let mut list = list;
        adopt(&mut list, &sections(&[3, 4]));
        assert_eq!(list[2].tags.scope, 0);
    }

    #[test]
    fn a_reset_that_was_recorded_is_not_taken_away_for_certain() {
        let list = commands(&[2, 2], &[]);
        assert_eq!(mend(&[4], &[2, 2], &list), Some(vec![(4, false)]));
    }

    #[test]
    fn lost_records_are_no_reason() {
        let list = commands(&[3, 4], &[]);
        assert_eq!(mend(&[2, 4], &[3, 4], &list), None);
        assert_eq!(mend(&[3], &[3, 4], &list), None);
    }
}
