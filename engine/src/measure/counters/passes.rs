//! The calls that are counted.
//!
//! Counting never touches calls that are timed: a source counts after the samples of a point were taken. Each source
//! counts in a pass of its own, so two that need the same registers do not compete. In each pass batches with and without
//! counting take turns: the ratio of their median times is what counting costs. Where not even two such batches fit into
//! the budget, one is counted and set against the timed samples instead. Slow kernels whose samples took little time are
//! not counted by sources that nobody has named. A count is the mean over the calls, as events that are rare have a median
//! of 0.

use std::time::Duration;

use opdata::stats::median;

use super::{Count, Counted, CounterError, CounterSource, Opened, Reading};
use crate::measure::Timer;
use crate::measure::sampling::{Caches, place, time_calls};

/// Maximum time for the batches of one source.
const MOST_BUDGET: Duration = Duration::from_millis(20);
/// Share of the time of a point's samples that the batches of one source may take as well: counting must not slow a sweep down.
const BUDGET_SHARE: f64 = 0.05;
/// A batch up to this long is counted whatever the budget.
const SHORT_BATCH: Duration = Duration::from_millis(5);
/// Maximum number of batches of one source.
const MOST_ROUNDS: u128 = 10;
/// Maximum number of calls in a batch that is extended for a slow meter.
const MOST_CALLS: u128 = 100_000;

/// How a point's calls are made.
pub struct Calls<'a, 'b> {
    /// The clock.
    pub timer: &'a mut dyn Timer,
    /// Calls in a batch.
    pub number: u32,
    /// Time of a call without counting, from the samples.
    pub typical: Duration,
    /// Time for the batches of one source, see [`budget`].
    pub budget: Duration,
    /// State of the caches.
    pub caches: &'a mut Caches<'b>,
}

/// Time for the batches of one source where the samples took `sampling`.
pub fn budget(sampling: Duration) -> Duration {
    sampling.mul_f64(BUDGET_SHARE).min(MOST_BUDGET)
}

/// The result of one source.
struct Pass {
    counts: Vec<Count>,
    /// Times of a call with and without counting, in nanoseconds.
    with: Vec<f64>,
    without: Vec<f64>,
    running_share: f64,
}

/// Makes calls of `run` while each of the sources counts in its turn. A source that refuses is a reason in the counts.
///
/// # Errors
/// Fails with the first error of `run`, or of placing tensors.
pub fn count<E: From<tvm_bridge::Error>>(
    opened: &mut Opened,
    mut calls: Calls<'_, '_>,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Counted, E> {
    let mut counted = Counted {
        counts: opened.refused.clone(),
        ..Counted::default()
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for source in &mut opened.meters {
        let source = source.as_mut();
        let batch = match batch(source.counters().resolution, &calls, opened.is_automatic) {
            Ok(batch) => batch,
            Err(reason) => {
                counted.counts.extend(source.counters().refused(&reason));
                continue;
            }
        };
        let pass = pass(source, batch, &mut calls, &mut run)?;
        let share = counted.running_share.unwrap_or(1.0);
        counted.running_share = Some(share.min(pass.running_share));
        counted.counts.extend(pass.counts);
        with.extend(pass.with);
        without.extend(pass.without);
    }
    if let (Some(with), Some(without)) = (median(with), median(without))
        && without > 0.0
    {
        counted.overhead_ratio = Some(with / without);
    }
    Ok(counted)
}

/// Calls of a batch, and how many batches.
#[derive(Clone, Copy)]
struct Batch {
    number: u32,
    rounds: u32,
    /// Whether each counted batch has one beside it that is not counted.
    paired: bool,
}

/// The batch for a meter that sees no change in less than `resolution`.
fn batch(resolution: Duration, calls: &Calls<'_, '_>, is_automatic: bool) -> Result<Batch, String> {
    let typical = calls.typical.as_nanos().max(1);
    let wanted = resolution.as_nanos().div_ceil(typical).min(MOST_CALLS);
    let number = match calls.caches {
        Caches::Kept => wanted.max(u128::from(calls.number)),
        Caches::Placed(..) if wanted > 1 => {
            return Err("single calls are shorter than the meter's resolution".to_owned());
        }
        Caches::Placed(..) => 1,
    };
    let rounds = calls.budget.as_nanos() / (2 * typical * number);
    let batch = Duration::from_nanos((typical * number) as u64);
    if rounds == 0 && is_automatic && batch > SHORT_BATCH {
        return Err(format!(
            "a call takes {}, and its samples took too little time to count another",
            opreport::units::time(typical as f64)
        ));
    }
    Ok(Batch {
        number: number as u32,
        rounds: rounds.clamp(1, MOST_ROUNDS) as u32,
        paired: rounds > 0,
    })
}

fn pass<E: From<tvm_bridge::Error>>(
    source: &mut dyn CounterSource,
    batch: Batch,
    calls: &mut Calls<'_, '_>,
    run: &mut impl FnMut() -> Result<(), E>,
) -> Result<Pass, E> {
    let number = batch.number;
    let mut tallies = vec![Tally::default(); source.counters().all.len()];
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let per_call = |elapsed: Duration| elapsed.as_nanos() as f64 / f64::from(number);
    if !batch.paired {
        without.push(calls.typical.as_nanos() as f64);
    }
    for round in 0..batch.rounds {
        // The order alternates, because the second batch finds the caches that the first one left.
        for counting in [round % 2 == 0, round % 2 != 0] {
            if !counting && !batch.paired {
                continue;
            }
            place(calls.caches)?;
            if !counting {
                without.push(per_call(time_calls(calls.timer, number, &mut *run)?));
                continue;
            }
            if let Err(error) = source.start() {
                return Ok(Pass::refused(source, &error, with, without));
            }
            let elapsed = time_calls(calls.timer, number, &mut *run);
            let readings = source.stop();
            with.push(per_call(elapsed?));
            match readings {
                Ok(readings) => {
                    let pairs = tallies.iter_mut().zip(readings);
                    pairs.for_each(|(tally, reading)| tally.add(reading));
                }
                Err(error) => return Ok(Pass::refused(source, &error, with, without)),
            }
        }
    }
    let counted_calls = f64::from(number) * f64::from(batch.rounds);
    let shares = tallies.iter().map(|tally| tally.running_share);
    let running_share = shares.fold(1.0, f64::min);
    let values = tallies.into_iter().map(|t| t.per_call(counted_calls));
    Ok(Pass {
        counts: source.counters().counts(values).collect(),
        with,
        without,
        running_share,
    })
}

impl Pass {
    /// The pass of a source that refused.
    fn refused(
        source: &dyn CounterSource,
        error: &CounterError,
        with: Vec<f64>,
        without: Vec<f64>,
    ) -> Pass {
        Pass {
            counts: source.counters().refused(&error.reason).collect(),
            with,
            without,
            running_share: 1.0,
        }
    }
}

/// The sum of a counter's readings.
#[derive(Clone)]
struct Tally {
    sum: f64,
    running_share: f64,
    refusal: Option<String>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            sum: 0.0,
            running_share: 1.0,
            refusal: None,
        }
    }
}

impl Tally {
    fn add(&mut self, reading: Reading) {
        match reading {
            Reading::Counted {
                value,
                running_share,
            } => {
                self.sum += value;
                self.running_share = self.running_share.min(running_share);
            }
            Reading::NotCounted(reason) => self.refusal = Some(reason),
        }
    }

    /// The count for one call. A counter that failed in one batch did not count at all: its sum would be too small.
    fn per_call(self, calls: f64) -> Result<f64, String> {
        match self.refusal {
            Some(reason) => Err(reason),
            None if !self.sum.is_finite() => Err("its count is beyond all numbers".to_owned()),
            None => Ok(self.sum / calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::mock::{Exclusive, ScriptedCounter, ScriptedTimer};

    /// The counts of `meters` in 40 ms each, and the number of calls made for them.
    fn counted(meters: Vec<Box<dyn CounterSource>>, times: &[u64], number: u32) -> (Counted, u32) {
        counted_within(Duration::from_millis(40), meters, times, number)
    }

    fn counted_within(
        budget: Duration,
        meters: Vec<Box<dyn CounterSource>>,
        times: &[u64],
        number: u32,
    ) -> (Counted, u32) {
        let mut timer = ScriptedTimer::new(times);
        let mut made = 0;
        let calls = Calls {
            timer: &mut timer,
            number,
            typical: Duration::from_millis(2),
            budget,
            caches: &mut Caches::Kept,
        };
        let mut opened = Opened {
            meters,
            ..Opened::default()
        };
        let counted = count(&mut opened, calls, || {
            made += 1;
            Ok::<(), tvm_bridge::Error>(())
        });
        (counted.unwrap(), made)
    }

    fn values(counted: &Counted) -> Vec<(String, Result<f64, String>)> {
        let pair = |count: &Count| (count.full_name(), count.value.clone());
        counted.counts.iter().map(pair).collect()
    }

    #[test]
    fn counts_are_means_of_one_call_and_the_cost_is_on_over_off() {
        // 40 ms hold five pairs of batches of two calls of 2 ms: on and off, off and on, ...
        let meter = ScriptedCounter::new("cycles", [400.0, 800.0, 400.0, 400.0, 500.0]);
        let times = [
            2_200_000, 2_000_000, 2_000_000, 2_200_000, 2_200_000, 2_000_000,
        ];
        let (counted, calls) = counted(vec![Box::new(meter)], &times, 2);
        assert_eq!(calls, 5 * 2 * 2);
        assert_eq!(
            values(&counted),
            [("scripted:cycles".to_owned(), Ok(250.0))]
        );
        assert!((counted.overhead_ratio.unwrap() - 1.05).abs() < 0.06);
        assert_eq!(counted.running_share, Some(1.0));
    }

    #[test]
    fn a_small_budget_counts_one_batch_and_sets_it_against_the_samples() {
        assert_eq!(budget(Duration::from_millis(60)), Duration::from_millis(3));
        let meter = ScriptedCounter::new("cycles", [400.0]);
        let budget = Duration::from_millis(3);
        let (counted, calls) = counted_within(budget, vec![Box::new(meter)], &[2_200_000], 1);
        assert_eq!(calls, 1, "a pair of calls takes 4 ms");
        assert_eq!(values(&counted)[0].1, Ok(400.0));
        assert!((counted.overhead_ratio.unwrap() - 1.1).abs() < 1e-9);
    }

    #[test]
    fn sources_that_need_the_same_registers_count_one_after_the_other() {
        let (first, second) = Exclusive::pair();
        let (counted, _) = counted(vec![Box::new(first), Box::new(second)], &[2_000_000], 1);
        let counts = values(&counted);
        assert!(counts.iter().all(|(_, value)| value.is_ok()), "{counts:?}");
    }

    #[test]
    fn a_source_that_refuses_and_a_counter_that_fails_once_leave_reasons_and_no_zeros() {
        let silent = ScriptedCounter::new("cycles", []);
        let wrapping = ScriptedCounter::new("joules", [5.0, -1.0, 5.0]);
        let (counted, calls) = counted(vec![Box::new(silent), Box::new(wrapping)], &[2_000_000], 1);
        assert_eq!(
            values(&counted),
            [
                (
                    "scripted:cycles".to_owned(),
                    Err("its script is empty".to_owned())
                ),
                (
                    "scripted:joules".to_owned(),
                    Err("it overflowed".to_owned())
                ),
            ]
        );
        assert!(calls > 0);
    }

    #[test]
    fn sharing_a_register_is_recorded() {
        let shared = ScriptedCounter::new("cycles", [400.0]).running(0.25);
        let (counted, _) = counted(vec![Box::new(shared)], &[2_000_000], 1);
        assert_eq!(counted.running_share, Some(0.25));
    }

    #[test]
    fn a_slow_meter_gets_longer_batches() {
        let slow = ScriptedCounter::new("uJ", [30.0]).resolution(Duration::from_millis(20));
        let (counted, calls) = counted(vec![Box::new(slow)], &[2_000_000], 1);
        assert_eq!(calls, 20, "ten calls with, ten without");
        assert_eq!(values(&counted)[0].1, Ok(3.0));
    }
}
