//! `perf`: events of the Linux kernel and of the processor, through `perf_event_open(2)`.
//!
//! Software events are there on every machine, hardware events where the processor's counters reach this system; they
//! count user mode only. Each thread of the process has counters of its own (see [`super::tasks`]). If there are more
//! hardware events than registers, the kernel multiplexes them; the times enabled and running show it.

mod events;
#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::sync::OnceLock;

use perf_event::Counter as Handle;

use super::request::Selection;
use super::{
    Counter, CounterError, CounterFact, CounterSource, Counters, Opened, Reading, SourceKind,
    Survey, refused, tasks,
};

use events::{Event, event, names, paranoid};
pub(super) use events::{permission, some_of_everything};

/// The kind.
pub(super) struct Perf;

const NAME: &str = "perf";

/// A counter's state since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    count: u64,
    /// Seconds that its thread ran while the counter was enabled.
    enabled: f64,
    /// Seconds of these that it held a register.
    running: f64,
}

impl Seen {
    fn read(handle: &mut Handle) -> io::Result<Seen> {
        let seconds = |time: Option<std::time::Duration>| time.map_or(0.0, |t| t.as_secs_f64());
        handle.read_full().map(|read| Seen {
            count: read.count(),
            enabled: seconds(read.time_enabled()),
            running: seconds(read.time_running()),
        })
    }

    /// The difference to `before`. `None` if the count went backwards.
    fn since(self, before: Seen) -> Option<Seen> {
        Some(Seen {
            count: self.count.checked_sub(before.count)?,
            enabled: self.enabled - before.enabled,
            running: self.running - before.running,
        })
    }
}

/// The sum of an event's counters over all threads.
fn reading(seen: &[Option<Seen>]) -> Reading {
    let (mut value, mut enabled, mut running) = (0.0, 0.0, 0.0);
    for seen in seen {
        let Some(seen) = seen else {
            return Reading::NotCounted("it overflowed: its count went backwards".to_owned());
        };
        enabled += seen.enabled;
        running += seen.running;
        value += match seen.running < seen.enabled {
            true if seen.running <= 0.0 => {
                let reason = "other events held the registers all the time; count fewer at once";
                return Reading::NotCounted(reason.to_owned());
            }
            true => seen.count as f64 * seen.enabled / seen.running,
            false => seen.count as f64,
        };
    }
    Reading::Counted {
        value,
        running_share: if running < enabled {
            running / enabled
        } else {
            1.0
        },
    }
}

/// The usual events and whether they count here; asked once a process, as the machine does not change.
fn usual_here() -> &'static [(Event, Option<CounterError>)] {
    static USUAL: OnceLock<Vec<(Event, Option<CounterError>)>> = OnceLock::new();
    USUAL.get_or_init(|| {
        let usual = names().flat_map(event).filter(|event| event.is_usual);
        let checked = usual.map(|event| (event.clone(), event.check().err()));
        checked.collect()
    })
}

impl SourceKind for Perf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "events of the kernel and the processor"
    }

    fn is_automatic(&self) -> bool {
        true
    }

    fn survey(&self) -> Survey {
        let facts = names().flat_map(event).map(|event| CounterFact {
            counter: event.counter(),
            usual: event.is_usual,
            problem: event.check().err(),
        });
        let counters: Vec<CounterFact> = facts.collect();
        let here = counters.iter().filter(|c| c.problem.is_none()).count();
        let state = match counters.iter().find_map(|c| c.problem.clone()) {
            Some(problem) if here == 0 => Err(CounterError {
                subject: NAME.to_owned(),
                ..problem
            }),
            _ => Ok(format!("{here} of {} events count here", counters.len())),
        };
        Survey { state, counters }
    }

    fn check(&self, name: &str) -> Result<(), CounterError> {
        event(name)?.check()
    }

    fn open(&self, events: &Selection) -> Opened {
        let mut opened = Opened::default();
        let mut wanted = Vec::new();
        match events {
            Selection::Usual => {
                for (event, problem) in usual_here() {
                    match problem {
                        None => wanted.push(event.clone()),
                        Some(error) => opened.refused.push(refused(NAME, event.counter(), error)),
                    }
                }
            }
            Selection::Listed(names) => {
                for name in names {
                    match event(name).and_then(|event| event.check().map(|()| event)) {
                        Ok(event) => wanted.push(event),
                        Err(error) => {
                            let counter = Counter::new(name, "events");
                            opened.refused.push(refused(NAME, counter, &error));
                        }
                    }
                }
            }
        }
        match PerfSource::open(wanted) {
            Ok(source) => opened.meters.push(Box::new(source)),
            Err((events, error)) => {
                let refusals = events.iter().map(|e| refused(NAME, e.counter(), &error));
                opened.refused.extend(refusals);
            }
        }
        opened
    }
}

/// Counters of some events for every thread.
struct PerfSource {
    counters: Counters,
    /// For each thread its counters in the order of `counters`, with their states when they were last switched off; the
    /// calling thread is the last.
    tasks: Vec<Vec<(Handle, Seen)>>,
}

impl PerfSource {
    fn open(events: Vec<Event>) -> Result<PerfSource, (Vec<Event>, CounterError)> {
        // SAFETY: a plain system call without arguments.
        let this = unsafe { libc::gettid() };
        let open_all = || -> Result<Vec<Vec<(Handle, Seen)>>, CounterError> {
            let refusal =
                |event: &Event, error: io::Error| event.refusal(error.raw_os_error(), paranoid());
            let mut ids = tasks::all().map_err(|error| {
                CounterError::new(NAME, format!("no list of threads: {error}"), "mount /proc")
            })?;
            // Its own counters are switched on last and off first, so that they see least of the switching.
            ids.sort_by_key(|id| *id == this);
            ids.into_iter()
                .map(|id| {
                    let open = |event: &Event| match event.open(id) {
                        Ok(handle) => Ok((handle, Seen::default())),
                        Err(error) => Err(refusal(event, error)),
                    };
                    events.iter().map(open).collect()
                })
                .collect()
        };
        match open_all() {
            Ok(tasks) => Ok(PerfSource {
                counters: Counters::new(NAME, events.iter().map(Event::counter).collect()),
                tasks,
            }),
            Err(error) => Err((events, error)),
        }
    }

    fn failed(error: &io::Error) -> CounterError {
        CounterError::new(
            NAME,
            format!("an open counter fails: {error}"),
            "see perf_event_open(2)",
        )
    }
}

impl CounterSource for PerfSource {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        let mut handles = self.tasks.iter_mut().flatten();
        let started = handles.try_for_each(|(handle, _)| handle.enable());
        started.map_err(|error| PerfSource::failed(&error))
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        let mut stop = || -> io::Result<Vec<Reading>> {
            let mut backwards = self.tasks.iter_mut().rev().flatten();
            backwards.try_for_each(|(handle, _)| handle.disable())?;
            let mut seen: Vec<Vec<Option<Seen>>> = vec![Vec::new(); self.counters.all.len()];
            for task in &mut self.tasks {
                for ((handle, before), seen) in task.iter_mut().zip(&mut seen) {
                    let now = Seen::read(handle)?;
                    seen.push(now.since(std::mem::replace(before, now)));
                }
            }
            Ok(seen.iter().map(|seen| reading(seen)).collect())
        };
        stop().map_err(|error| PerfSource::failed(&error))
    }
}
