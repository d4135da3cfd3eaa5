//! Counters of a kernel's calls: hardware and software events, energy, simulated and estimated numbers.
//!
//! A [`SourceKind`] is one file or folder here and one line of [`SOURCES`]. Some kinds read a meter around calls
//! ([`CounterSource`]); others take the scheduled program ([`Simulator`]). [`request`] reads what `--counters` asks
//! for, [`passes`] makes the calls that are counted. Timed calls are never counted. Each source counts in calls of its
//! own, so no two of them compete for a register. A requested counter that did not count has a reason, never a zero.

mod assembly;
mod callgrind;
mod code;
mod mca;
mod nvml;
mod papi;
pub mod passes;
mod perf;
mod powercap;
pub mod request;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;

use std::path::Path;
use std::time::Duration;

use opmodels::graph::Argument;
use opreport::nearest::{closest, did_you_mean};
use serde::{Deserialize, Serialize};
use tvm_bridge::{IrModule, Target};

pub use callgrind::{CHILD as SIMULATED_CHILD, serve_kernel};

use request::{CounterRequest, Selection};

/// The kinds of sources, in the order in which they are listed.
pub const SOURCES: &[&dyn SourceKind] = &[
    &perf::Perf,
    &papi::PapiEvents,
    &powercap::Powercap,
    &nvml::Nvml,
    &callgrind::Callgrind,
    &code::Code,
    &mca::Mca,
];

/// A counter of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name in the source, e.g. `cycles`.
    pub name: String,
    /// Unit of its counts, e.g. `events`, `ns`, `uJ`.
    pub unit: String,
}

impl Counter {
    /// A counter with a name and a unit.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Counter {
        Counter {
            name: name.into(),
            unit: unit.into(),
        }
    }

    /// Its name in rows: `source:name`.
    pub fn full_name(&self, source: &str) -> String {
        format!("{source}:{}", self.name)
    }
}

impl Counted {
    /// Adds counts from another source.
    pub fn add(&mut self, other: &Counted) {
        self.counts.extend(other.counts.iter().cloned());
        if other.simulated_cpu.is_some() {
            self.simulated_cpu.clone_from(&other.simulated_cpu);
        }
    }
}

/// The reason why a source, or one of its counters, does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{subject}: {reason}; {next}")]
pub struct CounterError {
    /// The source, or the counter as `source:name`.
    pub subject: String,
    /// The reason, in one line.
    pub reason: String,
    /// How to enable the source.
    pub next: String,
}

impl CounterError {
    /// An error about `subject`.
    pub fn new(
        subject: impl Into<String>,
        reason: impl Into<String>,
        next: impl Into<String>,
    ) -> CounterError {
        CounterError {
            subject: subject.into(),
            reason: reason.into(),
            next: next.into(),
        }
    }
}

/// A counter's reading for the time between start and stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reading {
    /// The source counted.
    Counted {
        /// The count, scaled up where the counter shared its register with others.
        value: f64,
        /// Share of the time that it held a register, above 0 and at most 1.
        running_share: f64,
    },
    /// The source did not count, for this reason in one line.
    NotCounted(String),
}

impl Reading {
    /// A count over the whole interval.
    pub fn whole(value: f64) -> Reading {
        Reading::Counted {
            value,
            running_share: 1.0,
        }
    }
}

/// A meter that is read around calls: a performance monitoring unit, the kernel's own counts, an energy meter.
pub trait CounterSource {
    /// Its name, e.g. `perf`.
    fn name(&self) -> &str;
    /// Its counters, in the order of the results of [`CounterSource::stop`].
    fn counters(&self) -> &[Counter];
    /// Begins to count.
    ///
    /// # Errors
    /// Fails if the source refuses.
    fn start(&mut self) -> Result<(), CounterError>;
    /// Ends counting; counts since [`CounterSource::start`], one for each counter.
    ///
    /// # Errors
    /// Fails if the counts cannot be read.
    fn stop(&mut self) -> Result<Vec<Reading>, CounterError>;
    /// Shortest time in which it sees a change; batches of calls are made longer than that.
    fn resolution(&self) -> Duration {
        Duration::ZERO
    }
}

/// The result of one counter at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The counter's source.
    pub source: String,
    /// The counter.
    pub counter: Counter,
    /// Its count for one call, or why it did not count.
    pub value: Result<f64, String>,
}

impl Count {
    /// Its name in rows: `source:name`.
    pub fn full_name(&self) -> String {
        self.counter.full_name(&self.source)
    }
}

/// All counts of one point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Every requested counter.
    pub counts: Vec<Count>,
    /// Median time of a call with counting over that without, in alternating calls. `None` if nothing was read around
    /// calls.
    #[serde(default)]
    pub overhead_ratio: Option<f64>,
    /// Smallest share of the time that a counter had a register. It is below 1 if there were fewer registers than
    /// counters; counts were then scaled up.
    #[serde(default)]
    pub running_share: Option<f64>,
    /// The processor that the kernel was compiled for where a simulator ran it.
    #[serde(default)]
    pub simulated_cpu: Option<String>,
}

/// A kernel as a simulator or an analyser takes it.
pub struct Program<'a> {
    /// A name for it in names of files.
    pub name: String,
    /// Its scheduled module.
    pub module: &'a IrModule,
    /// The target that it was compiled for.
    pub target: &'a Target,
    /// Its arguments, outputs last.
    pub arguments: &'a [Argument],
    /// Seed of their data.
    pub seed: u64,
    /// Maximum time of a call on one thread.
    pub one_thread: Duration,
    /// The folder that keeps the source's files.
    pub keep: Option<&'a Path>,
}

/// A simulator's results for a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Its counts.
    pub counts: Vec<Count>,
    /// The processor that the program was compiled for, if it was compiled again.
    pub cpu: Option<String>,
}

/// Counts by running or analysing a program elsewhere.
pub trait Simulator {
    /// Its name, e.g. `callgrind`.
    fn name(&self) -> &str;
    /// Its counters.
    fn counters(&self) -> &[Counter];
    /// Counts a program.
    ///
    /// # Errors
    /// Fails if it cannot, and says why.
    fn count(&self, program: &Program<'_>) -> Result<Simulated, CounterError>;
}

/// Sources that were opened for a point.
#[derive(Default)]
pub struct Opened {
    /// Meters.
    pub meters: Vec<Box<dyn CounterSource>>,
    /// Simulators and analysers.
    pub simulators: Vec<Box<dyn Simulator>>,
    /// Requested counters that are not available here.
    pub refused: Vec<Count>,
    /// Whether the user named no source. Sources then count only if that takes little time.
    pub is_automatic: bool,
}

/// Whether a counter can be counted on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CounterFact {
    /// The counter.
    #[serde(flatten)]
    pub counter: Counter,
    /// Whether it is counted by default: by `auto`, and by the source's name without an event.
    pub usual: bool,
    /// The reason and the remedy. `None` if it counts.
    pub problem: Option<CounterError>,
}

/// Where the calls run that a source counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The calls run on threads of this machine.
    Host,
    /// The calls run on a device beside them.
    Device,
}

/// A source's counters on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// A description in a few words, or why the source is missing.
    pub state: Result<String, CounterError>,
    /// Its counters. A source with thousands of them lists those that TVM's profiler offered.
    pub counters: Vec<CounterFact>,
}

impl Survey {
    /// The survey of a source that is one tool: all of its counters are usual, and count if the tool is installed.
    fn of_tool(
        state: Result<String, CounterError>,
        counters: impl Iterator<Item = Counter>,
    ) -> Survey {
        let facts = counters.map(|counter| CounterFact {
            counter,
            usual: true,
            problem: state.as_ref().err().cloned(),
        });
        Survey {
            counters: facts.collect(),
            state,
        }
    }
}

/// A kind of source, as a plan sees it.
pub trait SourceKind: Sync {
    /// Its name, as in `--counters NAME:EVENT`.
    fn name(&self) -> &'static str;
    /// A description in a few words.
    fn title(&self) -> &'static str;
    /// Where the calls run that it counts.
    fn side(&self) -> Side {
        Side::Host
    }
    /// Whether `--counters auto` asks it.
    fn is_automatic(&self) -> bool {
        false
    }
    /// Its counters on this machine. Each one is opened *and* read to be sure.
    fn survey(&self) -> Survey;
    /// Whether an event counts here.
    ///
    /// # Errors
    /// Fails if there is no such event or if it does not count, and says what to do.
    fn check(&self, event: &str) -> Result<(), CounterError>;
    /// Opens counters for the threads that the process has now: `events`, or those of its default ones that count here.
    fn open(&self, events: &Selection) -> Opened;
}

/// The kind of this name.
pub fn source(name: &str) -> Option<&'static dyn SourceKind> {
    SOURCES.iter().copied().find(|kind| kind.name() == name)
}

/// Opens all requested sources that count calls on one side.
pub fn open(request: &CounterRequest, side: Side) -> Opened {
    let mut all = Opened {
        is_automatic: *request == CounterRequest::Auto,
        ..Opened::default()
    };
    let sources = request.sources().into_iter();
    for (kind, events) in sources.filter(|(kind, _)| kind.side() == side) {
        let opened = kind.open(&events);
        all.meters.extend(opened.meters);
        all.simulators.extend(opened.simulators);
        // `auto` requests the counters available here, and no others.
        if *request != CounterRequest::Auto {
            all.refused.extend(opened.refused);
        }
    }
    all
}

/// Counts a program with each of the simulators; one that cannot leaves its reason.
pub fn simulate(simulators: &[Box<dyn Simulator>], program: &Program<'_>, counted: &mut Counted) {
    for simulator in simulators {
        match simulator.count(program) {
            Ok(simulated) => {
                counted.counts.extend(simulated.counts);
                counted.simulated_cpu = simulated.cpu.or(counted.simulated_cpu.take());
            }
            Err(error) => refuse(std::slice::from_ref(simulator), &error.reason, counted),
        }
    }
}

/// Leaves a reason for all that simulators would have counted.
pub fn refuse(simulators: &[Box<dyn Simulator>], reason: &str, counted: &mut Counted) {
    for simulator in simulators {
        let refused = |counter: &Counter| Count {
            source: simulator.name().to_owned(),
            counter: counter.clone(),
            value: Err(reason.to_owned()),
        };
        counted
            .counts
            .extend(simulator.counters().iter().map(refused));
    }
}

/// The selected counters of a source.
fn selected(selection: &Selection, all: impl Iterator<Item = Counter>) -> Vec<Counter> {
    match selection {
        Selection::Usual => all.collect(),
        Selection::Listed(names) => all.filter(|c| names.contains(&c.name)).collect(),
    }
}

/// Checks the name of a counter of a source that has only these.
fn known(source: &str, name: &str, all: impl Iterator<Item = Counter>) -> Result<(), CounterError> {
    let names: Vec<String> = all.map(|counter| counter.name).collect();
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let near = closest(name, names.iter().map(String::as_str));
    let near = did_you_mean(near.as_slice());
    Err(CounterError::new(
        format!("{source}:{name}"),
        format!("{source} has no counter `{name}`{near}"),
        format!("it has {}", names.join(", ")),
    ))
}

/// The refusal of a counter, as rows keep it.
fn refused(source: &str, counter: Counter, error: &CounterError) -> Count {
    Count {
        source: source.to_owned(),
        counter,
        value: Err(error.reason.clone()),
    }
}
