//! Sets of PAPI's events that count on every thread of a kernel.
//!
//! Where PAPI attaches to threads, each thread of the process gets a set from here. Without a PMU it attaches to none,
//! even for events of the kernel (it tries a hardware event first). The threads of TVM's pool then make, start and read
//! sets of their own.

use std::sync::Mutex;

use tvm_bridge::threads::on_each;

use super::library::{Api, Code, Set};
use super::{Event, NAME, counter, refusal};
use crate::measure::counters::{CounterError, CounterSource, Counters, Reading, tasks};

/// Whose events a component counts, and how that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Events of the thread that a set is attached to.
    Attached,
    /// The counters of the thread that makes and starts the set. The set attaches to no thread.
    Own,
    /// Events of no thread, such as the machine's energy.
    Machine,
}

impl Scope {
    /// The scope of a component on this machine, tried on the calling thread.
    pub fn of(api: &dyn Api, component: i32) -> Result<Scope, Code> {
        let set = api.set(component)?;
        let attached = api.attach(set, this_thread());
        api.free(set);
        match attached {
            Ok(()) => Ok(Scope::Attached),
            Err(code) if code.is_incapable() => Ok(Scope::Machine),
            Err(code) if code.is_no_event() => Ok(Scope::Own),
            Err(code) => Err(code),
        }
    }

    /// Prepares a set for the calling thread.
    pub fn place(self, api: &dyn Api, set: Set) -> Result<(), Code> {
        match self {
            Scope::Attached => api.attach(set, this_thread()),
            Scope::Own | Scope::Machine => Ok(()),
        }
    }
}

fn this_thread() -> libc::pid_t {
    // SAFETY: a plain system call without arguments.
    unsafe { libc::gettid() }
}

/// A set of events for every thread.
pub(super) struct PapiSource {
    pub api: &'static dyn Api,
    pub counters: Counters,
    pub scope: Scope,
    /// A set for each thread. Attached ones come before that of the calling thread, own ones in the order of the pool's
    /// threads. For the machine there is a single one.
    pub sets: Vec<Set>,
}

impl PapiSource {
    /// Events of one component.
    pub fn open(api: &'static dyn Api, events: &[Event]) -> Result<PapiSource, CounterError> {
        let scope = events.first().map_or(Scope::Machine, |event| event.scope);
        let counters = events.iter().map(|event| counter(&event.name)).collect();
        let mut source = PapiSource {
            api,
            counters: Counters::new(NAME, counters),
            scope,
            sets: Vec::new(),
        };
        match scope {
            Scope::Attached => {
                let mut ids = tasks::all().map_err(|error| {
                    CounterError::new(NAME, format!("no list of threads: {error}"), "mount /proc")
                })?;
                ids.sort_by_key(|id| *id == this_thread());
                for id in ids {
                    let set = source.filled(events, |set| api.attach(set, id))?;
                    source.sets.push(set);
                }
            }
            Scope::Machine => {
                let set = source.filled(events, |_| Ok(()))?;
                source.sets.push(set);
            }
            Scope::Own => {
                let made = Mutex::new(Vec::new());
                let make = |number: usize, _| {
                    let set = source.filled(events, |_| Ok(()));
                    made.lock().unwrap().push((number, set));
                };
                on_each(&make).map_err(no_launch)?;
                let mut made = made.into_inner().unwrap();
                made.sort_by_key(|(number, _)| *number);
                for (_, set) in made {
                    source.sets.push(set?);
                }
            }
        }
        Ok(source)
    }

    /// A new set with all events, after `place` has said whose they are.
    fn filled(
        &self,
        events: &[Event],
        place: impl FnOnce(Set) -> Result<(), Code>,
    ) -> Result<Set, CounterError> {
        let [first, ..] = events else {
            return Err(CounterError::new(NAME, "no events", "name some"));
        };
        let no = |event: &Event, code| refusal(self.api, &event.name, code);
        let set = self.api.set(first.component).map_err(|c| no(first, c))?;
        let placed = place(set).map_err(|code| no(first, code));
        let added = placed.and_then(|()| {
            events.iter().try_for_each(|event| {
                let added = self.api.add(set, event.code);
                added.map_err(|code| no(event, code))
            })
        });
        added.map(|()| set).inspect_err(|_| self.api.free(set))
    }

    /// Does something with every set: own ones on their threads, others in the order of `sets`; the last failure, if any.
    fn on_all<'a>(
        &'a self,
        sets: impl Iterator<Item = &'a Set>,
        act: impl Fn(Set) -> Result<(), Code> + Sync,
    ) -> Result<(), CounterError> {
        let failure = Mutex::new(None);
        let act = |set: Set| {
            if let Err(code) = act(set) {
                *failure.lock().unwrap() = Some(code);
            }
        };
        match self.scope {
            Scope::Own => {
                on_each(&|number, _| self.sets.get(number).copied().map_or((), act))
                    .map_err(no_launch)?;
            }
            Scope::Attached | Scope::Machine => sets.copied().for_each(act),
        }
        match failure.into_inner().unwrap() {
            None => Ok(()),
            Some(code) => Err(self.failed(code)),
        }
    }

    fn failed(&self, code: Code) -> CounterError {
        CounterError::new(
            NAME,
            format!("PAPI fails while counting: {}", self.api.words(code)),
            "see papi_component_avail for what this PAPI counts here",
        )
    }
}

fn no_launch(error: tvm_bridge::Error) -> CounterError {
    CounterError::new(
        NAME,
        format!("TVM's pool does not run: {error}"),
        "count with perf, as in --counters perf:page-faults",
    )
}

impl CounterSource for PapiSource {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        let started = self.on_all(self.sets.iter(), |set| self.api.start(set));
        if started.is_err() {
            // Sets that did not start refuse to stop.
            let mut values = vec![0i64; self.counters.all.len()];
            for set in &self.sets {
                let _ = self.api.stop(*set, &mut values);
            }
        }
        started
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        let sums: Vec<Option<f64>> = vec![Some(0.0); self.counters.all.len()];
        let sums = Mutex::new(sums);
        // The calling thread's set first, so that it does not count the stopping of the others.
        self.on_all(self.sets.iter().rev(), |set| {
            let mut values = vec![0i64; self.counters.all.len()];
            self.api.stop(set, &mut values)?;
            for (sum, value) in sums.lock().unwrap().iter_mut().zip(&values) {
                *sum = sum.filter(|_| *value >= 0).map(|sum| sum + *value as f64);
            }
            Ok(())
        })?;
        let overflowed = || Reading::NotCounted("it overflowed: its count is negative".to_owned());
        let reading = |sum: Option<f64>| sum.map_or_else(overflowed, Reading::whole);
        let sums = sums.into_inner().unwrap();
        Ok(sums.into_iter().map(reading).collect())
    }
}

impl Drop for PapiSource {
    fn drop(&mut self) {
        self.sets.iter().for_each(|set| self.api.free(*set));
    }
}
