//! The events of `perf` by name, opening a counter for one, and whether it counts here.

use std::io;

use opreport::nearest::{closest, did_you_mean};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};
use perf_event::{Builder, Counter as Handle, ReadFormat};

use super::{NAME, Seen};
use crate::measure::counters::{Counter, CounterError, unit};

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
    pub origin: Origin,
    pub is_usual: bool,
}

/// The events with a name, in the order of the list.
const NAMES: &str = "task-clock page-faults minor-faults major-faults context-switches cpu-migrations cycles \
    instructions stalled-cycles-frontend stalled-cycles-backend cache-references cache-misses \
    branches branch-misses L1-dcache-loads L1-dcache-load-misses LLC-load-misses \
    dTLB-load-misses";
/// The events that are counted by default.
const USUAL: &str = "task-clock page-faults context-switches cpu-migrations cycles instructions \
    stalled-cycles-frontend stalled-cycles-backend cache-misses branch-misses \
    L1-dcache-load-misses";

/// The origin of an event with a name.
fn origin(name: &str) -> Option<Origin> {
    use Origin::{Caches, Kernel, Processor};
    use UserMode::{Seen, Unseen};
    Some(match name {
        "task-clock" => Kernel(Software::TASK_CLOCK, Seen),
        "page-faults" => Kernel(Software::PAGE_FAULTS, Seen),
        "minor-faults" => Kernel(Software::PAGE_FAULTS_MIN, Seen),
        "major-faults" => Kernel(Software::PAGE_FAULTS_MAJ, Seen),
        "context-switches" => Kernel(Software::CONTEXT_SWITCHES, Unseen),
        "cpu-migrations" => Kernel(Software::CPU_MIGRATIONS, Unseen),
        "cycles" => Processor(Hardware::CPU_CYCLES),
        "instructions" => Processor(Hardware::INSTRUCTIONS),
        "stalled-cycles-frontend" => Processor(Hardware::STALLED_CYCLES_FRONTEND),
        "stalled-cycles-backend" => Processor(Hardware::STALLED_CYCLES_BACKEND),
        "cache-references" => Processor(Hardware::CACHE_REFERENCES),
        "cache-misses" => Processor(Hardware::CACHE_MISSES),
        "branches" => Processor(Hardware::BRANCH_INSTRUCTIONS),
        "branch-misses" => Processor(Hardware::BRANCH_MISSES),
        "L1-dcache-loads" => Caches(CacheId::L1D, CacheOp::READ, CacheResult::ACCESS),
        "L1-dcache-load-misses" => Caches(CacheId::L1D, CacheOp::READ, CacheResult::MISS),
        "LLC-load-misses" => Caches(CacheId::LL, CacheOp::READ, CacheResult::MISS),
        "dTLB-load-misses" => Caches(CacheId::DTLB, CacheOp::READ, CacheResult::MISS),
        _ => return None,
    })
}

/// The names of the events.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.split(' ')
}

/// The event of this name: one of [`names`], or `r` and the number of an event in hexadecimal, as `perf` takes it.
pub(super) fn event(name: &str) -> Result<Event, CounterError> {
    let raw = || u64::from_str_radix(name.strip_prefix('r')?, 16).ok();
    let Some(origin) = origin(name).or_else(|| raw().map(Origin::Raw)) else {
        let near = did_you_mean(closest(name, names()).as_slice());
        return Err(CounterError::new(
            format!("{NAME}:{name}"),
            format!("perf has no event `{name}`{near}"),
            "`opcollect list counters` has its events; a raw one is r and its number in hexadecimal",
        ));
    };
    Ok(Event {
        name: name.to_owned(),
        origin,
        is_usual: USUAL.split(' ').any(|usual| usual == name),
    })
}

impl Event {
    pub fn counter(&self) -> Counter {
        Counter::new(&self.name, unit(&self.name))
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
