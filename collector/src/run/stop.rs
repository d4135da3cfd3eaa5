//! When a run ends early: the user asks for it, or its time is spent.

use std::time::Duration;

use opengine::interrupt::Interrupt;

use super::session::Clock;

/// Why a run ends before its last point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user asked for it.
    Interrupted,
    /// The time budget is spent.
    TimeSpent,
}

/// Reasons to end a run early.
#[derive(Debug, Clone)]
pub struct Stop {
    interrupt: Interrupt,
    deadline: Option<Duration>,
}

impl Stop {
    /// Starts the time budget: `time_budget_ns` are left from now on, if there is a budget.
    pub fn new(interrupt: Interrupt, time_budget_ns: Option<u64>, clock: &dyn Clock) -> Stop {
        let end = |ns| clock.now().saturating_add(Duration::from_nanos(ns));
        Stop {
            interrupt,
            deadline: time_budget_ns.map(end),
        }
    }

    /// The time left, if there is a budget.
    pub fn left(&self, clock: &dyn Clock) -> Option<Duration> {
        self.deadline.map(|d| d.saturating_sub(clock.now()))
    }

    /// Whether to end before the next point, and why.
    pub fn due(&self, clock: &dyn Clock) -> Option<Cut> {
        if self.interrupt.requested() {
            Some(Cut::Interrupted)
        } else if self.deadline.is_some_and(|d| clock.now() >= d) {
            Some(Cut::TimeSpent)
        } else {
            None
        }
    }
}
