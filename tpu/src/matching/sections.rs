//! Cuts records and commands into sections where ids fall, and aligns the two lists of sections.
//!
//! A section is what an engine did between two resets of its ids, usually one kernel. In a whole dump the lists
//! correspond one to one, which takes linear time to see. Where they do not, equal sections at both ends are paired
//! first and what is left is aligned by dynamic programming in a band: a section whose ids fit into a command section
//! may be paired with it (records were lost), others are left over.

use std::ops::Range;

use crate::input::nodes::{Command, CommandKind};
use crate::matching::order::Record;

/// Records between two resets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSection {
    /// Their places in the list.
    pub range: Range<usize>,
    /// First id.
    pub low: u32,
    /// Last id.
    pub high: u32,
}

impl RecordSection {
    fn span(&self) -> u64 {
        u64::from(self.high - self.low) + 1
    }
}

/// Commands between two resets, or a reference to a run of descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSection {
    /// Their places in the list; one place for a reference.
    pub range: Range<usize>,
    /// Commands in it.
    pub count: u64,
    /// Id of its first command.
    pub first: u32,
    /// Whether its borders are known.
    pub sure: bool,
}

/// A pair of the alignment, by numbers of sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The records.
    pub records: usize,
    /// The commands.
    pub commands: usize,
    /// Whether another pairing would be as good.
    pub sure: bool,
}

/// Which end of the two lists belongs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The starts.
    Start,
    /// The ends: the ring lapped, so the earliest records are gone.
    End,
}

/// Sections of records. An id that stands alone against two neighbours that fit together is mended (see the second
/// result: places of mended records) rather than taken for a reset.
pub fn of_records(records: &mut [Record]) -> (Vec<RecordSection>, Vec<usize>) {
    let mut sections: Vec<RecordSection> = Vec::new();
    let mut mended = Vec::new();
    let mut start = 0;
    for i in 1..records.len() {
        let (before, here) = (records[i - 1].id, records[i].id);
        let after = records.get(i + 1).map(|r| r.id);
        if here != before.wrapping_add(1)
            && after == before.checked_add(2)
            && !(here == 0 && after == Some(2) && before == 0)
        {
            records[i].id = before + 1;
            mended.push(i);
            continue;
        }
        if here <= before {
            sections.push(section(records, start..i));
            start = i;
        }
    }
    if start < records.len() {
        sections.push(section(records, start..records.len()));
    }
    (sections, mended)
}

fn section(records: &[Record], range: Range<usize>) -> RecordSection {
    RecordSection {
        low: records[range.start].id,
        high: records[range.end - 1].id,
        range,
    }
}

/// Sections of commands.
pub fn of_commands(commands: &[Command]) -> Vec<CommandSection> {
    let mut sections: Vec<CommandSection> = Vec::new();
    let mut open = false;
    for (i, command) in commands.iter().enumerate() {
        if let CommandKind::Reference { count, .. } = command.kind {
            sections.push(CommandSection {
                range: i..i + 1,
                count: u64::from(count),
                first: 0,
                sure: true,
            });
            open = false;
            continue;
        }
        match sections.last_mut() {
            Some(last) if open && command.id > commands[i - 1].id => {
                last.range.end = i + 1;
                last.count += 1;
            }
            _ => sections.push(CommandSection {
                range: i..i + 1,
                count: 1,
                first: command.id,
                sure: true,
            }),
        }
        open = true;
    }
    sections
}

const SKIP_RECORDS: u32 = 300;
const SKIP_COMMANDS: u32 = 200;

/// Which sections may be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Only those of equal length.
    Equal,
    /// Also those that lost records or commands.
    Partial,
}

/// Cost of pairing, `None` if the ids cannot belong together. `base` is the id of a section's first command.
fn cost(records: &RecordSection, commands: &CommandSection, base: u32, fit: Fit) -> Option<u32> {
    let base = base.saturating_add(commands.first);
    let have = records.range.len() as u64;
    if records.span() == commands.count && (records.low == base || have == commands.count) {
        return Some(if have == commands.count { 0 } else { 1 });
    }
    if fit == Fit::Equal {
        return (records.span() == commands.count).then_some(1);
    }
    let low = u64::from(records.low.checked_sub(base)?);
    let high = low + records.span() - 1;
    if high < commands.count {
        // Records were lost at an end: the more are there the better.
        return Some(
            100 + (100 * (commands.count - have.min(commands.count)) / commands.count) as u32,
        );
    }
    // Commands were lost, or a stray record follows.
    let over = high + 1 - commands.count;
    (low < commands.count && over <= 2 + commands.count / 8).then_some(210 + over.min(80) as u32)
}

/// Aligns the sections.
pub fn align(
    records: &[RecordSection],
    commands: &[CommandSection],
    base: u32,
    anchor: Anchor,
    fit: Fit,
) -> Vec<Pair> {
    if records.is_empty() || commands.is_empty() {
        return Vec::new();
    }
    let (n, m) = (records.len(), commands.len());
    // The k-th section from the anchored end.
    let r = |i: usize| {
        if anchor == Anchor::Start {
            &records[i]
        } else {
            &records[n - 1 - i]
        }
    };
    let c = |j: usize| {
        if anchor == Anchor::Start {
            &commands[j]
        } else {
            &commands[m - 1 - j]
        }
    };
    let price = |i: usize, j: usize| cost(r(i), c(j), base, fit);
    let fits = |i: usize, j: usize| price(i, j).is_some_and(|p| p < 2);
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut head = 0;
    if n == m && (0..n).all(|i| price(i, i).is_some()) {
        pairs.extend((0..n).map(|i| (i, i)));
    } else {
        while head < n.min(m) && fits(head, head) {
            pairs.push((head, head));
            head += 1;
        }
        let mut tail = 0;
        while tail < n.min(m) - head && fits(n - 1 - tail, m - 1 - tail) {
            tail += 1;
        }
        pairs.extend(banded(head..n - tail, head..m - tail, &price));
        pairs.extend((0..tail).rev().map(|t| (n - 1 - t, m - 1 - t)));
    }
    let doubtful = doubtful(&pairs, m, anchor, &|j| c(j).count, &|i, j| {
        price(i, j) == Some(0)
    });
    let mut result: Vec<Pair> = pairs
        .iter()
        .zip(doubtful)
        .map(|(&(i, j), doubt)| match anchor {
            Anchor::Start => Pair {
                records: i,
                commands: j,
                sure: !doubt && c(j).sure,
            },
            Anchor::End => Pair {
                records: n - 1 - i,
                commands: m - 1 - j,
                sure: !doubt && c(j).sure,
            },
        })
        .collect();
    result.sort_by_key(|p| p.records);
    result
}

/// Alignment of two short ranges, with the cheapest set of pairs and left-overs.
fn banded(
    records: Range<usize>,
    commands: Range<usize>,
    price: &dyn Fn(usize, usize) -> Option<u32>,
) -> Vec<(usize, usize)> {
    let (n, m) = (records.len(), commands.len());
    if n == 0 || m == 0 {
        return Vec::new();
    }
    // The band follows the diagonal from one corner to the other; far from it nothing sensible lies.
    let band = n.abs_diff(m) + 512;
    let centre = |i: usize| i * m / n;
    let width = 2 * band + 1;
    let low = |i: usize| centre(i).saturating_sub(band);
    let at = |i: usize, j: usize| i * width + (j - low(i));
    let inside = |i: usize, j: usize| j >= low(i) && j - low(i) < width && j <= m;
    let mut costs = vec![u32::MAX; (n + 1) * width];
    let mut steps = vec![0u8; (n + 1) * width];
    for i in 0..=n {
        for j in low(i)..=(low(i) + width - 1).min(m) {
            let mut best = (if i == 0 && j == 0 { 0 } else { u32::MAX }, 0u8);
            let mut offer = |cost: u32, add: u32, step: u8| {
                if cost != u32::MAX && cost.saturating_add(add) < best.0 {
                    best = (cost.saturating_add(add), step);
                }
            };
            // Of equally cheap ways the one that pairs early wins: what is skipped lies behind.
            if j > 0 && inside(i, j - 1) {
                offer(costs[at(i, j - 1)], SKIP_COMMANDS, 3);
            }
            if i > 0 && inside(i - 1, j) {
                offer(costs[at(i - 1, j)], SKIP_RECORDS, 2);
            }
            if i > 0
                && j > 0
                && inside(i - 1, j - 1)
                && let Some(add) = price(records.start + i - 1, commands.start + j - 1)
            {
                offer(costs[at(i - 1, j - 1)], add, 1);
            }
            costs[at(i, j)] = best.0;
            steps[at(i, j)] = best.1;
        }
    }
    let (mut i, mut j) = (n, m);
    let mut pairs = Vec::new();
    while i > 0 || j > 0 {
        match steps[at(i, j)] {
            1 => {
                pairs.push((records.start + i - 1, commands.start + j - 1));
                i -= 1;
                j -= 1;
            }
            2 => i -= 1,
            3 => j -= 1,
            _ => break,
        }
    }
    pairs.reverse();
    pairs
}

/// Which pairs could as well be shifted by one: those beside a left-over command section, as far as all command
/// sections have the same number of commands and all their records are there.
fn doubtful(
    pairs: &[(usize, usize)],
    commands: usize,
    anchor: Anchor,
    count: &dyn Fn(usize) -> u64,
    exact: &dyn Fn(usize, usize) -> bool,
) -> Vec<bool> {
    let mut doubt = vec![false; pairs.len()];
    let mut paired = vec![usize::MAX; commands];
    for (k, &(_, j)) in pairs.iter().enumerate() {
        paired[j] = k;
    }
    for j in 0..commands {
        // What lies beyond the anchored end of a lapped ring is known to be lost, not left over in the middle.
        let beyond = pairs.last().is_none_or(|&(_, last)| j > last);
        if paired[j] != usize::MAX || (anchor == Anchor::End && beyond) {
            continue;
        }
        let mut spread = |range: &mut dyn Iterator<Item = usize>| {
            for other in range {
                let k = paired[other];
                if count(other) != count(j)
                    || (k != usize::MAX && (doubt[k] || !exact(pairs[k].0, other)))
                {
                    break;
                }
                if k != usize::MAX {
                    doubt[k] = true;
                }
            }
        };
        spread(&mut (0..j).rev());
        spread(&mut (j + 1..commands));
    }
    doubt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(sections: &[&[u32]]) -> Vec<Record> {
        let ids = sections.iter().flat_map(|s| s.iter().copied());
        ids.enumerate()
            .map(|(i, id)| Record {
                start: i as i64 * 10,
                end: i as i64 * 10 + 5,
                id,
                offset: i as u64,
            })
            .collect()
    }

    fn commands(counts: &[u64]) -> Vec<CommandSection> {
        counts
            .iter()
            .map(|&count| CommandSection {
                range: 0..count as usize,
                count,
                first: 0,
                sure: true,
            })
            .collect()
    }

    fn pairs(sections: &[&[u32]], counts: &[u64]) -> Vec<(usize, usize, bool)> {
        let (list, _) = of_records(&mut records(sections));
        align(&list, &commands(counts), 0, Anchor::Start, Fit::Partial)
            .iter()
            .map(|p| (p.records, p.commands, p.sure))
            .collect()
    }

    #[test]
    fn whole_lists_pair_one_to_one() {
        assert_eq!(
            pairs(&[&[0, 1, 2], &[0, 1], &[0]], &[3, 2, 1]),
            [(0, 0, true), (1, 1, true), (2, 2, true)]
        );
    }

    #[test]
    fn lost_records_leave_their_section_paired() {
        assert_eq!(
            pairs(&[&[1, 2], &[0, 1, 3], &[0, 1]], &[3, 4, 3]),
            [(0, 0, true), (1, 1, true), (2, 2, true)]
        );
    }

    #[test]
    fn a_lost_section_is_left_out_and_doubt_stays_near() {
        assert_eq!(
            pairs(&[&[0, 1, 2], &[0]], &[3, 2, 1]),
            [(0, 0, true), (1, 2, true)]
        );
        // Which of the three pairs of two was lost cannot be known; the rest can.
        assert_eq!(
            pairs(&[&[0, 1, 2], &[0, 1], &[0, 1], &[0]], &[3, 2, 2, 2, 1]),
            [(0, 0, true), (1, 1, false), (2, 2, false), (3, 4, true)]
        );
    }

    #[test]
    fn sync_pairs_around_a_program_are_left_over() {
        let main: Vec<u32> = (0..81).collect();
        assert_eq!(
            pairs(&[&[0, 1], &[0], &main, &[0, 1]], &[81]),
            [(2, 0, true)]
        );
        assert_eq!(
            pairs(&[&[0, 1], &[0], &main[..80], &[0, 1]], &[81]),
            [(2, 0, true)]
        );
    }

    #[test]
    fn a_lapped_ring_is_aligned_at_its_end() {
        let (list, _) = of_records(&mut records(&[&[1, 2], &[0, 1, 2], &[0, 1, 2]]));
        let pairs = align(&list, &commands(&[3; 6]), 0, Anchor::End, Fit::Partial);
        assert_eq!(
            pairs
                .iter()
                .map(|p| (p.records, p.commands, p.sure))
                .collect::<Vec<_>>(),
            [(0, 3, true), (1, 4, true), (2, 5, true)]
        );
    }

    #[test]
    fn one_wrong_id_is_mended() {
        let (list, mended) = of_records(&mut records(&[&[0, 1, 900, 3, 4]]));
        assert_eq!((list.len(), mended), (1, vec![2]));
        let (list, mended) = of_records(&mut records(&[&[0, 1, 2, 0, 4]]));
        assert_eq!((list.len(), mended), (1, vec![3]));
    }

    #[test]
    fn thousands_of_sections_with_losses_come_back_into_step() {
        let mut sections: Vec<Vec<u32>> =
            (0..20_000u32).map(|k| (0..3 + k % 5).collect()).collect();
        let counts: Vec<u64> = sections.iter().map(|s| s.len() as u64).collect();
        sections.remove(15_000);
        sections.remove(1234);
        let slices: Vec<&[u32]> = sections.iter().map(Vec::as_slice).collect();
        let pairs = pairs(&slices, &counts);
        assert_eq!(pairs.len(), 19_998);
        assert_eq!(
            (pairs[1233].1, pairs[1234].1, pairs[19_997].1),
            (1233, 1235, 19_999)
        );
    }
}
