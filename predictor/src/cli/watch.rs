//! Progress of a long computation on standard error: a bar with the time left on a terminal, elsewhere a line from time
//! to time.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use opreport::output::say;
use opreport::progress::{Bar, Progress};
use opreport::units;

use crate::model::watch::Watch;

/// Number of progress lines of a phase where standard error is no terminal.
const LINES: usize = 5;

/// Shows phases and their steps.
pub(super) struct Shown(Mutex<State>);

struct State {
    bar: Option<Bar>,
    phase: String,
    steps: usize,
    done: usize,
    begun: Instant,
}

impl Shown {
    /// A display before anything has begun.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(Bar::new);
        Self(Mutex::new(State {
            bar,
            phase: String::new(),
            steps: 0,
            done: 0,
            begun: Instant::now(),
        }))
    }
}

impl Watch for Shown {
    fn begin(&self, phase: &str, steps: usize) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.phase = phase.to_owned();
        (state.steps, state.done, state.begun) = (steps, 0, Instant::now());
        match &mut state.bar {
            Some(bar) => {
                bar.end();
                bar.begin(phase, steps as u64);
            }
            None => say(&format!("{phase}: {}", units::plural(steps as u64, "step"))),
        }
    }

    fn step(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        let (done, steps) = (state.done, state.steps);
        let elapsed = state.begun.elapsed();
        match &mut state.bar {
            Some(bar) => {
                bar.point("", "");
                if done == steps {
                    bar.end();
                }
            }
            None if steps > LINES && done < steps && done.is_multiple_of(steps.div_ceil(LINES)) => {
                let left = elapsed.as_nanos() as f64 / done as f64 * (steps - done) as f64;
                let left = units::wall(left as u64);
                say(&format!("{}: {done} of {steps}, {left} left", state.phase));
            }
            None => {}
        }
    }
}
