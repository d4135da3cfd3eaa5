//! The times of operators inside a running model.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use opmodels::Graph;
use tvm_bridge::vm::{Moment, WatchedMachine};

use crate::measure::Marks;
use crate::protocol::OperatorInModel;

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
    /// What was called in this run, in order.
    run: Vec<String>,
    /// Whether the last call has not ended yet.
    open: bool,
}

impl Calls {
    /// None yet.
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

    /// Operators call nothing that the hook sees, so the next end is the open one's.
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
