//! Durations of many executions: how often each occurs, so that memory grows with how much they differ, not with their
//! number.

use opdata::stats::median_of_sorted;

/// Durations that are added before they are counted.
const PENDING: usize = 1 << 16;

/// Durations in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durations {
    /// Durations in ascending order, each with its number of occurrences.
    counted: Vec<(i64, u64)>,
    pending: Vec<i64>,
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, ns: i64) {
        self.pending.push(ns);
        if self.pending.len() >= PENDING.max(self.counted.len()) {
            self.sort();
        }
    }

    /// Counts the added durations. Call it before any query.
    pub fn sort(&mut self) {
        self.pending.sort_unstable();
        let mut merged: Vec<(i64, u64)> = Vec::with_capacity(self.counted.len() + 16);
        let mut old = self.counted.drain(..).peekable();
        let mut push = |ns: i64, count: u64| match merged.last_mut() {
            Some(last) if last.0 == ns => last.1 += count,
            _ => merged.push((ns, count)),
        };
        for ns in self.pending.drain(..) {
            while let Some((before, count)) = old.next_if(|(before, _)| *before <= ns) {
                push(before, count);
            }
            push(ns, 1);
        }
        old.for_each(|(ns, count)| push(ns, count));
        self.counted = merged;
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counted.iter().map(|(_, count)| count).sum()
    }

    /// Their sum in ns.
    pub fn total_ns(&self) -> i64 {
        self.counted
            .iter()
            .map(|(ns, count)| ns * *count as i64)
            .sum()
    }

    /// The duration at an index in ascending order, from 0; beyond the end the longest, `None` if there is none.
    pub fn at(&self, place: u64) -> Option<i64> {
        let mut before = 0;
        let found = self.counted.iter().find(|(_, count)| {
            before += count;
            before > place
        });
        found.or(self.counted.last()).map(|(ns, _)| *ns)
    }

    /// The middle one in ns, between the two middle ones of an even number.
    pub fn median_ns(&self) -> Option<f64> {
        let last = self.count().checked_sub(1)?;
        let middle = [self.at(last / 2)?, self.at(last.div_ceil(2))?];
        median_of_sorted(&middle.map(|ns| ns as f64))
    }

    /// Their standard deviation in ns, of two or more.
    pub fn std_ns(&self) -> Option<f64> {
        let count = self.count();
        let mean = self.total_ns() as f64 / count as f64;
        let square = |(ns, n): &(i64, u64)| (*ns as f64 - mean).powi(2) * *n as f64;
        let squares: f64 = self.counted.iter().map(square).sum();
        (count > 1).then(|| (squares / (count - 1) as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_say_what_the_list_says(mut list in prop::collection::vec(0..50i64, 1..300), at in 0..400u64) {
            let mut durations = Durations::default();
            for (i, &ns) in list.iter().enumerate() {
                durations.add(ns);
                if i % 7 == 0 {
                    durations.sort();
                }
            }
            durations.sort();
            list.sort_unstable();
            let floats: Vec<f64> = list.iter().map(|&ns| ns as f64).collect();
            prop_assert_eq!(durations.count(), list.len() as u64);
            prop_assert_eq!(durations.total_ns(), list.iter().sum::<i64>());
            prop_assert_eq!(durations.median_ns(), median_of_sorted(&floats));
            prop_assert_eq!(durations.at(at), list.get(at as usize).or(list.last()).copied());
        }
    }

    #[test]
    fn nothing_has_no_middle() {
        assert_eq!(
            (Durations::default().median_ns(), Durations::default().at(0)),
            (None, None)
        );
    }
}
