//! The times of operators inside a running model.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use opmodels::Graph;
use tvm_bridge::vm::{Moment, WatchedMachine};

use crate::interference::quiet::{QUIET, quiet_bound};
use crate::measure::{Marks, TimingPolicy};
use crate::protocol::OperatorInModel;

/// Fewest runs of a model whose calls are watched.
const LEAST_RUNS: usize = 11;
/// Maximum number of runs: a model of a few microseconds could have tens of thousands in its time.
const MOST_RUNS: usize = 200;
/// Number of runs that count if fewer than this were quiet.
const LEAST_QUIET: usize = 5;

/// A run whose calls were timed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WatchedRun {
    /// Time of the run, ns.
    pub total_ns: f64,
    /// Function and time of each call of an operator in nanoseconds, in order.
    pub calls: Vec<(String, f64)>,
}

impl WatchedRun {
    /// Time of all calls, ns.
    pub fn sum_ns(&self) -> f64 {
        self.calls.iter().map(|(_, ns)| ns).sum()
    }
}

/// Calls of operators, as the hook gathers them.
pub(super) struct Calls {
    /// Begin of the run, begin and end of each call, end of the run.
    marks: Box<dyn Marks>,
    /// The calls of this run, in order.
    run: Vec<String>,
    /// Whether the last call has not ended yet.
    open: bool,
}

impl Calls {
    /// A record without calls.
    pub fn new(marks: Box<dyn Marks>) -> Calls {
        Calls {
            marks,
            run: Vec::new(),
            open: false,
        }
    }

    /// Puts a hook into the machine that marks begin and end of every call of the model's operators.
    pub fn watch(
        machine: &WatchedMachine,
        graph: &Graph,
        marks: Box<dyn Marks>,
    ) -> Rc<RefCell<Calls>> {
        let calls = Rc::new(RefCell::new(Calls::new(marks)));
        let symbols: HashSet<String> = graph.operators.iter().map(|o| o.symbol.clone()).collect();
        let in_hook = Rc::clone(&calls);
        machine.watch(move |call| {
            let mut calls = in_hook.borrow_mut();
            match call.moment() {
                Moment::Before => {
                    let symbol = call.symbol();
                    if symbols.contains(symbol) {
                        calls.begin(symbol);
                    }
                }
                Moment::After => calls.end(),
            }
        });
        calls
    }

    /// Marks the begin or the end of a run.
    pub fn mark(&mut self) {
        self.marks.mark();
    }

    fn begin(&mut self, symbol: &str) {
        self.run.push(symbol.to_owned());
        self.open = true;
        self.marks.mark();
    }

    /// Ends the operator that began last. Calls are not nested: operators call nothing that the hook sees.
    fn end(&mut self) {
        if self.open {
            self.marks.mark();
            self.open = false;
        }
    }

    /// Takes what was marked in a run.
    pub fn end_run(&mut self) -> WatchedRun {
        let marks = self.marks.take();
        let pairs = marks.get(1..).unwrap_or_default().chunks_exact(2);
        let ns = pairs.map(|call| call[1].saturating_sub(call[0]).as_nanos() as f64);
        WatchedRun {
            total_ns: marks.last().map_or(0.0, |end| end.as_nanos() as f64),
            calls: self.run.drain(..).zip(ns).collect(),
        }
    }
}

/// Number of watched runs. They are spread over half the time for samples of the whole model, and over as much again if
/// interference hit too many.
pub(super) struct Allowance {
    spread: Duration,
    runs: usize,
    quiet: usize,
}

impl Allowance {
    /// The allowance that follows from the policy's time for samples.
    pub fn of(policy: TimingPolicy) -> Allowance {
        Allowance {
            spread: Duration::from_nanos(policy.stop.budget_ns / 2),
            runs: 0,
            quiet: 0,
        }
    }

    /// Notes a run by the slowdown around it.
    pub fn ran(&mut self, around: f64) {
        self.runs += 1;
        self.quiet += usize::from(around <= QUIET);
    }

    /// Whether there is to be another run, `elapsed` after the first began.
    pub fn another(&self, elapsed: Duration) -> bool {
        let times = if self.quiet < LEAST_QUIET { 2 } else { 1 };
        self.runs < LEAST_RUNS || self.runs < MOST_RUNS && elapsed < self.spread * times
    }
}

/// The runs that count, each with the slowdown around it, and the largest of these slowdowns.
pub(super) fn those_that_count(runs: Vec<(f64, WatchedRun)>) -> (f64, Vec<WatchedRun>) {
    let slowdowns: Vec<f64> = runs.iter().map(|(slowdown, _)| *slowdown).collect();
    let bound = quiet_bound(&slowdowns, LEAST_QUIET);
    let counting = runs.into_iter().filter(|(slowdown, _)| *slowdown <= bound);
    let (slowdowns, runs): (Vec<f64>, Vec<WatchedRun>) = counting.unzip();
    (slowdowns.into_iter().fold(1.0, f64::max), runs)
}

/// The operators of some runs: calls in a run, and the median time of one.
pub(super) fn operators(runs: &[WatchedRun]) -> Vec<OperatorInModel> {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (symbol, ns) in runs.iter().flat_map(|run| &run.calls) {
        times.entry(symbol).or_default().push(*ns);
    }
    let of = |(symbol, times): (&str, Vec<f64>)| OperatorInModel {
        symbol: symbol.to_owned(),
        calls: (times.len() / runs.len()) as u64,
        median_ns: median(times),
    };
    times.into_iter().map(of).collect()
}

/// 0 of no time.
pub(super) fn median(times: Vec<f64>) -> f64 {
    opdata::stats::median(times).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::timer::WallMarks;

    #[test]
    fn calls_are_timed_between_their_marks() {
        let mut calls = Calls::new(Box::new(WallMarks::default()));
        calls.mark();
        for symbol in ["a", "b"] {
            calls.begin(symbol);
            calls.end();
            calls.end();
        }
        calls.mark();
        let run = calls.end_run();
        assert!(run.sum_ns() <= run.total_ns);
        let symbols: Vec<&str> = run
            .calls
            .iter()
            .map(|(symbol, _)| symbol.as_str())
            .collect();
        assert_eq!(symbols, ["a", "b"]);
        assert!(calls.run.is_empty() && calls.marks.take().is_empty());
        let empty = calls.end_run();
        assert_eq!(empty, WatchedRun::default(), "a run without marks");
    }

    #[test]
    fn runs_are_spread_over_a_time_and_over_more_where_it_is_not_quiet() {
        let policy = TimingPolicy {
            warmup: 0,
            number: None,
            stop: opdata::contract::StopRule {
                ci_target: 0.03,
                min_samples: 10,
                max_samples: 1000,
                budget_ns: 1_000_000_000,
            },
        };
        let runs = |each_ms: u64, slowdown: f64| {
            let mut allowance = Allowance::of(policy);
            let mut runs = 0;
            while allowance.another(Duration::from_millis(each_ms) * runs) {
                allowance.ran(slowdown);
                runs += 1;
            }
            runs
        };
        assert_eq!(runs(10, 1.0), 50, "half a second");
        assert_eq!(runs(10, 1.3), 100, "a second");
        assert_eq!((runs(300, 1.0), runs(1, 1.0)), (11, 200));
    }

    #[test]
    fn the_quiet_runs_count_or_the_least_disturbed() {
        let runs = |slowdowns: &[f64]| {
            let of = |&slowdown: &f64| (slowdown, WatchedRun::default());
            let (slowdown, runs) = those_that_count(slowdowns.iter().map(of).collect());
            (slowdown, runs.len())
        };
        let quiet = [1.0, 1.3, 1.02, 1.04, 1.0, 1.01, 1.0, 1.5];
        assert_eq!(runs(&quiet), (1.04, 6));
        assert_eq!(runs(&[1.3, 1.0, 1.2, 1.5, 1.4, 1.6]), (1.5, 5));
    }

    #[test]
    fn an_operators_time_is_the_median_of_its_calls_in_all_runs() {
        let run = |times: [f64; 3]| WatchedRun {
            total_ns: 100.0,
            calls: ["a", "b", "a"]
                .map(str::to_owned)
                .into_iter()
                .zip(times)
                .collect(),
        };
        let operators = operators(&[run([1.0, 10.0, 2.0]), run([3.0, 20.0, 9.0])]);
        let seen: Vec<_> = operators
            .iter()
            .map(|o| (o.symbol.as_str(), o.calls, o.median_ns))
            .collect();
        assert_eq!(seen, [("a", 2, 2.5), ("b", 1, 15.0)]);
    }
}
