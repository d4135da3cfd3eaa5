//! A timer and a counter source that say what a script tells them: measuring without a clock, the same every time.

use std::time::Duration;

use super::counters::{Counter, CounterError, CounterSource};
use super::timer::Timer;

/// A timer whose calls take scripted times, in turn; the last one repeats.
#[derive(Debug, Clone)]
pub struct ScriptedTimer {
    per_call_ns: Vec<u64>,
    next: usize,
}

impl ScriptedTimer {
    /// Each time that is taken, a call is said to have taken the next of these nanoseconds.
    pub fn new(per_call_ns: impl Into<Vec<u64>>) -> ScriptedTimer {
        ScriptedTimer {
            per_call_ns: per_call_ns.into(),
            next: 0,
        }
    }
}

impl Timer for ScriptedTimer {
    fn time(&mut self, number: u32, calls: &mut dyn FnMut()) -> Duration {
        calls();
        let last = self.per_call_ns.len().saturating_sub(1);
        let ns = self.per_call_ns.get(self.next.min(last)).copied();
        self.next += 1;
        Duration::from_nanos(ns.unwrap_or(0)) * number
    }
}

/// A source with one counter whose counts are scripted, in turn; the last one repeats.
#[derive(Debug, Clone)]
pub struct ScriptedCounter {
    counters: [Counter; 1],
    counts: Vec<f64>,
    next: usize,
    counting: bool,
}

impl ScriptedCounter {
    /// A counter of `name` in the source `scripted`.
    pub fn new(name: &str, counts: impl Into<Vec<f64>>) -> ScriptedCounter {
        ScriptedCounter {
            counters: [Counter {
                name: name.to_owned(),
                unit: "events".to_owned(),
            }],
            counts: counts.into(),
            next: 0,
            counting: false,
        }
    }

    fn refusal(&self, reason: &str) -> CounterError {
        CounterError {
            source_name: self.name().to_owned(),
            reason: reason.to_owned(),
            next: "write a script with counts".to_owned(),
        }
    }
}

impl CounterSource for ScriptedCounter {
    fn name(&self) -> &str {
        "scripted"
    }

    fn counters(&self) -> &[Counter] {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        if self.counts.is_empty() {
            return Err(self.refusal("its script is empty"));
        }
        self.counting = true;
        Ok(())
    }

    fn stop(&mut self) -> Result<Vec<f64>, CounterError> {
        if !std::mem::take(&mut self.counting) {
            return Err(self.refusal("it was not started"));
        }
        let count = self.counts[self.next.min(self.counts.len() - 1)];
        self.next += 1;
        Ok(vec![count])
    }
}
