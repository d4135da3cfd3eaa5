//! Finds the possible command sections of each record, by order alone.
//!
//! Records are in the order of their commands and carry their ids. Any number of them may be lost, so they are a
//! subsequence of the commands. The earliest and the latest such assignment, both found in linear time, bound all
//! others. If both give a record the same section, it is proven. Otherwise several commands explain the record.

use crate::matching::order::Record;
use crate::matching::sections::CommandSection;

/// Records and command sections that may belong together.
pub(super) struct Embedding<'a> {
    /// The records in order.
    pub records: &'a [Record],
    /// The sections of commands in order.
    pub sections: &'a [CommandSection],
    /// Id of a section's first command.
    pub base: u32,
}

/// The earliest and the latest possible section of each record.
pub(super) struct Bounds {
    /// The earliest section of each record.
    pub earliest: Vec<u32>,
    /// The latest section of each record.
    pub latest: Vec<u32>,
}

impl Embedding<'_> {
    /// The bounds; `None` if the records are no subsequence of the commands.
    pub fn bounds(&self) -> Option<Bounds> {
        Some(Bounds {
            earliest: self.earliest()?,
            latest: self.latest()?,
        })
    }

    fn fits(&self, place: usize, section: usize) -> bool {
        let first = self.base.saturating_add(self.sections[section].first);
        let index = self.records[place].id.checked_sub(first);
        index.is_some_and(|i| u64::from(i) < self.sections[section].count)
    }

    fn earliest(&self) -> Option<Vec<u32>> {
        let mut section = 0;
        let mut last: Option<u32> = None;
        let mut found = Vec::with_capacity(self.records.len());
        for (place, record) in self.records.iter().enumerate() {
            while last.is_some_and(|id| id >= record.id) || !self.fits(place, section) {
                section += 1;
                last = None;
                if section == self.sections.len() {
                    return None;
                }
            }
            last = Some(record.id);
            found.push(section as u32);
        }
        Some(found)
    }

    fn latest(&self) -> Option<Vec<u32>> {
        let mut section = self.sections.len() - 1;
        let mut next: Option<u32> = None;
        let mut found = vec![0; self.records.len()];
        for (place, record) in self.records.iter().enumerate().rev() {
            while next.is_some_and(|id| id <= record.id) || !self.fits(place, section) {
                section = section.checked_sub(1)?;
                next = None;
            }
            next = Some(record.id);
            found[place] = section as u32;
        }
        Some(found)
    }

    /// The sections if the records are the last commands without a gap, as a ring that lapped leaves them.
    pub fn suffix(&self) -> Option<Vec<u32>> {
        let mut section = self.sections.len() - 1;
        let mut behind = self.sections[section].count;
        let mut found = vec![0; self.records.len()];
        for (place, record) in self.records.iter().enumerate().rev() {
            if behind == 0 {
                section = section.checked_sub(1)?;
                behind = self.sections[section].count;
            }
            behind -= 1;
            let first = self.base.saturating_add(self.sections[section].first);
            if u64::from(record.id) != u64::from(first) + behind {
                return None;
            }
            found[place] = section as u32;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sections(counts: &[u64]) -> Vec<CommandSection> {
        let section = |&count: &u64| CommandSection {
            range: 0..count as usize,
            count,
            first: 0,
        };
        counts.iter().map(section).collect()
    }

    fn records(ids: &[u32]) -> Vec<Record> {
        let record = |(i, &id): (usize, &u32)| Record {
            start: i as i64 * 10,
            end: i as i64 * 10 + 5,
            id,
            offset: i as u64,
        };
        ids.iter().enumerate().map(record).collect()
    }

    fn bounds(ids: &[u32], counts: &[u64]) -> Option<(Vec<u32>, Vec<u32>)> {
        let embedding = Embedding {
            records: &records(ids),
            sections: &sections(counts),
            base: 0,
        };
        embedding.bounds().map(|b| (b.earliest, b.latest))
    }

    #[test]
    fn what_is_lost_within_a_section_leaves_no_doubt() {
        let both = vec![0, 0, 1, 1, 1];
        assert_eq!(
            bounds(&[1, 2, 0, 1, 2], &[3, 3]),
            Some((both.clone(), both))
        );
        assert_eq!(bounds(&[0, 1, 0, 0], &[3, 3]), None);
    }

    #[test]
    fn a_lost_section_may_be_any_of_its_like() {
        assert_eq!(
            bounds(&[0, 1, 0, 1], &[2, 2, 2]),
            Some((vec![0, 0, 1, 1], vec![1, 1, 2, 2]))
        );
        assert_eq!(bounds(&[2, 3], &[4, 2, 4]), Some((vec![0, 0], vec![2, 2])));
    }

    #[test]
    fn a_ring_keeps_the_end() {
        let list = sections(&[2, 3]);
        let of = |ids: &[u32]| {
            let embedding = Embedding {
                records: &records(ids),
                sections: &list,
                base: 0,
            };
            embedding.suffix()
        };
        assert_eq!(of(&[1, 0, 1, 2]), Some(vec![0, 1, 1, 1]));
        assert_eq!(of(&[1, 0, 2]), None);
    }

    proptest! {
        /// Whichever records are lost, the true section lies between the bounds.
        #[test]
        fn the_truth_lies_between(
            counts in prop::collection::vec(1..5u64, 1..12),
            keep in prop::collection::vec(any::<bool>(), 48),
        ) {
            let all: Vec<(u32, u32)> = counts
                .iter()
                .enumerate()
                .flat_map(|(s, &n)| (0..n as u32).map(move |id| (s as u32, id)))
                .collect();
            let kept: Vec<_> = all.iter().zip(&keep).filter(|(_, k)| **k).map(|(c, _)| *c).collect();
            let ids: Vec<u32> = kept.iter().map(|k| k.1).collect();
            let (earliest, latest) = bounds(&ids, &counts).unwrap();
            for ((truth, _), (low, high)) in kept.iter().zip(earliest.iter().zip(&latest)) {
                prop_assert!(low <= truth && truth <= high);
            }
        }
    }
}
