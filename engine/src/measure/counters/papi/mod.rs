//! `papi`: preset and native events of PAPI by name, through libpapi where it is installed.
//!
//! An event counts here if adding it *and* counting with it succeeds: PAPI lists presets that it then cannot add, and
//! adds some that stay 0. Events that cannot be counted together are put into sets of their own. Each set counts in a
//! pass of its own, so nothing is multiplexed. Each thread has its own set ([`source`]).

mod library;
mod source;
#[cfg(test)]
mod tests;

use std::ffi::c_int;

use library::{Api, CONFLICT, Code, papi};
use source::{PapiSource, Scope};

use super::perf::{permission, some_of_everything};
use super::request::Selection;
use super::{Counter, CounterError, CounterFact, Opened, SourceKind, Survey, refused, unit};

/// The kind.
pub(super) struct PapiEvents;

const NAME: &str = "papi";

/// The events that TVM's collector counted on a CPU by default, and the presets for the same.
const USUAL: [&str; 8] = [
    "perf::CYCLES",
    "perf::INSTRUCTIONS",
    "perf::STALLED-CYCLES-FRONTEND",
    "perf::STALLED-CYCLES-BACKEND",
    "perf::CACHE-MISSES",
    "perf::TASK-CLOCK",
    "perf::PAGE-FAULTS",
    "perf::CONTEXT-SWITCHES",
];
/// Other common events, in the order of the list.
const SHOWN: [&str; 8] = [
    "PAPI_TOT_CYC",
    "PAPI_TOT_INS",
    "PAPI_L1_DCM",
    "PAPI_L2_TCM",
    "PAPI_L3_TCM",
    "PAPI_BR_MSP",
    "PAPI_FP_OPS",
    "PAPI_VEC_SP",
];
/// The component whose events must not stay 0 while the processor works, except those of the operating system.
const PROCESSOR: &str = "perf_event";
const KERNEL_EVENTS: [&str; 8] = [
    "CLOCK",
    "FAULTS",
    "SWITCHES",
    "MIGRATIONS",
    "_SW_",
    "DUMMY",
    "BPF",
    "CGROUP",
];

fn counter(event: &str) -> Counter {
    Counter::new(event, unit(event))
}

/// An event that counts here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    name: String,
    code: c_int,
    component: c_int,
    scope: Scope,
}

/// The commands that list the events of a machine.
const LISTS: &str = "`papi_avail -a` and `papi_native_avail` list the events of this machine; without a PMU use --counters callgrind";

/// PAPI's message about an event, with a remedy.
fn refusal(api: &dyn Api, event: &str, code: Code) -> CounterError {
    const UNKNOWN: [c_int; 2] = [-1, -7];
    const REFUSED: c_int = -15;
    let words = api.words(code);
    let next = match code.0 {
        code if UNKNOWN.contains(&code) => LISTS.to_owned(),
        REFUSED => permission(2),
        CONFLICT => "name it without the others".to_owned(),
        _ => "see papi_component_avail for what this PAPI counts here".to_owned(),
    };
    CounterError::new(
        format!("{NAME}:{event}"),
        format!("PAPI refuses it: {words}"),
        next,
    )
}

/// The refusal of an event where PAPI switched off the component of the processor and the kernel: PAPI then calls its
/// events unknown. None where it did not, and for events of other components, which have three colons in their names.
fn switched_off(api: &dyn Api, event: &str) -> Option<CounterError> {
    let reason = api.disabled(PROCESSOR).filter(|_| !event.contains(":::"))?;
    // PAPI's table of events lists only processors that are older than its release.
    let next = match &reason {
        reason if reason.contains("paranoid") => permission(2),
        reason if reason.contains("libpfm") => {
            "a newer PAPI may know this processor; without a PMU use --counters callgrind"
                .to_owned()
        }
        _ => "`papi_component_avail` says more; without a PMU use --counters callgrind".to_owned(),
    };
    Some(CounterError::new(
        format!("{NAME}:{event}"),
        format!("PAPI has switched off {PROCESSOR}: {reason}"),
        next,
    ))
}

/// Whether an event counts, tried on work that has some of everything.
fn check(api: &dyn Api, name: &str) -> Result<Event, CounterError> {
    let no = |code| switched_off(api, name).unwrap_or_else(|| refusal(api, name, code));
    let unknown = |code| {
        switched_off(api, name).unwrap_or_else(|| CounterError {
            next: LISTS.to_owned(),
            ..refusal(api, name, code)
        })
    };
    let code = api.event(name).map_err(unknown)?;
    let (component, component_name) = api.component(code).map_err(no)?;
    let scope = Scope::of(api, component).map_err(no)?;
    let set = api.set(component).map_err(no)?;
    let mut value = [0i64];
    let tried = scope.place(api, set).and_then(|()| {
        api.add(set, code)?;
        api.start(set)?;
        let _ = std::hint::black_box(some_of_everything());
        api.stop(set, &mut value)
    });
    api.free(set);
    tried.map_err(no)?;
    let of_kernel = KERNEL_EVENTS.iter().any(|part| name.contains(part));
    if component_name == PROCESSOR && !of_kernel && value[0] <= 0 {
        return Err(CounterError::new(
            format!("{NAME}:{name}"),
            "it can be added, but stays 0 whatever is run",
            "leave it out: this processor, or the virtual machine, does not count it",
        ));
    }
    Ok(Event {
        name: name.to_owned(),
        code,
        component,
        scope,
    })
}

/// Splits events into sets that can be counted together: of one component, and without a conflict.
fn sets(api: &dyn Api, events: &[Event]) -> Vec<Vec<Event>> {
    let mut sets: Vec<Vec<Event>> = Vec::new();
    for event in events {
        let fits = |others: &&mut Vec<Event>| {
            others[0].component == event.component && together(api, others, event)
        };
        match sets.iter_mut().find(fits) {
            Some(others) => others.push(event.clone()),
            None => sets.push(vec![event.clone()]),
        }
    }
    sets
}

/// Whether an event can be added to others, and all of them then start.
fn together(api: &dyn Api, others: &[Event], event: &Event) -> bool {
    let Ok(set) = api.set(event.component) else {
        return false;
    };
    let mut all = others.iter().chain([event]);
    let mut values = vec![0i64; others.len() + 1];
    let tried = all
        .try_for_each(|event| api.add(set, event.code))
        .and_then(|()| api.start(set))
        .and_then(|()| api.stop(set, &mut values));
    api.free(set);
    tried.is_ok()
}

/// Opens events with `api` for all threads of the process.
fn open(api: &'static dyn Api, names: &[String]) -> Opened {
    let mut opened = Opened::default();
    let mut events: Vec<Event> = Vec::new();
    for name in names {
        match check(api, name) {
            Ok(event) => events.push(event),
            Err(error) => opened.refused.push(refused(NAME, counter(name), &error)),
        }
    }
    for set in sets(api, &events) {
        match PapiSource::open(api, &set) {
            Ok(source) => opened.meters.push(Box::new(source)),
            Err(error) => {
                let all = set.iter().map(|e| refused(NAME, counter(&e.name), &error));
                opened.refused.extend(all);
            }
        }
    }
    opened
}

impl SourceKind for PapiEvents {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "preset and native events of PAPI"
    }

    fn survey(&self) -> Survey {
        let api: &dyn Api = match papi() {
            Ok(papi) => papi,
            Err(error) => {
                return Survey {
                    state: Err(error),
                    counters: Vec::new(),
                };
            }
        };
        let all = USUAL.iter().map(|name| (name, true));
        let all = all.chain(SHOWN.iter().map(|name| (name, false)));
        let facts = all.map(|(name, usual)| CounterFact {
            counter: counter(name),
            usual,
            problem: check(api, name).err(),
        });
        let counters: Vec<CounterFact> = facts.collect();
        let here = counters.iter().filter(|c| c.problem.is_none()).count();
        let (major, minor) = api.version();
        // If none of the common events counts, the source is called missing. A named event may still count.
        let state = match counters.iter().find_map(|c| c.problem.clone()) {
            Some(problem) if here == 0 => Err(CounterError {
                subject: NAME.to_owned(),
                reason: format!(
                    "PAPI {major}.{minor} counts nothing usual: {}",
                    problem.reason
                ),
                ..problem
            }),
            _ => Ok(format!(
                "PAPI {major}.{minor}; {here} of the {} below count here, others by name",
                counters.len()
            )),
        };
        Survey { state, counters }
    }

    fn check(&self, event: &str) -> Result<(), CounterError> {
        check(papi()?, event).map(|_| ())
    }

    fn open(&self, events: &Selection) -> Opened {
        let api: &'static dyn Api = match papi() {
            Ok(papi) => papi,
            Err(error) => {
                let names = match events {
                    Selection::Usual => USUAL.map(str::to_owned).to_vec(),
                    Selection::Listed(names) => names.clone(),
                };
                let all = names.iter().map(|n| refused(NAME, counter(n), &error));
                return Opened {
                    refused: all.collect(),
                    ..Opened::default()
                };
            }
        };
        match events {
            Selection::Usual => open(api, &USUAL.map(str::to_owned)),
            Selection::Listed(names) => open(api, names),
        }
    }
}
