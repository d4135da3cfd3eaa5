//! When an engine ran the commands of each stretch of the program, for comparison with another engine of the core.
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
    /// Place of the first command of the engine's next section, if there is one: ids were reset before it.
    pub next: Option<u32>,
    /// Start of the earliest of the records in ns.
    pub start_ns: f64,
    /// End of the latest of the records in ns.
    pub end_ns: f64,
}

/// Maximum difference between the clocks of two engines, in ns.
const SLACK_NS: f64 = 50.0;

/// The stretches of one engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Place of a section's last command; the end of all sections up to it.
    ends: Vec<(u32, f64)>,
    /// Index of a section's first command, and the start of all sections from it on.
    starts: Vec<(u32, f64)>,
    /// Place of the first command after a section.
    nexts: Vec<Option<u32>>,
}

impl Timeline {
    /// Makes a timeline of stretches in the order of the program.
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
        Timeline {
            ends,
            starts,
            nexts: stretches.iter().map(|s| s.next).collect(),
        }
    }

    /// Whether `other` began commands that follow a reset of ids while this engine still ran commands from before that
    /// reset. Then one of the two has the wrong commands. The system DMA may be late, but not early.
    pub fn outlasts(&self, other: &Timeline) -> bool {
        let began_behind = |next: u32| {
            let behind = other.starts.partition_point(|&(place, _)| place <= next);
            other.starts.get(behind).map(|&(_, start)| start)
        };
        self.nexts.iter().zip(&self.ends).any(|(next, &(_, end))| {
            let began = next.and_then(began_behind);
            began.is_some_and(|start| start + SLACK_NS < end)
        })
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

    /// Whether two engines' stretches fit together up to their ends: each ran within the times that the other engine
    /// allows. The last ones are of the same part of the program and ran at the same time.
    pub fn ends_with(&self, other: &Timeline) -> bool {
        let (Some(a), Some(b)) = (self.stretches().last(), other.stretches().last()) else {
            return false;
        };
        let same_part = a.first <= b.last && b.first <= a.last;
        let same_time = a.start_ns <= b.end_ns && b.start_ns <= a.end_ns;
        same_part && same_time && self.goes_with(other)
    }

    /// Whether this engine had begun a command sent after a stretch before that stretch started.
    pub fn was_behind(&self, stretch: &Stretch) -> bool {
        let (_, to) = self.window(stretch.first, stretch.last);
        stretch.start_ns + SLACK_NS >= to
    }

    /// Whether each stretch of two engines ran within the times that the other engine allows.
    pub fn goes_with(&self, other: &Timeline) -> bool {
        let allowed = |one: &Timeline, by: &Timeline| {
            one.stretches().all(|s| {
                let (from, to) = by.window(s.first, s.last);
                s.start_ns >= from && s.end_ns <= to
            })
        };
        allowed(self, other) && allowed(other, self)
    }

    fn stretches(&self) -> impl DoubleEndedIterator<Item = Stretch> + '_ {
        let pairs = self.starts.iter().zip(&self.ends).zip(&self.nexts);
        pairs.map(|((&(first, start_ns), &(last, end_ns)), &next)| Stretch {
            first,
            last,
            next,
            start_ns,
            end_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(first: u32, last: u32, next: Option<u32>, start_ns: f64, end_ns: f64) -> Stretch {
        Stretch {
            first,
            last,
            next,
            start_ns,
            end_ns,
        }
    }

    #[test]
    fn what_was_sent_behind_a_reset_begins_when_all_before_it_has_ended() {
        let gdma = |end| Timeline::new(&[stretch(1, 9, Some(20), 100.0, end)]);
        // The second of its sections stands after the first command after the reset.
        let sdma = Timeline::new(&[
            stretch(10, 12, Some(30), 300.0, 500.0),
            stretch(30, 32, None, 2000.0, 2300.0),
        ]);
        assert!(!gdma(900.0).outlasts(&sdma));
        assert!(!gdma(2040.0).outlasts(&sdma));
        assert!(gdma(2100.0).outlasts(&sdma));
        // Its first command may run for any time, and nothing is known about the commands before the reset.
        assert!(!sdma.outlasts(&gdma(900.0)));
    }

    #[test]
    fn a_section_lies_between_its_neighbours() {
        let timeline = Timeline::new(&[
            stretch(1, 9, None, 100.0, 900.0),
            stretch(20, 29, None, 2000.0, 2900.0),
        ]);
        assert_eq!(timeline.window(2, 8), (f64::NEG_INFINITY, 2050.0));
        assert_eq!(timeline.window(10, 15), (850.0, 2050.0));
        assert_eq!(timeline.window(21, 40), (850.0, f64::INFINITY));
        assert_eq!(timeline.window(30, 40), (2850.0, f64::INFINITY));
    }
}
