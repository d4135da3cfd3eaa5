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

/// Counters of one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The source's name, e.g. `perf`.
    #[serde(rename = "name")]
    pub source: String,
    /// The counters, in the order of their readings.
    #[serde(rename = "counters")]
    pub all: Vec<Counter>,
    /// Shortest time in which the source sees a change; batches of calls are made longer than that.
    pub resolution: Duration,
}

impl Counters {
    /// Counters of a source that sees every change at once.
    pub fn new(source: &str, all: Vec<Counter>) -> Counters {
        Counters {
            source: source.to_owned(),
            all,
            resolution: Duration::ZERO,
        }
    }

    /// The counters with their values, which are in the same order.
    pub fn counts(
        &self,
        values: impl IntoIterator<Item = Result<f64, String>>,
    ) -> impl Iterator<Item = Count> {
        let counters = self.all.iter().zip(values);
        counters.map(|(counter, value)| Count {
            source: self.source.clone(),
            counter: counter.clone(),
            value,
        })
    }

    /// All counters as not counted, for one reason.
    pub fn refused(&self, reason: &str) -> impl Iterator<Item = Count> {
        self.counts(std::iter::repeat_with(|| Err(reason.to_owned())))
    }
}

/// A meter that is read around calls: a performance monitoring unit, the kernel's own counts, an energy meter.
pub trait CounterSource {
    /// Its source and its counters.
    fn counters(&self) -> &Counters;
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
pub struct Simulated {
    /// The values of all of its counters, or why one has none.
    pub values: Vec<Result<f64, String>>,
    /// The processor that the program was compiled for, if it was compiled again.
    pub cpu: Option<&'static str>,
}

/// A source that runs or analyses a program elsewhere.
pub trait Simulator: Sync {
    /// Its name, e.g. `callgrind`.
    fn name(&self) -> &'static str;
    /// A description in a few words.
    fn title(&self) -> &'static str;
    /// Its counters.
    fn counters(&self) -> Vec<Counter>;
    /// The tool that it uses here, in a few words.
    ///
    /// # Errors
    /// Fails if it cannot work here, and says what to do.
    fn available(&self) -> Result<String, CounterError>;
    /// Counts a program.
    ///
    /// # Errors
    /// Fails if it cannot, and says why.
    fn count(&self, program: &Program<'_>) -> Result<Simulated, CounterError>;
}

/// A simulator with the counters that are requested of it.
pub struct Requested {
    simulator: Box<dyn Simulator>,
    /// The requested counters.
    pub counters: Counters,
}

/// Sources that were opened, and what was refused.
#[derive(Default)]
pub struct Opened {
    /// Meters.
    pub meters: Vec<Box<dyn CounterSource>>,
    /// Simulators and analysers.
    pub simulators: Vec<Requested>,
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
    fn of_tool(state: Result<String, CounterError>, counters: Vec<Counter>) -> Survey {
        let facts = counters.into_iter().map(|counter| CounterFact {
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
    /// Whether an event counts here; by default, whether the source does and has it.
    ///
    /// # Errors
    /// Fails if there is no such event or if it does not count, and says what to do.
    fn check(&self, event: &str) -> Result<(), CounterError> {
        let survey = self.survey();
        let names = survey.counters.iter().map(|fact| &*fact.counter.name);
        if !survey.counters.is_empty() {
            known(self.name(), event, names)?;
        }
        survey.state.map(drop)
    }
    /// Opens counters for the threads that the process has now: `events`, or those of its default ones that count here.
    fn open(&self, events: &Selection) -> Opened;
}

impl<T: Simulator + Copy + 'static> SourceKind for T {
    fn name(&self) -> &'static str {
        Simulator::name(self)
    }

    fn title(&self) -> &'static str {
        Simulator::title(self)
    }

    fn survey(&self) -> Survey {
        Survey::of_tool(self.available(), self.counters())
    }

    fn open(&self, events: &Selection) -> Opened {
        let requested = Requested {
            simulator: Box::new(*self),
            counters: Counters::new(Simulator::name(self), selected(events, self.counters())),
        };
        Opened {
            simulators: vec![requested],
            ..Opened::default()
        }
    }
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
pub fn simulate(simulators: &[Requested], program: &Program<'_>, counted: &mut Counted) {
    for Requested {
        simulator,
        counters,
    } in simulators
    {
        match simulator.count(program) {
            Ok(simulated) => {
                let values = simulator.counters().into_iter().zip(simulated.values);
                let requested = values.filter(|(counter, _)| counters.all.contains(counter));
                let values = requested.map(|(_, value)| value);
                counted.counts.extend(counters.counts(values));
                let cpu = simulated.cpu.map(str::to_owned);
                counted.simulated_cpu = cpu.or(counted.simulated_cpu.take());
            }
            Err(error) => counted.counts.extend(counters.refused(&error.reason)),
        }
    }
}

/// Unit of the counts of an event of `perf` or PAPI, from its name: PAPI's own table of units is empty for most.
fn unit(event: &str) -> &'static str {
    let event = event.to_ascii_uppercase();
    let has = |part: &str| event.contains(part);
    match () {
        () if has("CLOCK") => "ns",
        () if has("_CYC") || has("CYCLES") => "cycles",
        () if has("_INS") || has("INSTRUCTIONS") => "instructions",
        () if has("ENERGY_UJ") => "uJ",
        () if has("BYTES") => "bytes",
        () => "events",
    }
}

/// The selected counters of a source.
fn selected(selection: &Selection, all: Vec<Counter>) -> Vec<Counter> {
    let mut all = all;
    if let Selection::Listed(names) = selection {
        all.retain(|counter| names.contains(&counter.name));
    }
    all
}

/// Checks the name of a counter of a source that has only these.
fn known<'a>(
    source: &str,
    name: &str,
    all: impl Iterator<Item = &'a str>,
) -> Result<(), CounterError> {
    let names: Vec<&str> = all.collect();
    if names.contains(&name) {
        return Ok(());
    }
    let near = did_you_mean(closest(name, names.iter().copied()).as_slice());
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
