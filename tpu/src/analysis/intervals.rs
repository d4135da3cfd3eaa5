//! Sets of moments: unions, overlaps and gaps of half-open intervals in ns.

/// Disjoint intervals in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals(pub Vec<(i64, i64)>);

impl Intervals {
    /// The union of intervals in any order.
    pub fn of(mut list: Vec<(i64, i64)>) -> Intervals {
        if !list.is_sorted() {
            list.sort_unstable();
        }
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (start, end) in list {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end.max(start))),
            }
        }
        Intervals(merged)
    }

    /// Total length in ns.
    pub fn length_ns(&self) -> i64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// The union of two sets.
    pub fn union(&self, other: &Intervals) -> Intervals {
        Intervals::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The moments in both.
    pub fn intersection(&self, other: &Intervals) -> Intervals {
        let (mut i, mut j) = (0, 0);
        let mut both = Vec::new();
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end {
                both.push((start, end));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Intervals(both)
    }

    /// The parts of a span that no interval covers.
    pub fn gaps(&self, span: (i64, i64)) -> Vec<(i64, i64)> {
        let mut gaps = Vec::new();
        let mut at = span.0;
        for &(start, end) in &self.0 {
            if start > at {
                gaps.push((at, start.min(span.1)));
            }
            at = at.max(end);
        }
        if at < span.1 {
            gaps.push((at, span.1));
        }
        gaps
    }

    /// Length in ns of the part inside a span.
    pub fn within_ns(&self, span: (i64, i64)) -> i64 {
        let first = self.0.partition_point(|(_, end)| *end <= span.0);
        self.0[first..]
            .iter()
            .take_while(|(start, _)| *start < span.1)
            .map(|(start, end)| end.min(&span.1) - start.max(&span.0))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_overlaps_gaps() {
        let a = Intervals::of(vec![(5, 8), (0, 2), (1, 3)]);
        assert_eq!(a.0, [(0, 3), (5, 8)]);
        assert_eq!(a.length_ns(), 6);
        let b = Intervals::of(vec![(2, 6)]);
        assert_eq!(a.intersection(&b).0, [(2, 3), (5, 6)]);
        assert_eq!(a.union(&b).0, [(0, 8)]);
        assert_eq!(a.gaps((0, 10)), [(3, 5), (8, 10)]);
        assert_eq!(a.within_ns((2, 7)), 3);
    }
}
