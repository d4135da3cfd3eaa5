//! The events of `perf` by name, opening a counter for one, and whether it counts here.

use std::io;

use opreport::nearest::{closest, did_you_mean};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, Counter as Handle, ReadFormat};

use super::{NAME, Seen};
use crate::measure::counters::{Counter, CounterError};

/// Where an event is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The kernel: a software event, and whether a process that may only count user mode sees it.
    Kernel(Software, UserMode),
    /// The processor.
    Processor(Hardware),
    /// The processor, by cache.
    Caches(CacheId, CacheOp, CacheResult),
    /// The processor, by the number that its manual gives the event.
    Raw(u64),
}

/// Whether a process that may only count user mode sees a software event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserMode {
    Seen,
    Unseen,
}

/// An event by the name that the program `perf` gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub name: String,
    pub unit: &'static str,
    pub origin: Origin,
}

/// Events, whether they are usual, and their units.
pub(super) const EVENTS: &[(&str, &str, Origin, bool)] = &[
    (
        "task-clock",
        "ns",
        Origin::Kernel(Software::TASK_CLOCK, UserMode::Seen),
        true,
    ),
    (
        "page-faults",
        "events",
        Origin::Kernel(Software::PAGE_FAULTS, UserMode::Seen),
        true,
    ),
    (
        "minor-faults",
        "events",
        Origin::Kernel(Software::PAGE_FAULTS_MIN, UserMode::Seen),
        false,
    ),
    (
        "major-faults",
        "events",
        Origin::Kernel(Software::PAGE_FAULTS_MAJ, UserMode::Seen),
        false,
    ),
    (
        "context-switches",
        "events",
        Origin::Kernel(Software::CONTEXT_SWITCHES, UserMode::Unseen),
        true,
    ),
    (
        "cpu-migrations",
        "events",
        Origin::Kernel(Software::CPU_MIGRATIONS, UserMode::Unseen),
        true,
    ),
    (
        "cycles",
        "cycles",
        Origin::Processor(Hardware::CPU_CYCLES),
        true,
    ),
    (
        "instructions",
        "instructions",
        Origin::Processor(Hardware::INSTRUCTIONS),
        true,
    ),
    (
        "stalled-cycles-frontend",
        "cycles",
        Origin::Processor(Hardware::STALLED_CYCLES_FRONTEND),
        true,
    ),
    (
        "stalled-cycles-backend",
        "cycles",
        Origin::Processor(Hardware::STALLED_CYCLES_BACKEND),
        true,
    ),
    (
        "cache-references",
        "events",
        Origin::Processor(Hardware::CACHE_REFERENCES),
        false,
    ),
    (
        "cache-misses",
        "events",
        Origin::Processor(Hardware::CACHE_MISSES),
        true,
    ),
    (
        "branches",
        "events",
        Origin::Processor(Hardware::BRANCH_INSTRUCTIONS),
        false,
    ),
    (
        "branch-misses",
        "events",
        Origin::Processor(Hardware::BRANCH_MISSES),
        true,
    ),
    (
        "L1-dcache-loads",
        "events",
        Origin::Caches(CacheId::L1D, CacheOp::READ, CacheResult::ACCESS),
        false,
    ),
    (
        "L1-dcache-load-misses",
        "events",
        Origin::Caches(CacheId::L1D, CacheOp::READ, CacheResult::MISS),
        true,
    ),
    (
        "LLC-load-misses",
        "events",
        Origin::Caches(CacheId::LL, CacheOp::READ, CacheResult::MISS),
        false,
    ),
    (
        "dTLB-load-misses",
        "events",
        Origin::Caches(CacheId::DTLB, CacheOp::READ, CacheResult::MISS),
        false,
    ),
];

/// The event of this name: one of [`EVENTS`], or `r` and the number of an event in hexadecimal, as `perf` takes it.
pub(super) fn event(name: &str) -> Result<Event, CounterError> {
    let named = EVENTS.iter().find(|(known, ..)| *known == name);
    let raw = || u64::from_str_radix(name.strip_prefix('r')?, 16).ok();
    match (named, raw()) {
        (Some(&(name, unit, origin, _)), _) => Ok(Event {
            name: name.to_owned(),
            unit,
            origin,
        }),
        (None, Some(config)) => Ok(Event {
            name: name.to_owned(),
            unit: "events",
            origin: Origin::Raw(config),
        }),
        (None, None) => {
            let near = closest(name, EVENTS.iter().map(|(known, ..)| *known));
            let near = did_you_mean(near.as_slice());
            Err(CounterError::new(
                format!("{NAME}:{name}"),
                format!("perf has no event `{name}`{near}"),
                "`opcollect list counters` has its events; a raw one is r and its number in hexadecimal",
            ))
        }
    }
}

pub(super) fn usual() -> impl Iterator<Item = Event> {
    let usual = EVENTS.iter().filter(|(.., usual)| *usual);
    usual.filter_map(|(name, ..)| event(name).ok())
}

impl Event {
    pub fn counter(&self) -> Counter {
        Counter::new(&self.name, self.unit)
    }

    /// Opens a counter for one thread of this process; 0 is the calling one.
    pub fn open(&self, task: libc::pid_t) -> io::Result<Handle> {
        let (mut builder, user_only) = match self.origin {
            Origin::Kernel(event, _) => (Builder::new(event), false),
            Origin::Processor(event) => (Builder::new(event), true),
            Origin::Caches(which, operation, result) => (
                Builder::new(Cache {
                    which,
                    operation,
                    result,
                }),
                true,
            ),
            Origin::Raw(config) => (Builder::new(Raw::new(config)), true),
        };
        builder
            .observe_pid(task)
            .any_cpu()
            .exclude_hv(user_only)
            .exclude_kernel(user_only)
            .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        let opened = builder.build();
        let refused = |error: &io::Error| is_refusal(error.raw_os_error());
        match (&opened, self.origin) {
            (Err(error), Origin::Kernel(_, UserMode::Seen)) if refused(error) => {
                builder.exclude_kernel(true).exclude_hv(true).build()
            }
            _ => opened,
        }
    }

    /// Checks that the event counts here. A hardware event must also have a count above 0 for work that triggers all
    /// kinds of events.
    pub fn check(&self) -> Result<(), CounterError> {
        let refusal = |error: io::Error| self.refusal(error.raw_os_error(), paranoid());
        let mut handle = self.open(0).map_err(refusal)?;
        if matches!(self.origin, Origin::Kernel(..)) {
            return Ok(());
        }
        handle.enable().map_err(refusal)?;
        let _ = std::hint::black_box(some_of_everything());
        handle.disable().map_err(refusal)?;
        match Seen::read(&mut handle) {
            Ok(seen) if seen.count > 0 => Ok(()),
            Ok(_) => Err(CounterError::new(
                format!("{NAME}:{}", self.name),
                "it can be added, but stays 0 whatever is run",
                "leave it out: this processor, or the virtual machine, does not count it",
            )),
            Err(error) => Err(refusal(error)),
        }
    }

    /// The meaning of the operating system's error for a user who wants to count.
    pub fn refusal(&self, errno: Option<i32>, paranoid: Option<i64>) -> CounterError {
        let setting = paranoid.map_or_else(String::new, |value| {
            format!(" (kernel.perf_event_paranoid is {value})")
        });
        let wanted = match self.origin {
            Origin::Kernel(_, UserMode::Unseen) => 1,
            _ => 2,
        };
        let (reason, next) = match errno {
            errno if is_refusal(errno) => (
                format!("the system refuses it{setting}"),
                mend(paranoid, wanted),
            ),
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => (
                "there is no PMU with it here, or the hypervisor passes none on"
                    .to_owned(),
                "measure on bare metal or with a virtual PMU; --counters callgrind simulates instructions and caches"
                    .to_owned(),
            ),
            Some(libc::EMFILE) => (
                "too many files are open".to_owned(),
                "raise the limit with ulimit -n, or count less".to_owned(),
            ),
            Some(libc::ENOSYS) => (
                "this system has no perf_event_open".to_owned(),
                "use a kernel with CONFIG_PERF_EVENTS".to_owned(),
            ),
            errno => (
                format!(
                    "perf_event_open fails: {}",
                    errno.map_or_else(
                        || "no reason given".to_owned(),
                        |errno| io::Error::from_raw_os_error(errno).to_string()
                    )
                ),
                "see perf_event_open(2)".to_owned(),
            ),
        };
        CounterError::new(format!("{NAME}:{}", self.name), reason, next)
    }
}

/// How to get the permission to count, if `kernel.perf_event_paranoid` must be at most `wanted`.
pub(in crate::measure::counters) fn permission(wanted: i64) -> String {
    mend(paranoid(), wanted)
}

/// The advice for a known setting.
fn mend(paranoid: Option<i64>, wanted: i64) -> String {
    match paranoid {
        Some(value) if value <= wanted => {
            "in a container, allow perf_event_open (e.g. --cap-add PERFMON)".to_owned()
        }
        _ => format!("sudo sysctl kernel.perf_event_paranoid={wanted}"),
    }
}

pub(super) fn is_refusal(errno: Option<i32>) -> bool {
    matches!(errno, Some(libc::EACCES | libc::EPERM))
}

pub(super) fn paranoid() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// Work with cache misses, branches that nobody predicts, and arithmetic: a hardware event that sees nothing of it does
/// not count.
pub(in crate::measure::counters) fn some_of_everything() -> u64 {
    const WORDS: usize = 1 << 20;
    const STEPS: usize = 1 << 17;
    let mut words = vec![0u64; WORDS];
    let (mut state, mut sum) = (0x9e37_79b9_7f4a_7c15u64, 0u64);
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = state as usize % WORDS;
        if words[place] & 1 == state >> 63 {
            sum = sum.wrapping_add(words[place]);
            words[place] = state;
        } else {
            sum ^= state;
        }
    }
    sum
}
