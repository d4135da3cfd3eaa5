//! Load by other processes: their share of CPU time over an interval.
//!
//! Read from `/proc/stat`, whose clock ticks are 10 ms long on most systems. So a short time has no share.

use std::time::Duration;

/// Minimum number of ticks of all cores together for a share: of 25, one tick is 4 %.
const MIN_TICKS: u64 = 25;

/// The beginning of an interval of time.
#[derive(Debug, Clone, Copy)]
pub struct LoadMeter {
    begun: Option<CpuTimes>,
}

/// CPU times since the system or the process began.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuTimes {
    /// Ticks of all cores.
    total: u64,
    /// Ticks in which a process ran, or that the hypervisor took.
    busy: u64,
    /// Time that this process worked.
    own: Duration,
}

impl LoadMeter {
    /// An interval that begins now.
    pub fn start() -> LoadMeter {
        LoadMeter {
            begun: CpuTimes::now(),
        }
    }

    /// Share of the CPU time of all cores (0 to 1) that other processes took since then. Nothing where the system does
    /// not report it, or too little time has passed.
    pub fn other_cpu_share(&self) -> Option<f64> {
        share(self.begun?, CpuTimes::now()?, ticks_per_second()?)
    }
}

impl CpuTimes {
    fn now() -> Option<CpuTimes> {
        let (total, busy) = ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
        Some(CpuTimes {
            total,
            busy,
            own: own_time()?,
        })
    }
}

fn share(from: CpuTimes, to: CpuTimes, ticks_per_second: f64) -> Option<f64> {
    let total = to.total.checked_sub(from.total)?;
    if total < MIN_TICKS {
        return None;
    }
    let busy = to.busy.saturating_sub(from.busy) as f64;
    let own = to.own.saturating_sub(from.own).as_secs_f64() * ticks_per_second;
    Some(((busy - own) / total as f64).clamp(0.0, 1.0))
}

/// Ticks of all cores, and the busy ones among them, by the first line of `/proc/stat`:
/// `cpu user nice system idle iowait irq softirq steal …`.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.lines().next()?.split_ascii_whitespace();
    if fields.next()? != "cpu" {
        return None;
    }
    // Time of guests stands in that of user and nice already.
    let times: Vec<u64> = fields.take(8).map_while(|f| f.parse().ok()).collect();
    let idle = times.get(3)? + times.get(4).copied().unwrap_or(0);
    let total: u64 = times.iter().sum();
    Some((total, total.checked_sub(idle)?))
}

/// CPU time of this process's threads so far.
fn own_time() -> Option<Duration> {
    // SAFETY: all-zero bytes are a valid `rusage`, which holds numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid and lives through the call.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) } != 0 {
        return None;
    }
    let time = |t: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(t.tv_sec).ok()?);
        Some(seconds + Duration::from_micros(u64::try_from(t.tv_usec).ok()?))
    };
    Some(time(usage.ru_utime)? + time(usage.ru_stime)?)
}

fn ticks_per_second() -> Option<f64> {
    // SAFETY: a plain question with a constant argument.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (ticks > 0).then_some(ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(total: u64, busy: u64, own_ms: u64) -> CpuTimes {
        CpuTimes {
            total,
            busy,
            own: Duration::from_millis(own_ms),
        }
    }

    #[test]
    fn the_share_is_what_others_took_of_all_cores() {
        // One second of two cores: 150 ticks busy, 100 of them by this process.
        let from = reading(1000, 400, 0);
        let share_of = |to| share(from, to, 100.0);
        assert_eq!(share_of(reading(1200, 550, 1000)), Some(0.25));
        assert_eq!(share_of(reading(1200, 500, 1000)), Some(0.0));
        // Ticks are counted a little late: no share is negative.
        assert_eq!(share_of(reading(1200, 490, 1000)), Some(0.0));
        assert_eq!(share_of(reading(1010, 405, 10)), None, "too short");
    }

    #[test]
    fn the_first_line_of_stat_is_read() {
        let stat = "cpu  100 10 50 800 40 1 2 30 7 0\ncpu0 1 2 3\n";
        assert_eq!(ticks(stat), Some((1033, 193)));
        assert_eq!(ticks("cpu0 1 2 3 4"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn this_process_alone_is_not_others() {
        let meter = LoadMeter::start();
        let until = std::time::Instant::now() + Duration::from_millis(50);
        while std::time::Instant::now() < until {}
        let share = meter.other_cpu_share();
        assert!(share.is_none_or(|s| (0.0..=1.0).contains(&s)), "{share:?}");
    }
}
