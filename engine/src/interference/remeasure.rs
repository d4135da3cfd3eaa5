//! Decides whether to measure again after interference, and which of several results counts.
//!
//! Points of a batch, whole models, replays and jobs of a nightly run go by the same rules. A result within the bound
//! counts at once. Otherwise measuring goes on while there is budget left, and the result with the least interference
//! counts.

use std::time::Duration;

use opdata::contract::interference::QUIET_MOMENT;

/// The result with the least interference so far.
#[derive(Debug)]
pub struct Best<T>(Option<(f64, T)>);

impl<T> Default for Best<T> {
    fn default() -> Self {
        Best(None)
    }
}

impl<T> Best<T> {
    /// Adds a result with its interference relative to the bound: up to 1 it is good enough. Returns whether it was.
    pub fn add(&mut self, relative: f64, result: T) -> bool {
        if self.0.as_ref().is_none_or(|(best, _)| relative < *best) {
            self.0 = Some((relative, result));
        }
        relative <= 1.0
    }

    /// Whether there is a result.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the result.
    pub fn take(&mut self) -> Option<T> {
        self.0.take().map(|(_, result)| result)
    }
}

/// A slowdown relative to the bound beyond which a point is measured again.
pub fn relative(slowdown: f64) -> f64 {
    (slowdown - 1.0) / (opdata::contract::interference::SLOWDOWN_BOUND - 1.0)
}

/// The slowdown before a measurement: the one after the wait for a quiet moment, or the reading `now` without a wait.
/// Measuring `again` is refused if the wait ended without a quiet moment, because interference that lasts would
/// disturb the new result too.
///
/// # Errors
/// Fails if it is refused.
pub(crate) fn slowdown_before(again: bool, now: f64, waited: Option<f64>) -> anyhow::Result<f64> {
    if let Some(slowdown) = waited {
        anyhow::ensure!(
            !again || slowdown <= QUIET_MOMENT,
            "the reference kernel still takes {slowdown:.2} times its idle time"
        );
    }
    Ok(waited.unwrap_or(now))
}

/// The re-measure budget: a multiple of the time that the first measurements took.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    times: f64,
    begun: Duration,
    end: Option<Duration>,
}

impl Budget {
    /// The first measurements begin at `now`; measuring again may take `times` as long as they do.
    pub fn new(times: f64, now: Duration) -> Budget {
        Budget {
            times,
            begun: now,
            end: None,
        }
    }

    /// Whether budget is left at `now`. The first call ends the first measurements and starts the budget: `times` × the time
    /// that they took, capped by `spare()`.
    pub fn lasts(&mut self, now: Duration, spare: impl FnOnce() -> Option<Duration>) -> bool {
        if let Some(end) = self.end {
            return now < end;
        }
        let wanted = now.saturating_sub(self.begun).mul_f64(self.times);
        let spare = spare();
        let granted = spare.map_or(wanted, |spare| spare.min(wanted));
        self.end = Some(now.saturating_add(granted));
        self.times > 0.0 && spare != Some(Duration::ZERO)
    }
}

/// Measures until a result is good enough or nothing says `again`, and keeps the one with the least interference. `measure`
/// learns whether there is a result already. If it fails then, the best result so far counts.
///
/// # Errors
/// Fails with the error of the first attempt.
pub fn until_quiet<T, E>(
    mut measure: impl FnMut(bool) -> Result<T, E>,
    interference: impl Fn(&T) -> f64,
    mut again: impl FnMut() -> bool,
) -> Result<T, E> {
    let first = measure(false)?;
    let (mut kept, mut least) = (None, interference(&first));
    while least > 1.0 && again() {
        let Ok(next) = measure(true) else { break };
        let own = interference(&next);
        if own < least {
            (kept, least) = (Some(next), own);
        }
    }
    Ok(kept.unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result kept of attempts with these interferences (`None` fails), and the number of attempts.
    fn kept(attempts: &[Option<f64>], extra: usize) -> (Option<f64>, usize) {
        let mut left = attempts.iter();
        let mut earlier = false;
        let measure = |again| {
            assert_eq!(std::mem::replace(&mut earlier, true), again);
            left.next().copied().flatten().ok_or(())
        };
        let mut allowed = 0..extra;
        let best = until_quiet(measure, |own| *own, || allowed.next().is_some()).ok();
        (best, attempts.len() - left.len())
    }

    #[test]
    fn the_least_disturbed_result_counts_and_none_is_lost() {
        for (attempts, extra, expected) in [
            (&[Some(0.9), Some(0.1)][..], 2, (Some(0.9), 1)),
            (&[Some(3.0), Some(0.8), Some(0.1)], 2, (Some(0.8), 2)),
            (
                &[Some(3.0), Some(2.0), Some(4.0), Some(0.0)],
                2,
                (Some(2.0), 3),
            ),
            (&[Some(3.0), None, Some(0.0)], 2, (Some(3.0), 2)),
            (&[Some(3.0), Some(0.5)], 0, (Some(3.0), 1)),
            (&[None], 2, (None, 1)),
        ] {
            assert_eq!(kept(attempts, extra), expected, "{attempts:?}");
        }
    }

    #[test]
    fn results_that_come_one_by_one_go_by_the_same_rule() {
        for (slowdowns, expected) in [
            (&[1.02, 9.0][..], (1.02, 1)),
            (&[1.10, 1.0], (1.10, 1)),
            (&[1.5, 1.05, 9.0], (1.05, 2)),
            (&[1.5, 1.2, 1.3], (1.2, 3)),
        ] {
            let mut best = Best::default();
            let mut made = 0;
            for &slowdown in slowdowns {
                made += 1;
                if best.add(relative(slowdown), slowdown) {
                    break;
                }
            }
            assert_eq!((best.take().unwrap(), made), expected, "{slowdowns:?}");
        }
    }

    #[test]
    fn measuring_again_is_refused_after_a_wait_in_vain() {
        let before = |again, waited| slowdown_before(again, 1.5, waited).ok();
        assert_eq!(before(true, Some(1.05)), Some(1.05));
        assert_eq!(before(true, Some(1.06)), None);
        assert_eq!(before(false, Some(1.06)), Some(1.06));
        assert_eq!(before(true, None), Some(1.5), "the device does not wait");
    }

    #[test]
    fn the_budget_is_a_multiple_of_the_first_time_capped_by_what_is_spare() {
        let granted = |times, spare: Option<u64>| {
            let second = Duration::from_secs;
            let mut budget = Budget::new(times, second(100));
            // Two seconds of measuring, then a second with each look.
            let mut now = 101;
            let mut looks = 0..10;
            looks
                .by_ref()
                .take_while(|_| {
                    now += 1;
                    budget.lasts(second(now), || spare.map(second))
                })
                .count()
        };
        let of = |times| granted(times, None);
        assert_eq!([0.0, 0.1, 1.0, 3.0].map(of), [0, 1, 2, 6]);
        let capped = |spare| granted(3.0, Some(spare));
        assert_eq!([0, 1, 4, 60].map(capped), [0, 1, 4, 6]);
    }
}
