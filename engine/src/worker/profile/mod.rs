//! Profiling a whole model in the worker: a hook around the virtual machine's calls takes the time of each.
//!
//! One run records which calls there are ([`seen`]). In the runs that are kept the hook only takes the time. The
//! overhead of watching is measured by alternating runs of an unwatched machine and of the watched one. Counters count
//! in runs of their own ([`counts`]).

mod counts;
mod seen;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use opdata::CacheState;
use tvm_bridge::clock::{self, ns_between, ticks};
use tvm_bridge::tasks::{self, Task};
use tvm_bridge::vm::{Call, Moment, Runner, WatchedMachine};

use super::shared::Shared;
use super::whole_model::LoadedModel;
use crate::device::{Conditions, SimulatedClock};
use crate::protocol::{ProfileSpec, Profiled, ProfiledCycle, ProfiledStep, TaskSpan};
use seen::Seen;

/// Fewest and most pairs of runs without and with the hooks.
const PAIRS: (usize, usize) = (10, 500);

impl LoadedModel {
    /// Profiles runs of the model as the schedule says.
    pub fn profile(&self, shared: &mut Shared, spec: &ProfileSpec) -> anyhow::Result<Profiled> {
        let watched = self.watched.as_ref();
        let watched = watched.context("calls on another machine cannot be watched from here")?;
        let session = &mut shared.session;
        session.prepare(&Conditions::new(spec.threads as u32, CacheState::Model))?;
        clock::calibrate();
        let watch = Watch {
            plain: self.machine.runner(&self.graph.entry)?,
            watched: watched.machine.runner(&self.graph.entry)?,
            machine: watched,
            clock: Clock::new(session.simulated_clock()),
            stamps: Rc::default(),
        };
        watch.plain(1)?;
        let seen = watch.look()?;
        let now = session.slowdown()?;
        let before = session.wait_for_quiet(now)?.unwrap_or(now);
        let mut cycles = Vec::new();
        let schedule = spec.schedule;
        let mut step = u64::from(schedule.skip_first);
        watch.plain(schedule.skip_first)?;
        for _ in 0..schedule.repeat {
            watch.plain(schedule.wait)?;
            watch.on();
            for _ in 0..schedule.warmup {
                watch.step(&seen)?;
            }
            step += u64::from(schedule.wait) + u64::from(schedule.warmup);
            let steps = (0..schedule.active).map(|_| watch.step(&seen));
            let steps = steps.collect::<anyhow::Result<_>>()?;
            watch.off();
            cycles.push(ProfiledCycle {
                first_step: step,
                steps,
            });
            step += u64::from(schedule.active);
        }
        let pairs = match watch.clock.simulated {
            // Watching takes no simulated time.
            Some(_) => Vec::new(),
            None => watch.pairs(Duration::from_nanos(spec.overhead_budget_ns))?,
        };
        let slowdown = before.max(session.slowdown()?);
        // Counting comes last, so that no counter is open while anything is timed.
        let opened = session.counters()(&spec.counters);
        let counts = watch.count(seen.seen.len(), opened)?;
        Ok(Profiled {
            calls: seen.calls(&self.addresses),
            storage_bytes: seen.storage_bytes,
            cycles,
            pairs,
            counts,
            slowdown,
        })
    }
}

/// The model under watch.
struct Watch<'a> {
    machine: &'a WatchedMachine,
    watched: Runner,
    /// Runs of the model in a machine without hooks.
    plain: Runner,
    clock: Clock,
    /// Readings of the clock in a run, one for each call of the hook.
    stamps: Rc<RefCell<Vec<u64>>>,
}

/// The clock of a run: ticks of this machine's clock, or the simulated time of a simulator.
#[derive(Clone)]
struct Clock {
    simulated: Option<SimulatedClock>,
    started: u64,
}

impl Clock {
    fn new(simulated: Option<SimulatedClock>) -> Clock {
        let mut clock = Clock {
            simulated,
            started: 0,
        };
        clock.started = clock.now();
        clock
    }

    #[inline]
    fn now(&self) -> u64 {
        match &self.simulated {
            None => ticks(),
            Some(simulated) => simulated(),
        }
    }

    /// Nanoseconds from the clock's start to a reading of it.
    fn ns(&self, reading: u64) -> u64 {
        match self.simulated {
            None => ns_between(self.started, reading),
            Some(_) => reading - self.started,
        }
    }
}

impl Watch<'_> {
    /// One run in which everything is recorded.
    fn look(&self) -> anyhow::Result<Seen> {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let in_hook = Rc::clone(&seen);
        let look = move |call: &Call<'_>| in_hook.borrow_mut().note(call);
        self.machine.watch(look);
        let run = self.watched.run();
        self.machine.unwatch();
        run?;
        Ok(seen.take())
    }

    /// Runs that nobody watches.
    fn plain(&self, runs: u32) -> anyhow::Result<()> {
        for _ in 0..runs {
            self.plain.run()?;
        }
        Ok(())
    }

    fn on(&self) {
        let stamps = Rc::clone(&self.stamps);
        let clock = self.clock.clone();
        self.machine
            .watch(move |_| stamps.borrow_mut().push(clock.now()));
        // Tasks are timed by this machine's clock.
        tasks::record(self.clock.simulated.is_none());
    }

    fn off(&self) {
        tasks::record(false);
        self.machine.unwatch();
    }

    /// One run that is watched.
    fn step(&self, seen: &Seen) -> anyhow::Result<ProfiledStep> {
        self.forget();
        let begin = self.clock.now();
        self.watched.run()?;
        let end = self.clock.now();
        let stamps = self.stamps.borrow();
        if stamps.len() != seen.events.len() {
            bail!(
                "the model made {} calls in one run and {} in another: a profile needs the same calls in every run",
                seen.events.len() / 2,
                stamps.len() / 2
            );
        }
        let at = |reading: u64| self.clock.ns(reading);
        let mut calls = vec![(0, 0); seen.seen.len()];
        for ((call, moment), stamp) in seen.events.iter().zip(stamps.iter()) {
            match moment {
                Moment::Before => calls[*call].0 = at(*stamp),
                Moment::After => calls[*call].1 = at(*stamp),
            }
        }
        let mut tasks: Vec<Task> = Vec::new();
        tasks::take(&mut tasks);
        let tasks = tasks.into_iter().map(|task| TaskSpan {
            thread: task.thread,
            span: (at(task.begin), at(task.end)),
        });
        Ok(ProfiledStep {
            span: (at(begin), at(end)),
            calls,
            tasks: tasks.collect(),
        })
    }

    /// Drops the times of the last run; their memory is kept for the next.
    fn forget(&self) {
        self.stamps.borrow_mut().clear();
        tasks::take(&mut Vec::new());
    }

    /// Runs without and with hooks that take turns; which comes first changes from pair to pair.
    fn pairs(&self, budget: Duration) -> anyhow::Result<Vec<(f64, f64)>> {
        let begun = Instant::now();
        let mut pairs = Vec::new();
        while pairs.len() < PAIRS.0 || (begun.elapsed() < budget && pairs.len() < PAIRS.1) {
            let first_watched = pairs.len() % 2 == 1;
            let first = self.timed(first_watched)?;
            let second = self.timed(!first_watched)?;
            pairs.push(match first_watched {
                false => (first, second),
                true => (second, first),
            });
        }
        Ok(pairs)
    }

    fn timed(&self, watched: bool) -> anyhow::Result<f64> {
        if watched {
            self.forget();
            self.on();
        }
        let runner = if watched { &self.watched } else { &self.plain };
        let begin = Instant::now();
        runner.run()?;
        let elapsed = begin.elapsed();
        if watched {
            self.off();
        }
        Ok(elapsed.as_nanos() as f64)
    }
}
