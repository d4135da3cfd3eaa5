//! Which sections belong together where commands are lost as well as, perhaps, records.
//!
//! Then neither list is the other's measure, and what fits may fit by accident: kernels are often as long as each other.
//! A pair is believed only if it fits exactly and no alignment that is nearly as good pairs its records with other
//! commands. How much worse it may be grows with the number of sections that are known to be lost.

use crate::matching::sections::{CommandSection, Pair, RecordSection, fits_exactly};

/// More cells than this are not searched.
const MOST_CELLS: usize = 1 << 22;

/// Alignments that are worse by this many sections left over are possible, and by two more for each lost section.
const MARGIN: u32 = 2;

/// The cheapest alignment, and which of its pairs are certain.
pub(super) struct Alignment {
    /// In order.
    pub pairs: Vec<Pair>,
    /// One for each pair.
    pub certain: Vec<bool>,
}

/// Costs of aligning the first (`ahead`) and the last (`behind`) sections of both lists. A section without partner costs
/// 1, and so does a pair that does not fit exactly.
struct Costs<'a> {
    records: &'a [RecordSection],
    commands: &'a [CommandSection],
    base: u32,
    ahead: Vec<u32>,
    behind: Vec<u32>,
}

impl Costs<'_> {
    fn at(&self, i: usize, j: usize) -> usize {
        i * (self.commands.len() + 1) + j
    }

    fn pair(&self, i: usize, j: usize) -> u32 {
        u32::from(!fits_exactly(
            &self.records[i],
            &self.commands[j],
            self.base,
        ))
    }

    fn fill(&mut self) {
        let (n, m) = (self.records.len(), self.commands.len());
        let cells = (n + 1) * (m + 1);
        (self.ahead, self.behind) = (vec![0; cells], vec![0; cells]);
        for i in 0..=n {
            for j in 0..=m {
                let by_pair = (i > 0 && j > 0)
                    .then(|| self.ahead[self.at(i - 1, j - 1)] + self.pair(i - 1, j - 1));
                let left = (i > 0).then(|| self.ahead[self.at(i - 1, j)] + 1);
                let right = (j > 0).then(|| self.ahead[self.at(i, j - 1)] + 1);
                let here = self.at(i, j);
                self.ahead[here] = cheapest([by_pair, left, right]);
            }
        }
        for i in (0..=n).rev() {
            for j in (0..=m).rev() {
                let by_pair =
                    (i < n && j < m).then(|| self.behind[self.at(i + 1, j + 1)] + self.pair(i, j));
                let left = (i < n).then(|| self.behind[self.at(i + 1, j)] + 1);
                let right = (j < m).then(|| self.behind[self.at(i, j + 1)] + 1);
                let here = self.at(i, j);
                self.behind[here] = cheapest([by_pair, left, right]);
            }
        }
    }

    /// Cost of the best alignment that has this pair.
    fn with(&self, i: usize, j: usize) -> u32 {
        self.ahead[self.at(i, j)] + self.pair(i, j) + self.behind[self.at(i + 1, j + 1)]
    }

    /// Whether neither section of a pair goes with another in an alignment of at most this cost.
    fn is_only(&self, i: usize, j: usize, most: u32) -> bool {
        let (n, m) = (self.records.len(), self.commands.len());
        let of_records = (0..n).filter(|&other| other != i);
        let of_commands = (0..m).filter(|&other| other != j);
        let mut others = of_records
            .map(|other| self.with(other, j))
            .chain(of_commands.map(|other| self.with(i, other)));
        others.all(|cost| cost > most)
    }
}

fn cheapest(ways: [Option<u32>; 3]) -> u32 {
    ways.into_iter().flatten().min().unwrap_or(0)
}

/// Aligns sections; at least `lost` of the commands' are missing; `None` if there are too many to search.
pub(super) fn align(
    records: &[RecordSection],
    commands: &[CommandSection],
    base: u32,
    lost: usize,
) -> Option<Alignment> {
    let (n, m) = (records.len(), commands.len());
    if (n + 1) * (m + 1) > MOST_CELLS {
        return None;
    }
    let mut costs = Costs {
        records,
        commands,
        base,
        ahead: Vec::new(),
        behind: Vec::new(),
    };
    costs.fill();
    let most = costs.behind[0] + MARGIN + 2 * u32::try_from(lost).unwrap_or(u32::MAX / 4);
    let mut found = Alignment {
        pairs: Vec::new(),
        certain: Vec::new(),
    };
    let (mut i, mut j) = (0, 0);
    while i < n && j < m {
        let rest = |i, j| costs.behind[costs.at(i, j)];
        if rest(i, j) == costs.pair(i, j) + rest(i + 1, j + 1) {
            found
                .certain
                .push(costs.pair(i, j) == 0 && costs.is_only(i, j, most));
            found.pairs.push(Pair {
                records: i,
                commands: j,
            });
            (i, j) = (i + 1, j + 1);
        } else if rest(i, j) == 1 + rest(i + 1, j) {
            i += 1;
        } else {
            j += 1;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(records: &[u32], commands: &[u64], lost: usize) -> Vec<(usize, usize, bool)> {
        let mut at = 0;
        let of = |&count: &u32| {
            let start = at;
            at += count as usize;
            RecordSection {
                range: start..at,
                low: 0,
                high: count - 1,
            }
        };
        let records: Vec<RecordSection> = records.iter().map(of).collect();
        let of = |&count: &u64| CommandSection {
            range: 0..count as usize,
            count,
            first: 0,
            sure: true,
        };
        let commands: Vec<CommandSection> = commands.iter().map(of).collect();
        let found = align(&records, &commands, 0, lost).unwrap();
        let pairs = found.pairs.iter().zip(found.certain);
        pairs
            .map(|(p, sure)| (p.records, p.commands, sure))
            .collect()
    }

    #[test]
    fn what_is_alike_is_not_certain() {
        let all = aligned(&[5, 5, 5], &[5, 5], 1);
        assert!(all.iter().all(|(_, _, sure)| !sure), "{all:?}");
    }

    #[test]
    fn lengths_that_nobody_else_has_are_but_beside_what_does_not_fit() {
        assert_eq!(
            aligned(&[5, 9, 7, 20, 3, 11], &[5, 9, 7, 19, 3, 11], 0),
            [
                (0, 0, true),
                (1, 1, true),
                (2, 2, false),
                (3, 3, false),
                (4, 4, false),
                (5, 5, true)
            ]
        );
    }

    #[test]
    fn a_period_that_may_be_lost_is_doubted() {
        let all = aligned(&[5, 6, 7, 5, 6, 7], &[5, 6, 7, 5, 6, 7], 3);
        assert!(all.iter().all(|(_, _, sure)| !sure), "{all:?}");
    }
}
