//! The runs of a profile in which calls are counted: each source in runs of its own, and never in timed runs.
//!
//! A source is started when a call begins and read when it ends. A call inside another one interrupts it, so that every
//! count is a call's own. The minimum count around no work is subtracted: it is the source's own start and stop.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::bail;
use tvm_bridge::vm::{Call, Moment};

use super::Watch;
use crate::measure::counters::{CounterError, CounterSource, Opened, Reading};
use crate::protocol::CallCounts;

/// Number of runs that are counted, after one whose counts are dropped.
const RUNS: usize = 10;
/// Number of readings of an empty interval: a start directly followed by a stop.
const EMPTY: usize = 25;

impl Watch<'_> {
    /// Counts the `calls` of a run with each of the meters.
    pub(super) fn count(&self, calls: usize, opened: Opened) -> anyhow::Result<Vec<CallCounts>> {
        let reason = "it takes single kernels, not the calls of a running model";
        let simulated = opened.simulators.iter();
        let simulated = simulated.flat_map(|simulator| simulator.counters.refused(reason));
        let refusals = opened.refused.into_iter().chain(simulated);
        let refusals = refusals.map(|count| CallCounts {
            of_calls: count.value.map(|_| Vec::new()),
            source: count.source,
            counter: count.counter,
        });
        let mut all: Vec<CallCounts> = refusals.collect();
        for meter in opened.meters {
            all.extend(self.count_with(calls, meter)?);
        }
        Ok(all)
    }

    fn count_with(
        &self,
        calls: usize,
        source: Box<dyn CounterSource>,
    ) -> anyhow::Result<Vec<CallCounts>> {
        let tally = Rc::new(RefCell::new(Tally::new(source, calls)));
        let in_hook = Rc::clone(&tally);
        let note = move |call: &Call<'_>| in_hook.borrow_mut().note(call.moment());
        self.machine.watch(note);
        let runs = (0..=RUNS).try_for_each(|run| {
            if run == 1 {
                tally.borrow_mut().drop_all();
            }
            tally.borrow_mut().begin_run();
            self.watched.run()
        });
        self.machine.unwatch();
        runs?;
        let tally = tally.borrow();
        if tally.next != calls {
            bail!(
                "the model made {calls} calls in one run and {} in another",
                tally.next
            );
        }
        Ok(tally.counts())
    }
}

/// Counts of one source.
struct Tally {
    source: Box<dyn CounterSource>,
    /// The source's reading of an empty interval, for each counter.
    of_nothing: Vec<f64>,
    /// Sums of every call's readings of each counter, or why there are none.
    sums: Vec<Result<Vec<f64>, String>>,
    /// The next call of the run.
    next: usize,
    /// Calls that have begun and not ended.
    open: Vec<usize>,
    /// Whether the source counts.
    running: bool,
}

impl Tally {
    fn new(mut source: Box<dyn CounterSource>, calls: usize) -> Tally {
        let counters = source.counters().all.len();
        let sums = match source.counters().resolution.is_zero() {
            true => vec![Ok(vec![0.0; calls]); counters],
            false => {
                let reason = "calls are shorter than the meter's resolution";
                vec![Err(reason.to_owned()); counters]
            }
        };
        let mut of_nothing = vec![f64::INFINITY; counters];
        for _ in 0..EMPTY {
            let readings = source.start().and_then(|()| source.stop());
            for (least, reading) in of_nothing.iter_mut().zip(readings.into_iter().flatten()) {
                if let Reading::Counted { value, .. } = reading {
                    *least = least.min(value);
                }
            }
        }
        // If the reading of an empty interval is not finite, nothing is subtracted.
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        Tally {
            source,
            of_nothing: of_nothing.into_iter().map(finite).collect(),
            sums,
            next: 0,
            open: Vec::new(),
            running: false,
        }
    }

    fn begin_run(&mut self) {
        self.next = 0;
        self.open.clear();
    }

    /// Forgets the counts of the runs so far.
    fn drop_all(&mut self) {
        for sums in self.sums.iter_mut().flatten() {
            sums.fill(0.0);
        }
    }

    fn note(&mut self, moment: Moment) {
        self.pause();
        match moment {
            Moment::Before => {
                self.open.push(self.next);
                self.next += 1;
            }
            Moment::After => {
                self.open.pop();
            }
        }
        if !self.open.is_empty() {
            self.resume();
        }
    }

    fn resume(&mut self) {
        if self.sums.iter().all(Result::is_err) {
            return;
        }
        match self.source.start() {
            Ok(()) => self.running = true,
            Err(error) => self.fail(&error),
        }
    }

    /// Reads what the innermost call has counted since the last time.
    fn pause(&mut self) {
        let Some(call) = self.open.last().filter(|_| self.running).copied() else {
            return;
        };
        self.running = false;
        match self.source.stop() {
            Ok(readings) => {
                let nothing = self.of_nothing.iter();
                for ((sums, reading), nothing) in self.sums.iter_mut().zip(readings).zip(nothing) {
                    match reading {
                        Reading::Counted { value, .. } => {
                            if let Some(sum) = sums.as_mut().ok().and_then(|s| s.get_mut(call)) {
                                *sum += (value - nothing).max(0.0);
                            }
                        }
                        Reading::NotCounted(reason) => *sums = Err(reason),
                    }
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &CounterError) {
        self.sums.fill(Err(error.reason.clone()));
    }

    /// Means over the runs.
    fn counts(&self) -> Vec<CallCounts> {
        let counters = self.source.counters();
        let means = |sums: &Vec<f64>| sums.iter().map(|sum| sum / RUNS as f64).collect();
        let sums = counters.all.iter().zip(&self.sums);
        sums.map(|(counter, sums)| CallCounts {
            source: counters.source.clone(),
            counter: counter.clone(),
            of_calls: sums.as_ref().map(means).map_err(String::clone),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::mock::ScriptedCounter;

    /// A counter that reads 2 for an empty interval, and then these counts.
    fn counter(counts: &[f64]) -> ScriptedCounter {
        ScriptedCounter::new("events", [&[2.0; EMPTY], counts].concat())
    }

    /// Two calls after each other, the first with a call inside.
    fn run(source: ScriptedCounter) -> Result<Vec<f64>, String> {
        let mut tally = Tally::new(Box::new(source), 3);
        tally.begin_run();
        let (before, after) = (Moment::Before, Moment::After);
        for moment in [before, before, after, after, before, after] {
            tally.note(moment);
        }
        assert_eq!(tally.next, 3);
        let counts = tally.counts().remove(0).of_calls;
        counts.map(|counts| counts.iter().map(|count| count * RUNS as f64).collect())
    }

    #[test]
    fn a_count_is_of_the_call_alone_and_less_what_is_counted_of_nothing() {
        let counts = run(counter(&[10.0, 20.0, 30.0, 1.0]));
        assert_eq!(counts, Ok(vec![36.0, 18.0, 0.0]));
    }

    #[test]
    fn one_reading_that_fails_leaves_a_reason_and_no_count() {
        let counts = run(counter(&[10.0, -1.0, 30.0]));
        assert_eq!(counts, Err("it overflowed".to_owned()));
        let slow = counter(&[1.0]).resolution(std::time::Duration::from_millis(1));
        assert!(run(slow).unwrap_err().contains("resolution"));
        let dead = ScriptedCounter::new("events", []);
        assert_eq!(run(dead), Err("its script is empty".to_owned()));
    }
}
