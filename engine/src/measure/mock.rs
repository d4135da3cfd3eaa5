//! A timer and a counter source that say what a script tells them: measuring without a clock, the same every time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::counters::{Counter, CounterError, CounterSource, Counters, Reading};
use super::timer::Timer;

/// A timer whose calls take scripted times, in turn; the last one repeats.
#[derive(Debug, Clone)]
pub struct ScriptedTimer {
    per_call_ns: Vec<u64>,
    next: usize,
}

impl ScriptedTimer {
    /// A timer whose n-th measurement reports the n-th of these times for a call, in nanoseconds.
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

/// A source with one counter whose counts are scripted, in turn; the last one repeats. A negative count has overflowed.
#[derive(Debug, Clone)]
pub struct ScriptedCounter {
    counters: Counters,
    counts: Vec<f64>,
    running_share: f64,
    next: usize,
    counting: bool,
}

impl ScriptedCounter {
    /// A counter of `name` in the source `scripted`.
    pub fn new(name: &str, counts: impl Into<Vec<f64>>) -> ScriptedCounter {
        ScriptedCounter {
            counters: Counters::new("scripted", vec![Counter::new(name, "events")]),
            counts: counts.into(),
            running_share: 1.0,
            next: 0,
            counting: false,
        }
    }

    /// Holds its register for this share of the time.
    #[must_use]
    pub fn running(self, running_share: f64) -> ScriptedCounter {
        ScriptedCounter {
            running_share,
            ..self
        }
    }

    /// Sees no change in less than this.
    #[must_use]
    pub fn resolution(mut self, resolution: Duration) -> ScriptedCounter {
        self.counters.resolution = resolution;
        self
    }

    fn refusal(&self, reason: &str) -> CounterError {
        CounterError::new(&*self.counters.source, reason, "write a script with counts")
    }
}

impl CounterSource for ScriptedCounter {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        if self.counts.is_empty() {
            return Err(self.refusal("its script is empty"));
        }
        self.counting = true;
        Ok(())
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        if !std::mem::take(&mut self.counting) {
            return Err(self.refusal("it was not started"));
        }
        let value = self.counts[self.next.min(self.counts.len() - 1)];
        self.next += 1;
        Ok(vec![match value < 0.0 {
            true => Reading::NotCounted("it overflowed".to_owned()),
            false => Reading::Counted {
                value,
                running_share: self.running_share,
            },
        }])
    }
}

/// A source that refuses to start while the other one of its pair counts.
#[derive(Debug)]
pub struct Exclusive {
    counters: Counters,
    register: Rc<Cell<bool>>,
}

impl Exclusive {
    /// Two sources with one register between them.
    pub fn pair() -> (Exclusive, Exclusive) {
        let register = Rc::new(Cell::new(false));
        let source = |name| Exclusive {
            counters: Counters::new("exclusive", vec![Counter::new(name, "events")]),
            register: Rc::clone(&register),
        };
        (source("first"), source("second"))
    }
}

impl CounterSource for Exclusive {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        match self.register.replace(true) {
            true => Err(CounterError::new(
                &*self.counters.source,
                "the register is taken",
                "wait",
            )),
            false => Ok(()),
        }
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        self.register.set(false);
        Ok(vec![Reading::whole(1.0)])
    }
}
