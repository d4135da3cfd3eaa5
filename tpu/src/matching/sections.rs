//! Cuts records and commands into sections where ids fall, and aligns the two lists of sections.
//!
//! A section is an engine's work between two resets of its ids, usually one kernel. In a whole dump the lists
//! correspond one to one. In others the cheapest alignment is taken, by the number of records and commands left over.
//! `recovery` decides how certain the pairs are.

use std::ops::Range;

use crate::align::{Prices, Step};
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
}

impl CommandSection {
    /// Places of its first and last command among the nodes of all engines.
    pub fn extent(&self, commands: &[Command]) -> (u32, u32) {
        let order = |at: usize| commands.get(at).map_or(0, |c| c.order);
        (order(self.range.start), order(self.range.end - 1))
    }
}

/// A pair of the alignment, by numbers of sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The records.
    pub records: usize,
    /// The commands.
    pub commands: usize,
}

/// The ends of the two lists that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The starts.
    Start,
    /// The ends: the ring lapped, so the earliest records are gone.
    End,
}

/// A record whose id was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mended {
    /// Its place in the list.
    pub place: usize,
    /// The id in the file.
    pub id: u32,
}

/// Sections of records. An id that stands alone against two neighbours that fit together is mended (see the second
/// result) rather than taken for a reset.
pub fn of_records(records: &mut [Record]) -> (Vec<RecordSection>, Vec<Mended>) {
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
            mended.push(Mended { place: i, id: here });
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
            }),
        }
        open = true;
    }
    sections
}

/// The sections that may be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Sections of equal length are accepted, and no others.
    Equal,
    /// Sections that lost records or commands are accepted too.
    Partial,
}

/// Price of a record without command, against that of a command without record.
const RECORD: u64 = 4;

/// Cost of pairing two sections: 0 if each record has its command and each command its record.
fn price(records: &RecordSection, commands: &CommandSection, base: u32, fit: Fit) -> u32 {
    let have = records.range.len() as u64;
    let leave = leave_records(records).saturating_add(leave_commands(commands));
    let Some(low) = records.low.checked_sub(base.saturating_add(commands.first)) else {
        return leave.saturating_add(1);
    };
    let span = u64::from(low) + records.span();
    if fit == Fit::Equal && (low > 0 || span != commands.count) {
        return leave.saturating_add(1);
    }
    // Ids rise, so at most this many records lie after the last command.
    let over = span.saturating_sub(commands.count).min(have);
    let missing = commands.count.saturating_sub(have - over);
    let price = over * RECORD + missing;
    // Among equal costs, more exact pairs are better.
    clamped(price + u64::from(price > 0))
}

fn leave_records(records: &RecordSection) -> u32 {
    clamped(records.range.len() as u64 * RECORD)
}

fn leave_commands(commands: &CommandSection) -> u32 {
    clamped(commands.count)
}

/// Costs are summed over a window of sections without overflow.
fn clamped(price: u64) -> u32 {
    price.min(1 << 22) as u32
}

/// Aligns the sections: what has no partner on either side costs by its records and commands.
pub fn align(
    records: &[RecordSection],
    commands: &[CommandSection],
    base: u32,
    anchor: Anchor,
    fit: Fit,
) -> Vec<Pair> {
    let (n, m) = (records.len(), commands.len());
    // The k-th section from the anchored end.
    let at = |k: usize, count: usize| match anchor {
        Anchor::Start => k,
        Anchor::End => count - 1 - k,
    };
    let prices = Prices {
        pair: &|i, j| price(&records[at(i, n)], &commands[at(j, m)], base, fit),
        left: &|i| leave_records(&records[at(i, n)]),
        right: &|j| leave_commands(&commands[at(j, m)]),
    };
    let mut pairs: Vec<Pair> = crate::align::align(n, m, &prices)
        .into_iter()
        .filter_map(|step| match step {
            Step::Pair(i, j) => Some(Pair {
                records: at(i, n),
                commands: at(j, m),
            }),
            Step::Left(_) | Step::Right(_) => None,
        })
        .collect();
    pairs.sort_by_key(|p| p.records);
    pairs
}

/// Whether each record has its command and each command its record, if the two belong together.
pub(super) fn fits_exactly(records: &RecordSection, commands: &CommandSection, base: u32) -> bool {
    price(records, commands, base, Fit::Partial) == 0
}

/// Whether the two lists correspond one to one, with nothing lost.
pub fn correspond(records: &[RecordSection], commands: &[CommandSection], base: u32) -> bool {
    records.len() == commands.len()
        && records
            .iter()
            .zip(commands)
            .all(|(r, c)| fits_exactly(r, c, base))
}

/// Whether the two lists correspond one to one except for their first ids: no section begins at the id that it should.
pub fn correspond_shifted(
    records: &[RecordSection],
    commands: &[CommandSection],
    base: u32,
) -> bool {
    records.len() == commands.len()
        && records.iter().zip(commands).all(|(r, c)| {
            r.low > base.saturating_add(c.first)
                && r.span() == c.count
                && r.range.len() as u64 == c.count
        })
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
            })
            .collect()
    }

    fn pairs(sections: &[&[u32]], counts: &[u64]) -> Vec<(usize, usize)> {
        let (list, _) = of_records(&mut records(sections));
        align(&list, &commands(counts), 0, Anchor::Start, Fit::Partial)
            .iter()
            .map(|p| (p.records, p.commands))
            .collect()
    }

    #[test]
    fn whole_lists_pair_one_to_one() {
        let sections: [&[u32]; 3] = [&[0, 1, 2], &[0, 1], &[0]];
        assert_eq!(pairs(&sections, &[3, 2, 1]), [(0, 0), (1, 1), (2, 2)]);
        let (list, _) = of_records(&mut records(&sections));
        assert!(correspond(&list, &commands(&[3, 2, 1]), 0));
        assert!(!correspond(&list, &commands(&[3, 2, 2]), 0));
    }

    #[test]
    fn ids_may_begin_elsewhere_only_if_all_do() {
        let of = |sections: &[&[u32]]| {
            let (list, _) = of_records(&mut records(sections));
            correspond_shifted(&list, &commands(&[3, 2]), 0)
        };
        assert!(of(&[&[7, 8, 9], &[1, 2]]));
        assert!(!of(&[&[7, 8, 9], &[0, 1]]));
        assert!(!of(&[&[7, 8, 9]]));
    }

    #[test]
    fn lost_records_leave_their_section_paired() {
        assert_eq!(
            pairs(&[&[1, 2], &[0, 1, 3], &[0, 1]], &[3, 4, 3]),
            [(0, 0), (1, 1), (2, 2)]
        );
    }

    #[test]
    fn a_lost_section_is_left_out() {
        assert_eq!(pairs(&[&[0, 1, 2], &[0]], &[3, 2, 1]), [(0, 0), (1, 2)]);
    }

    #[test]
    fn sync_pairs_around_a_program_are_left_over() {
        let main: Vec<u32> = (0..81).collect();
        assert_eq!(pairs(&[&[0, 1], &[0], &main, &[0, 1]], &[81]), [(2, 0)]);
        assert_eq!(
            pairs(&[&[0, 1], &[0], &main[..80], &[0, 1]], &[81]),
            [(2, 0)]
        );
        // Most of its commands are unreadable; it is the program nevertheless.
        assert_eq!(pairs(&[&[0, 1], &[0], &main, &[0, 1]], &[17]), [(2, 0)]);
    }

    #[test]
    fn a_lapped_ring_is_aligned_at_its_end() {
        let (list, _) = of_records(&mut records(&[&[1, 2], &[0, 1, 2], &[0, 1, 2]]));
        let pairs = align(&list, &commands(&[3; 6]), 0, Anchor::End, Fit::Partial);
        let found: Vec<_> = pairs.iter().map(|p| (p.records, p.commands)).collect();
        assert_eq!(found, [(0, 3), (1, 4), (2, 5)]);
    }

    #[test]
    fn one_wrong_id_is_mended() {
        let (list, mended) = of_records(&mut records(&[&[0, 1, 900, 3, 4]]));
        assert_eq!(
            (list.len(), mended),
            (1, vec![Mended { place: 2, id: 900 }])
        );
        let (list, mended) = of_records(&mut records(&[&[0, 1, 2, 0, 4]]));
        assert_eq!((list.len(), mended), (1, vec![Mended { place: 3, id: 0 }]));
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
