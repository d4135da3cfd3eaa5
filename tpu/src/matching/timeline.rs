//! When an engine ran the commands of each stretch of the program, to check another engine of the core by.
//!
//! Ids of a core's engines are reset together, once both are idle: commands count each other's ids. So what one engine
//! did between two resets ends before the other begins what follows the next one.

/// Commands of one section whose records are known for certain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Place of the section's first command among the nodes of all engines.
    pub first: u32,
    /// Place of its last command.
    pub last: u32,
    /// Start of the earliest of the records in ns.
    pub start_ns: f64,
    /// End of the latest of the records in ns.
    pub end_ns: f64,
}

/// Clocks of two engines may be read so far apart, in ns.
const SLACK_NS: f64 = 50.0;

/// The stretches of one engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Place of a section's last command; the end of all sections up to it.
    ends: Vec<(u32, f64)>,
    /// Place of a section's first command; the start of all sections from it on.
    starts: Vec<(u32, f64)>,
}

impl Timeline {
    /// From stretches in the order of the program.
    pub fn new(stretches: &[Stretch]) -> Timeline {
        let mut latest = f64::NEG_INFINITY;
        let mut earliest = f64::INFINITY;
        let ends = stretches.iter().map(|s| {
            latest = latest.max(s.end_ns);
            (s.last, latest)
        });
        let ends = ends.collect();
        let starts = stretches.iter().rev().map(|s| {
            earliest = earliest.min(s.start_ns);
            (s.first, earliest)
        });
        let mut starts: Vec<(u32, f64)> = starts.collect();
        starts.reverse();
        Timeline { ends, starts }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// When commands between two places may have run: not before, and not after, in ns.
    pub fn window(&self, first: u32, last: u32) -> (f64, f64) {
        let before = self.ends.partition_point(|&(place, _)| place < first);
        let after = self.starts.partition_point(|&(place, _)| place <= last);
        let from = before
            .checked_sub(1)
            .map_or(f64::NEG_INFINITY, |at| self.ends[at].1 - SLACK_NS);
        let to = self
            .starts
            .get(after)
            .map_or(f64::INFINITY, |&(_, start)| start + SLACK_NS);
        (from, to)
    }

    /// Whether two engines' stretches go together to their ends: each ran when the other's say it may have, and the last
    /// ones are of the same part of the program and ran at the same time.
    pub fn ends_with(&self, other: &Timeline) -> bool {
        let allowed = |one: &Timeline, by: &Timeline| {
            one.stretches().all(|s| {
                let (from, to) = by.window(s.first, s.last);
                s.start_ns >= from && s.end_ns <= to
            })
        };
        let (Some(a), Some(b)) = (self.stretches().last(), other.stretches().last()) else {
            return false;
        };
        let same_part = a.first <= b.last && b.first <= a.last;
        let same_time = a.start_ns <= b.end_ns && b.start_ns <= a.end_ns;
        same_part && same_time && allowed(self, other) && allowed(other, self)
    }

    fn stretches(&self) -> impl DoubleEndedIterator<Item = Stretch> + '_ {
        let pairs = self.starts.iter().zip(&self.ends);
        pairs.map(|(&(first, start_ns), &(last, end_ns))| Stretch {
            first,
            last,
            start_ns,
            end_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_lies_between_its_neighbours() {
        let stretch = |first, last, start_ns, end_ns| Stretch {
            first,
            last,
            start_ns,
            end_ns,
        };
        let timeline =
            Timeline::new(&[stretch(1, 9, 100.0, 900.0), stretch(20, 29, 2000.0, 2900.0)]);
        assert_eq!(timeline.window(2, 8), (f64::NEG_INFINITY, 2050.0));
        assert_eq!(timeline.window(10, 15), (850.0, 2050.0));
        assert_eq!(timeline.window(21, 40), (850.0, f64::INFINITY));
        assert_eq!(timeline.window(30, 40), (2850.0, f64::INFINITY));
    }
}
