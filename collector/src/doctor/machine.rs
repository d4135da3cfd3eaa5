//! Counters, frequency, cores, memory and load: what disturbs or limits measurements.

use opdata::contract::{Environment, Pmu, Virtualisation};
use opengine::measure::counters::Survey;
use opreport::units;

use super::check::Check;

/// Below this much free memory larger models may not fit.
const LITTLE_MEMORY_BYTES: u64 = 4 << 30;

/// Below this much none of the zoo's larger models fits.
const TOO_LITTLE_MEMORY_BYTES: u64 = 1 << 30;

/// Load on the machine above this part of its cores disturbs measurements.
const BUSY_SHARE: f64 = 0.25;

/// The most restrictive `perf_event_paranoid` under which a process may count its own user mode.
const PARANOID_LIMIT: i64 = 2;

pub(super) fn check_pmu(environment: &Environment) -> Check {
    const NAME: &str = "PMU counters";
    let paranoid = environment.state.perf_event_paranoid;
    let setting = paranoid.map_or_else(
        || "kernel.perf_event_paranoid cannot be read".to_owned(),
        |value| format!("kernel.perf_event_paranoid is {value}"),
    );
    match environment.state.pmu {
        Pmu::Available => Check::ok(NAME, format!("cycles can be counted ({setting})")),
        Pmu::Refused if paranoid.is_some_and(|value| value > PARANOID_LIMIT) => Check::warn(
            NAME,
            format!("refused: {setting}"),
            format!("sudo sysctl kernel.perf_event_paranoid={PARANOID_LIMIT}"),
        ),
        Pmu::Refused => Check::warn(
            NAME,
            format!("refused, though {setting}"),
            "in a container, allow perf_event_open (e.g. --cap-add PERFMON); times are measured all the same",
        ),
        Pmu::Absent => Check::warn(
            NAME,
            match environment.machine.virtualisation {
                Virtualisation::Virtual { .. } => "none: the hypervisor passes no counters on",
                Virtualisation::None => "none that the kernel knows",
            },
            "measure on bare metal, or let the host give the guest a virtual PMU; times are measured all the same",
        ),
        Pmu::Unknown { errno } => Check::warn(
            NAME,
            format!("perf_event_open fails with error {errno} ({setting})"),
            "see perf_event_open(2); times are measured all the same",
        ),
    }
}

/// Whether a source of counters is available, and how to enable it.
pub(super) fn check_counters(name: &'static str, survey: &Survey) -> Check {
    match &survey.state {
        Ok(finding) => Check::ok(name, format!("counters: {finding}")),
        Err(error) => Check::warn(
            name,
            format!("no counters: {}", error.reason),
            error.next.clone(),
        ),
    }
}

pub(super) fn check_governor(environment: &Environment) -> Check {
    const NAME: &str = "governor";
    let governors = &environment.state.governors;
    if governors.is_empty() {
        Check::ok(
            NAME,
            "no frequency control to be seen (usual in virtual machines)",
        )
    } else if governors.iter().all(|governor| governor == "performance") {
        Check::ok(NAME, "performance")
    } else {
        Check::warn(
            NAME,
            format!(
                "{}: clocks follow the load, so short kernels look slower",
                governors.join(", ")
            ),
            "sudo cpupower frequency-set -g performance",
        )
    }
}

pub(super) fn check_cores(environment: &Environment, threads: &[u32]) -> Check {
    const NAME: &str = "cores";
    let (machine, state) = (&environment.machine, &environment.state);
    let usable = state.cores_usable;
    let mut finding = format!("{} online, {usable} usable", machine.cores_online);
    if let Some(physical) = machine
        .cores_physical
        .filter(|p| *p != machine.cores_online)
    {
        finding.push_str(&format!(", {physical} physical"));
    }
    if let Some(quota) = state.cpu_quota_cores {
        finding.push_str(&format!(", a quota of {quota:.1} cores"));
    }
    let most = threads.iter().copied().max().unwrap_or(1);
    if most > usable {
        let fix = format!(
            "measure at most {} (--threads), or allow more cores",
            units::plural(u64::from(usable), "thread")
        );
        return Check::warn(
            NAME,
            format!("{finding}, but {most} threads are asked for"),
            fix,
        );
    }
    let whole = state
        .cpu_quota_cores
        .is_none_or(|quota| quota >= f64::from(most));
    if whole {
        Check::ok(NAME, finding)
    } else {
        let fix = "allow whole cores: with less, the kernel stops threads in mid-measurement";
        Check::warn(NAME, finding, fix)
    }
}

pub(super) fn check_memory(environment: &Environment) -> Check {
    const NAME: &str = "memory";
    let memory = environment.state.memory;
    let (Some(total), Some(available)) = (memory.total_bytes, memory.available_bytes) else {
        return Check::warn(NAME, "/proc/meminfo cannot be read", "mount /proc");
    };
    let finding = format!(
        "{} available of {}",
        units::bytes(available as f64),
        units::bytes(total as f64)
    );
    if available < TOO_LITTLE_MEMORY_BYTES {
        Check::fail(
            NAME,
            finding,
            "end other programs, or use a machine with more",
        )
    } else if available < LITTLE_MEMORY_BYTES {
        Check::warn(
            NAME,
            finding,
            "large models need 4 GiB: end other programs, or lower --memory-limit to fail early",
        )
    } else {
        Check::ok(NAME, finding)
    }
}

/// Whether other work would disturb measurements.
pub fn check_load(environment: &Environment) -> Check {
    const NAME: &str = "load";
    let Some(load) = environment.state.load_1min else {
        return Check::warn(NAME, "/proc/loadavg cannot be read", "mount /proc");
    };
    let cores = environment.machine.cores_online;
    let finding = format!("{load:.2} on {}", units::plural(u64::from(cores), "core"));
    if load > BUSY_SHARE * f64::from(cores) {
        Check::warn(
            NAME,
            format!("{finding}: other work disturbs measurements"),
            "wait until the machine is quiet, or end the other work",
        )
    } else {
        Check::ok(NAME, finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus::{Fail, Ok, Warn};
    use opdata::contract::Software;
    use opengine::env::Root;

    /// A quiet, open machine of four cores, that each test changes for the worse.
    fn healthy() -> Environment {
        let nothing = tempfile::tempdir().unwrap();
        let mut environment =
            opengine::env::capture(&Root::at(nothing.path()), Software::default());
        environment.machine.cores_online = 4;
        environment.machine.cores_physical = Some(4);
        environment.state.cores_usable = 4;
        environment.state.cpu_quota_cores = None;
        environment.state.memory.total_bytes = Some(16 << 30);
        environment.state.memory.available_bytes = Some(12 << 30);
        environment.state.load_1min = Some(0.1);
        environment.state.pmu = Pmu::Available;
        environment.state.perf_event_paranoid = Some(1);
        environment
    }

    #[test]
    fn a_healthy_machine() {
        let environment = healthy();
        for check in [
            check_pmu(&environment),
            check_governor(&environment),
            check_cores(&environment, &[1, 4]),
            check_memory(&environment),
            check_load(&environment),
        ] {
            assert_eq!(check.status, Ok, "{check:?}");
            assert_eq!(check.fix, None);
        }
    }

    #[test]
    fn counters_refused_name_the_setting() {
        let mut environment = healthy();
        environment.state.pmu = Pmu::Refused;
        environment.state.perf_event_paranoid = Some(4);
        let check = check_pmu(&environment);
        assert_eq!(check.finding, "refused: kernel.perf_event_paranoid is 4");
        assert_eq!(
            check.fix.as_deref(),
            Some("sudo sysctl kernel.perf_event_paranoid=2")
        );
        environment.state.perf_event_paranoid = Some(2);
        assert!(check_pmu(&environment).fix.unwrap().contains("container"));
        environment.state.pmu = Pmu::Absent;
        assert_eq!(check_pmu(&environment).status, Warn);
    }

    #[test]
    fn sick_machines() {
        let mut environment = healthy();
        environment.state.governors = vec!["powersave".to_owned()];
        assert_eq!(check_governor(&environment).status, Warn);
        assert_eq!(check_cores(&environment, &[8]).status, Warn);
        environment.state.cpu_quota_cores = Some(1.5);
        environment.state.cores_usable = 2;
        assert_eq!(check_cores(&environment, &[1]).status, Ok);
        assert_eq!(check_cores(&environment, &[2]).status, Warn);
        environment.state.memory.available_bytes = Some(2 << 30);
        assert_eq!(check_memory(&environment).status, Warn);
        environment.state.memory.available_bytes = Some(100 << 20);
        assert_eq!(check_memory(&environment).status, Fail);
        environment.state.load_1min = Some(1.2);
        assert_eq!(check_load(&environment).status, Warn);
        environment.state.load_1min = None;
        assert_eq!(check_load(&environment).status, Warn);
    }
}
