//! Measuring again while the machine is disturbed, and the grade that a result gets.

use std::time::Duration;

use opdata::Quality;
use opengine::protocol::Measured;
use opengine::stats::{GradeInput, Summary, grade};

use super::session::Clock;

/// A point around which the machine was slower than this, relative to its best, is measured again.
pub(crate) const DRIFT_BOUND: f64 = 1.10;

/// What was measured of a point so far.
#[derive(Default)]
pub(crate) struct Attempts {
    pub best: Option<Measured>,
}

impl Attempts {
    /// Adds a result; whether the machine was quiet enough for it, or measuring again would not help.
    pub fn add(&mut self, measured: Measured) -> bool {
        let settled = measured.drift <= DRIFT_BOUND || measured.taken.is_none();
        if self.best.as_ref().is_none_or(|b| measured.drift < b.drift) {
            self.best = Some(measured);
        }
        settled
    }
}

/// How long to go on measuring again, relative to how long measuring took.
pub(super) struct Patience<'a> {
    clock: &'a dyn Clock,
    times: f64,
    begun: Duration,
    end: Option<Duration>,
}

impl<'a> Patience<'a> {
    /// Measuring begins now; what is measured again afterwards may take so many times as long.
    pub fn new(times: f64, clock: &'a dyn Clock) -> Patience<'a> {
        Patience {
            clock,
            times,
            begun: clock.now(),
            end: None,
        }
    }

    /// Whether to measure again. To be asked when everything was measured once: the time runs from the first call on, which says
    /// yes unless the time is none. It is at most what that call finds to `spare`, if that is bounded.
    pub fn lasts(&mut self, spare: impl FnOnce() -> Option<Duration>) -> bool {
        let now = self.clock.now();
        match self.end {
            Some(end) => now < end,
            None => {
                let wanted = now.saturating_sub(self.begun).mul_f64(self.times);
                let spare = spare();
                let granted = spare.map_or(wanted, |spare| spare.min(wanted));
                self.end = Some(now.saturating_add(granted));
                self.times > 0.0 && spare != Some(Duration::ZERO)
            }
        }
    }
}

/// The grade of a summary, with the sentinel's drift around it.
pub(crate) fn quality(summary: &Summary, drift: f64) -> Quality {
    grade(GradeInput {
        relative_half_width: summary.relative_half_width(),
        drifts: [summary.drift, Some(drift - 1.0)],
        samples: summary.samples,
    })
}

/// A grade with the load of the machine taken into account: other processes that took 6, 12 or 24 % of the CPU time leave
/// A, B or C at best, for they seldom slow a kernel down by more than half of that.
pub(super) fn quality_under_load(quality: Quality, other_cpu_share: f64) -> Quality {
    let best = grade(GradeInput {
        relative_half_width: 0.0,
        drifts: [Some(other_cpu_share / 2.0), None],
        samples: u64::MAX,
    });
    worse(quality, best)
}

/// The worse of two grades.
pub(super) fn worse(one: Quality, other: Quality) -> Quality {
    if one.as_str() > other.as_str() {
        one
    } else {
        other
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use opengine::runner::testing;

    fn measured(drift: f64) -> Measured {
        testing::measured(0, 1e3, drift)
    }

    /// The drift that counts in the end, and how many attempts it took.
    fn settled(drifts: &[f64]) -> (f64, usize) {
        let mut attempts = Attempts::default();
        let mut count = 0;
        for &drift in drifts {
            count += 1;
            if attempts.add(measured(drift)) {
                break;
            }
        }
        (attempts.best.unwrap().drift, count)
    }

    #[test]
    fn a_point_is_measured_again_while_the_machine_drifts() {
        assert_eq!(settled(&[1.02, 9.0]), (1.02, 1));
        assert_eq!(settled(&[1.5, 1.05, 9.0]), (1.05, 2));
        assert_eq!(
            settled(&[1.5, 1.2, 1.3]),
            (1.2, 3),
            "the best of all counts"
        );
    }

    #[test]
    fn measuring_again_may_take_so_many_times_as_long_as_measuring() {
        let asked = |times, spare: Option<u64>| {
            let clock = Ticking(Cell::new(Duration::from_secs(100)));
            let mut patience = Patience::new(times, &clock);
            // Two seconds of measuring.
            clock.now();
            let spare = || spare.map(Duration::from_secs);
            (0..10).take_while(|_| patience.lasts(spare)).count()
        };
        assert_eq!(
            [0.0, 0.1, 1.0, 3.0].map(|times| asked(times, None)),
            [0, 1, 2, 6]
        );
        assert_eq!(
            [0, 1, 4, 60].map(|spare| asked(3.0, Some(spare))),
            [0, 1, 4, 6]
        );
    }

    /// A clock on which a second passes with each look.
    struct Ticking(Cell<Duration>);

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            self.0.replace(self.0.get() + Duration::from_secs(1))
        }
    }

    #[test]
    fn load_lowers_a_grade_and_raises_none() {
        let under = |share| quality_under_load(Quality::A, share);
        assert_eq!(
            [0.0, 0.1, 0.2, 0.5].map(under),
            [Quality::A, Quality::B, Quality::C, Quality::D]
        );
        assert_eq!(quality_under_load(Quality::C, 0.0), Quality::C);
    }

    #[test]
    fn a_wrong_result_is_not_measured_again() {
        let mut attempts = Attempts::default();
        assert!(attempts.add(Measured {
            taken: None,
            ..measured(2.0)
        }));
    }
}
